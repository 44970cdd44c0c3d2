// Parts of several views: a long computation with its progress, and the downloads.

import { h, copy, save } from "./dom.js";
import { follow } from "./ask.js";

/** The place of a long answer: its progress, a button that cancels it, then the elements that `shown` makes of it. */
export function working(frame, operation, shown, idle = null) {
  const place = h("div");
  if (idle) place.append(idle);
  let control = null, asked = "";
  const run = async (given) => {
    control?.abort();
    const mine = (control = new AbortController());
    asked = JSON.stringify(given);
    const fill = h("i"), bar = h("div", { cls: "bar unknown" }, fill), said = h("span", { role: "status", text: "Starting …" });
    const end = h("button", { type: "button", text: "Cancel", onclick: () => mine.abort() });
    const busy = h("div", { cls: "working" }, said, bar, end);
    place.querySelectorAll(":scope > .working, :scope > .old").forEach((one) => one.remove());
    place.append(busy);
    const found = await frame.guard(() => follow(operation, given, ({ step, done, total }) => {
      said.textContent = total ? `${step[0].toUpperCase()}${step.slice(1)}: ${Math.min(done, total)} of ${total}` : `${step} …`;
      bar.classList.toggle("unknown", !total);
      fill.style.width = total ? `${100 * Math.min(1, done / total)}%` : "";
    }, mine.signal));
    if (control !== mine) return null;
    busy.remove();
    control = null;
    if (found) place.replaceChildren(...[shown(found)].flat());
    else if (mine.signal.aborted) place.append(h("p", { cls: "working", role: "status", text: "Cancelled." }));
    return found;
  };
  const outdate = (given) => {
    if (asked && asked !== JSON.stringify(given) && !place.querySelector(":scope > .old, :scope > .working"))
      place.prepend(h("p", { cls: "old", text: "This was computed for other settings; ask again." }));
  };
  return { place, run, stop: () => control?.abort(), outdate };
}

export const waiting = () => h("p", { cls: "say", text: "Computing …" });

/** Returns a function that calls `work` once there was no further call for some time. */
export function settled(work, milliseconds) {
  let clock = 0;
  return (...given) => { clearTimeout(clock); clock = setTimeout(() => work(...given), milliseconds); };
}

export const block = (title, text, shown = text) => {
  const button = h("button", { type: "button", text: "Copy", onclick: () => copy(text, button) });
  return h("div", null, h("div", { cls: "head" }, h("h3", { text: title }), button), h("pre", { tabindex: 0 }, shown));
};

/** A command line that wraps only between its options. */
const words = (command) => command.split(" ").flatMap((word) => [h("span", { text: word }), " "]);

/** The command, the Python lines, and buttons that save or make files. */
export function home({ command, python, buttons = [] }) {
  return h("section", { cls: "card home", "aria-label": "Take it home" }, h("h2", { text: "Take it home" }),
    command && block("In a terminal", command, words(command)), python && block("In Python", python), buttons.length > 0 && h("div", { cls: "buttons" }, buttons));
}

export const saver = (text, name, content, type) => h("button", { type: "button", text, onclick: () => save(name, content(), type) });

/** A button that copies the link to the current state. */
export function linker() {
  const button = h("button", { type: "button", text: "Copy link to this", onclick: () => copy(location.href, button) });
  return button;
}
