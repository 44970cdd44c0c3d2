// Fields of the form: a number with a slider, a choice, a text; each calls `set` with its name and its text.

import { h, read, typed } from "./dom.js";

const PARTS = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];

/** The numbers that a slider stops at: round ones, by equal steps or, where `log`, about equal factors. */
function stops({ low, high, log, whole, step }) {
  if (!log) return Array.from({ length: Math.round((high - low) / step) + 1 }, (_, at) => Number((low + at * step).toPrecision(6)));
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1e-9; power++)
    for (const part of PARTS) found.push(Number(`${part}e${power}`));
  return found.filter((each) => each >= low && each <= high && (!whole || Number.isInteger(each)));
}

/** A number with a text field and a slider. */
export function slider(name, label, { value, low, high, log = false, whole = false, step = null, hint = "", set }) {
  const all = stops({ low, high, log, whole, step });
  const far = (each, number) => (log ? Math.abs(Math.log(each / number)) : Math.abs(each - number));
  const place = (number) => all.reduce((best, each, at) => (far(each, number) < far(all[best], number) ? at : best), 0);
  const at = (place) => all[place];
  const text = h("input", {
    type: "text", id: `f-${name}`, "data-name": name, inputmode: "decimal", value, spellcheck: "false",
    "aria-describedby": hint ? `h-${name}` : null,
    oninput: () => { if (Number.isFinite(read(text.value))) range.value = place(read(text.value)); set(name, text.value); },
  });
  const range = h("input", {
    type: "range", min: 0, max: all.length - 1, step: 1, "aria-label": `${label}, slider`, "data-slider": name,
    oninput: () => { text.value = typed(at(Number(range.value))); range.setAttribute("aria-valuetext", text.value); set(name, text.value); },
  });
  range.value = place(read(value) || low);
  range.setAttribute("aria-valuetext", value);
  return h("div", { cls: "field" },
    h("div", { cls: "row" }, h("label", { for: `f-${name}`, text: label }), text), range, hint && h("p", { cls: "hint", id: `h-${name}`, text: hint }));
}

export function number(name, label, { value, hint = "", set, placeholder = "" }) {
  const input = h("input", { type: "text", id: `f-${name}`, "data-name": name, value: value ?? "", placeholder, spellcheck: "false",
    "aria-describedby": hint ? `h-${name}` : null, oninput: () => set(name, input.value) });
  return h("div", { cls: "field" }, h("label", { for: `f-${name}`, text: label }), input, hint && h("p", { cls: "hint", id: `h-${name}`, text: hint }));
}

/** `groups`: [[heading or null, [[value, text]]]]. */
export function choice(name, label, { value, groups, hint = "", set }) {
  const options = (pairs) => pairs.map(([each, text]) => h("option", { value: each, text, selected: each === value }));
  const select = h("select", { id: `f-${name}`, "data-name": name, onchange: () => set(name, select.value) },
    groups.map(([heading, pairs]) => (heading ? h("optgroup", { label: heading }, options(pairs)) : options(pairs))));
  return h("div", { cls: "field" }, h("label", { for: `f-${name}`, text: label }), select, hint && h("p", { cls: "hint", text: hint }));
}

/** A table that is pasted or uploaded. */
export function pasted(name, label, { value, hint, set }) {
  const area = h("textarea", { id: `f-${name}`, "data-name": name, spellcheck: "false", value, oninput: () => set(name, area.value) });
  const file = h("input", { type: "file", accept: ".csv,.txt,text/csv,text/plain", "aria-label": "Upload a CSV file", onchange: async () => {
    if (!file.files.length) return;
    area.value = await file.files[0].text();
    set(name, area.value);
  } });
  return h("div", { cls: "field" },
    h("div", { cls: "row" }, h("label", { for: `f-${name}`, text: label }), h("span", { cls: "file" }, h("span", { cls: "button", text: "Upload …", "aria-hidden": "true" }), file)),
    area, h("p", { cls: "hint", text: hint }));
}

export const more = (summary, open, ...kids) => h("details", { cls: "more", open }, h("summary", { text: summary }), h("div", null, kids));

export const pair = (...kids) => h("div", { cls: "pair" }, kids);

/** A group of buttons, one of which is pressed. */
export function segments(label, options, value, set) {
  const made = h("div", { cls: "segments", role: "group", "aria-label": label });
  made.append(...options.map(([each, text]) => h("button", { type: "button", "aria-pressed": String(each === value), text, onclick: (event) => {
    for (const one of made.children) one.setAttribute("aria-pressed", String(one === event.currentTarget));
    set(each);
  } })));
  return made;
}
