// The proof of a number, and its downloads.

import { ask } from "./ask.js";
import { card, conditions, down, facts, grouped, h, plain, save, typed, up } from "./dom.js";
import { home, linker, settled, working } from "./part.js";
import { about, asked, defaults, fields } from "./question.js";

let summary, rest, certificate, statement, later, asking = 0;

export const proof = {
  tab: "Proof", shares: "question", defaults,
  title: "How this number was obtained",
  lead: "The theorem, its conditions, and the documents for somebody who must defend or sign it.",
  fields: (frame) => fields(frame),
  parts(frame) {
    summary = card("The theorem");
    rest = h("div", { cls: "stack" });
    certificate = working(frame, "certificate", (found) => certified(frame, found));
    statement = working(frame, "statement", (found) => stated(frame, found));
    const certify = h("button", { type: "button", cls: "first", text: "Make a certificate", onclick: () => certificate.run(question(frame)) });
    const state = h("button", { type: "button", cls: "first", text: "Write the statement", onclick: () => statement.run({ ...question(frame), form: "html" }) });
    later = settled(() => refresh(frame), 60);
    return [summary, rest,
      card("A certificate", h("p", { cls: "say", text: "A small file with which anybody can prove the same claim again, independently, with shuffledp verify." }), h("div", { cls: "buttons" }, certify), certificate.place),
      card("A statement for people", h("p", { cls: "say", text: "One page with a plain sentence, the definition and the theorem; print it to get a PDF." }), h("div", { cls: "buttons" }, state), statement.place)];
  },
  changed(frame) {
    later();
    certificate.outdate(question(frame));
    statement.outdate({ ...question(frame), form: "html" });
  },
  leave() { certificate.stop(); statement.stop(); },
};

const question = (frame) => ({ ...asked(frame, "delta"), effort: frame.state.effort });

async function refresh(frame) {
  const mine = ++asking;
  const found = await frame.guard(() => ask("amplify", question(frame)));
  if (!found || mine !== asking) return;
  const { answer: told, command, python } = found;
  summary.replaceChildren(h("h2", { text: "The theorem" }), facts([
    ["claim", h("span", { "data-exact": String(told.epsilon.upper), text: `ε = ${told.epsilon.upper} at δ = ${typed(told.delta)}` })],
    ["about", about(frame)],
    ["bound", told.bound],
    ["theorem", told.theorem],
    ["holds for", told.holds_for ?? "every two values of a person"],
    ["arithmetic", told.certified ? `proved, rounding included; at most ${up(told.epsilon.slack, 2)} above the exact value of this bound` : "in floats"],
    ["from below", told.epsilon.lower === null ? "no attack is known" : `an attack on a constructed dataset achieves ε = ${down(told.epsilon.lower, 6)}`],
    ["hidden among", `${grouped(told.messages)} messages`],
    ["parameters", Object.entries(told.parameters).map(([name, value]) => `${name} = ${plain(value, 6)}`).join(", ")],
  ]));
  rest.replaceChildren(conditions(told.conditions, "Its conditions"), home({ command, python, buttons: [linker()] }));
}

function certified(frame, { files, command }) {
  const text = files["certificate.json"], claim = JSON.parse(text);
  const checked = working(frame, "verify", ({ answer: { verdict, reason, method } }) => h("p", { cls: "say", id: "verdict", text: `${verdict === "yes" ? "Proved again" : verdict}: ${reason || method}` }));
  return [
    facts([["claim", claim.statement], ["bound", `${claim.bound}: ${claim.theorem}`], ["command", h("code", { text: command })]]),
    h("div", { cls: "chips" },
      h("button", { type: "button", text: "Save certificate.json", onclick: () => save("certificate.json", text, "application/json") }),
      h("button", { type: "button", text: "Prove it again here", onclick: () => checked.run({ certificate: claim }) })),
    checked.place];
}

function stated(frame, { files }) {
  const html = files["statement.html"];
  const page = new DOMParser().parseFromString(html.replace(/<style>.*?<\/style>/s, ""), "text/html");
  const sheet = h("article", { cls: "paper", id: "statement" }, ...page.body.childNodes);
  for (const heading of sheet.querySelectorAll("h1, h2")) {
    // The page already has a heading of the first level.
    const lower = h(heading.tagName === "H1" ? "h3" : "h4", null, ...heading.childNodes);
    heading.replaceWith(lower);
  }
  const markdown = async () => {
    const found = await frame.guard(() => ask("statement", { ...question(frame), form: "md" }));
    if (found) save("statement.md", found.files["statement.md"], "text/markdown");
  };
  return [h("div", { cls: "chips" },
    h("button", { type: "button", text: "Save statement.html", onclick: () => save("statement.html", html, "text/html") }),
    h("button", { type: "button", text: "Save statement.md", onclick: markdown }),
    h("button", { type: "button", text: "Print, or save as PDF", onclick: () => print() })), sheet];
}
