// The limits of an attacker, in words and as a curve.

import { Latest, ask } from "./ask.js";
import { card, conditions, down, h, num, percent, plain, up } from "./dom.js";
import { slider } from "./field.js";
import { home, linker, waiting } from "./part.js";
import { lines } from "./plot.js";
import { asked, defaults, fields } from "./question.js";

let words, picture, take, latest;

export const risk = {
  tab: "Risk in words", shares: "question", defaults,
  title: "What an attacker can do",
  lead: "Somebody who knows everybody else's value and sees all shuffled messages tries to tell whether one person answered A or B. No test does better than this curve.",
  fields: (frame) => [
    slider("fpr", "Accepted false alarms", { value: frame.state.fpr, low: 1e-4, high: 0.5, log: true, set: frame.set }),
    slider("prior", "Attacker's prior", { value: frame.state.prior, low: 0.01, high: 0.99, step: 0.01, set: frame.set, hint: "The probability that the attacker gives to answer B beforehand." }),
    ...fields(frame, { target: false })],
  parts(frame) {
    words = h("section", { cls: "card", "aria-live": "polite", "aria-label": "In words" }, waiting());
    picture = h("div");
    take = h("div", { cls: "stack" });
    latest = new Latest(async (given, superseded) => {
      const found = await frame.guard(() => ask("tradeoff", given));
      words.classList.toggle("stale", !found);
      if (!found) return;
      const alone = superseded() ? null : await ask("tradeoff", { ...given, users: 1, of: undefined, rate: undefined, colluding: undefined }).catch(() => null);
      if (!superseded()) shown(frame, found, alone);
    });
    return [words, card("Any test: catches against false alarms", picture), take];
  },
  changed(frame) {
    latest.ask({ ...asked(frame), fpr: [frame.state.fpr], prior: frame.state.prior, points: 101 });
  },
};

function shown(frame, { answer: told, command, python }, alone) {
  const level = told.tpr[0].fpr, catches = told.tpr[0].tpr, { prior } = told.bayes_risk, ppv = told.ppv[0].ppv;
  const other = alone?.answer;
  frame.glance(`caught ≤ ${percent(catches)} at ${plain(100 * level)}% false alarms`);
  words.replaceChildren(
    h("div", { cls: "big" }, h("strong", { id: "catches", "data-exact": String(catches), text: percent(catches) }), h("span", { text: "caught at most" })),
    h("p", { cls: "say" }, `An attacker who accepts ${plain(100 * level)}% false alarms catches at most ${percent(catches)}; guessing blindly catches ${plain(100 * level)}%.` +
      (other ? ` From a single message, not shuffled, they would catch up to ${percent(other.tpr[0].tpr)}.` : "")),
    h("p", { cls: "say" }, `An attacker who is ${plain(100 * prior)}% sure beforehand and then raises an alarm is right in at most ${percent(ppv)} of the cases. Whatever they decide, they err in at least ${down(100 * told.bayes_risk.risk, 3)}% of them.`),
    h("p", { cls: "exact", text: `advantage (catches minus false alarms): at most ${told.advantage.upper}` }),
    h("div", { cls: "chips" }, h("span", { cls: told.guarantee ? "chip" : "chip warn", text: told.certified ? "proved, rounding included" : told.guarantee ? "guaranteed" : "NOT a guarantee" }), h("span", { cls: "chip plain", text: told.bound })));
  const roc = (document_) => document_.curve.fpr.map((x, at) => [x, 1 - num(document_.curve.fnr[at])]);
  const one = { log: false, from: 0, to: 1 };
  picture.replaceChildren(lines({
    label: `Share caught against false alarms for ${up(told.users, 6)} users`, file: "trade-off", area: true, tall: 360,
    csv: () => "fpr,fnr\n" + told.curve.fpr.map((x, at) => `${x},${told.curve.fnr[at]}`).join("\n") + "\n",
    x: { name: "false alarms", reach: one }, y: { name: "caught", reach: one }, asked: { x: level, text: `${plain(100 * level)}% false alarms` },
    series: [{ name: "shuffled: at most", short: "shuffled", points: roc(told), at: 0.7, dy: 34 },
      ...(other ? [{ name: "one message, not shuffled", short: "one message alone", cls: "other", points: roc(other), at: 0.45, dy: -12 }] : []),
      { name: "guessing", cls: "faint", points: [[0, 0], [0.3, 0.3], [1, 1]], at: 0.5, dy: 28 }],
  }));
  take.replaceChildren(conditions(told.conditions), home({ command, python, buttons: [linker()] }));
}
