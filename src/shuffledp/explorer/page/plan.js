// From a target to mechanisms: their error beside a curator's, their trust assumptions, and the attack risk.

import { Latest, ask } from "./ask.js";
import { card, conditions, grouped, h, num, percent, plain, read, table, typed, up } from "./dom.js";
import { choice, more, number, pair, slider } from "./field.js";
import { home, linker, saver, settled, waiting, working } from "./part.js";
import { beside, lines } from "./plot.js";

const LABELS = { domain: "Options there are", items: "Options a user holds", dimension: "Coordinates", low: "Least value", high: "Largest value", west: "West", east: "East",
  south: "South", north: "North", columns: "Cells west to east", strings: "Most bytes of a text", bits: "Bits of a number", reach: "Bits to be found", ways: "Columns together" };
const TYPICAL = { domain: "16", items: "3", dimension: "16", low: "0", high: "1", west: "0", east: "1", south: "0", north: "1", columns: "8", strings: "4" };
const LISTS = ["low", "high"], SHOWN = 60, REPEATS = 20;
let live, ranked, tried, take, latest, trail, trailed, rehearse;

export const plan = {
  tab: "Plan", shares: "plan",
  defaults: { task: "frequency", users: "100000", epsilon: "1", delta: "1e-8", mechanism: "krr", rounds: "1", minimum: "", colluding: "0" },
  title: "Which mechanism, and at what price",
  lead: "Choose the task and the privacy target. Drag ε: the error of the result and the risk of the users change together.",
  fields(frame) {
    const state = frame.state, set = frame.set;
    const takes = taken(frame).map((name) => number(name, LABELS[name], { value: state[name] ?? TYPICAL[name] ?? "", set }));
    const able = frame.able?.[state.task] ?? [[state.mechanism, state.mechanism]];
    return [
      choice("task", "What to estimate", { value: state.task, groups: [[null, frame.tasks.filter((one) => !one.takes.includes("questions")).map((one) => [one.name, one.name.replaceAll("-", " ")])]], set: async (name, value) => { state[name] = value; await usable(frame); frame.set(name, value); frame.rebuild(); } }),
      takes.length > 1 ? pair(...takes) : takes,
      slider("users", "Users", { value: state.users, low: 100, high: 1e9, log: true, set }),
      slider("epsilon", "Central ε, over all rounds", { value: state.epsilon, low: 0.05, high: 4, step: 0.05, set }),
      slider("delta", "δ", { value: state.delta, low: 1e-14, high: 1e-3, log: true, set }),
      choice("mechanism", "Shown live", { value: state.mechanism, groups: [[null, able]], set, hint: "Compare all of them with the button." }),
      more("Rounds, fewest users, colluding users", state.rounds !== "1" || state.minimum !== "" || state.colluding !== "0",
        slider("rounds", "Rounds", { value: state.rounds, low: 1, high: 1000, log: true, whole: true, set }),
        pair(number("minimum", "Fewest users", { value: state.minimum, set, placeholder: "all" }), number("colluding", "Colluding", { value: state.colluding, set }))),
    ].flat();
  },
  parts(frame) {
    live = h("section", { cls: "card", "aria-live": "polite", "aria-label": "Error and risk" }, waiting());
    trail = new Map(); trailed = "";
    take = h("div", { cls: "stack" });
    const start = h("button", { type: "button", cls: "first", id: "rank", text: "Compare all mechanisms", onclick: () => ranked.run(question(frame)) });
    ranked = working(frame, "plan", (found) => ranking(frame, found), h("p", { cls: "say", text: "Every mechanism of the task is calibrated to the target and ranked by its error; this takes up to a minute." }));
    tried = working(frame, "simulate", simulated);
    rehearse = settled((found) => tried.run({ plan: found, repeat: REPEATS }), 900);
    latest = new Latest((given, superseded) => preview(frame, given, superseded));
    usable(frame).then(() => { frame.rebuild(); plan.changed(frame); });
    return [live, card("One simulated collection beside the truth", tried.place), h("section", { cls: "card dense" }, h("div", { cls: "head" }, h("h2", { text: "All mechanisms, by error" }), start), ranked.place), take];
  },
  changed(frame) {
    ranked.outdate(question(frame));
    // A link may name a task without a mechanism: the first one for the task is chosen.
    if (!frame.able?.[frame.state.task]) return;
    latest.ask({ ...question(frame), mechanism: frame.state.mechanism });
  },
  leave() { ranked.stop(); tried.stop(); },
};

const taken = (frame) => (frame.tasks.find((one) => one.name === frame.state.task)?.takes ?? []).filter((name) => LABELS[name]);

function question(frame) {
  const state = frame.state, given = { task: state.task };
  const put = (name, typical) => { const text = (state[name] ?? typical ?? "").trim(); if (text !== "") given[name] = LISTS.includes(name) ? [text] : text; };
  for (const name of taken(frame)) put(name, TYPICAL[name]);
  for (const name of ["users", "epsilon", "delta", "minimum"]) put(name);
  if (read(state.rounds) !== 1) put("rounds");
  if (read(state.colluding) !== 0) put("colluding");
  return given;
}

/** Loads the mechanisms for the task. */
async function usable(frame) {
  frame.able ??= {};
  const { task } = frame.state;
  if (!frame.able[task]) {
    const found = await frame.guard(() => ask("mechanisms", { task }));
    if (!found) return;
    frame.able[task] = found.answer.mechanisms.filter((one) => one.by_name).map((one) => [one.name, one.name]);
  }
  const names = frame.able[task].map(([name]) => name);
  if (!names.includes(frame.state.mechanism)) frame.state.mechanism = names.find((name) => ["krr", "piecewise", "laplace", "harmony", "wheel"].includes(name)) ?? names[0];
}

/** The request for the attack risk of a plan: the trade-off of its mechanism. */
function riskOf(told) {
  const made = told.plan.mechanism, given = { mechanism: made.name, users: told.plan.minimum ?? told.users, fpr: [0.01], points: 2 };
  const settings = Object.fromEntries(Object.entries(made.settings).filter(([, value]) => typeof value !== "object" && value !== null));
  if (made.epsilon !== undefined && made.epsilon !== null) given.epsilon_local = made.epsilon;
  if (told.rounds > 1) given.rounds = told.rounds;
  if (told.colluding) given.colluding = told.colluding;
  return { ...given, settings };
}

async function preview(frame, given, superseded) {
  const found = await frame.guard(() => ask("plan", given));
  live.classList.toggle("stale", !found);
  if (!found) return;
  const told = found.answer, offer = told.mechanisms[0];
  const risk = told.plan ? await ask("tradeoff", riskOf(told)).catch(() => null) : null;
  const caught = risk?.answer.tpr[0].tpr;
  const { epsilon: _, ...others } = given, kept = JSON.stringify(others);
  if (kept !== trailed) { trail.clear(); trailed = kept; }
  trail.set(told.epsilon, [offer.standard_error, caught]);
  frame.glance(`± ${plain(offer.standard_error)} ${told.error.unit}` + (caught === undefined ? "" : ` · caught ≤ ${percent(caught)}`));
  const half = told.fewer_users[offer.name]?.[0];
  live.replaceChildren(
    h("div", { cls: "two" },
      h("div", null, h("p", { cls: "label", text: "You pay" }), h("div", { cls: "big" }, h("strong", { id: "error", "data-exact": String(offer.standard_error), text: `± ${plain(offer.standard_error)}` }), h("span", { text: told.error.unit })),
        h("p", { cls: "say", text: `Standard error with ${offer.name}, for ${told.error.data}: ${plain(offer.times_curator)} times that of a trusted curator (± ${plain(told.central.standard_error)}).` })),
      h("div", null, h("p", { cls: "label", text: "They risk" }), h("div", { cls: "big" }, h("strong", { id: "risk", text: caught === undefined ? "–" : percent(caught) }), h("span", { text: "caught" })),
        h("p", { cls: "say", text: caught === undefined ? "What attacks can do is not computed for this mechanism." : `An attacker who accepts 1% false alarms catches at most ${percent(caught)}.` }))),
    h("div", { cls: "chips" }, h("span", { cls: "chip", text: `ε ≤ ${up(offer.epsilon.upper)} at δ = ${typed(told.delta)}` }),
      h("span", { cls: "chip plain", text: offer.epsilon_local === null ? "rests on the shuffler alone" : `local ε₀ = ${plain(offer.epsilon_local)}` }),
      h("span", { cls: "chip plain", text: `${plain(offer.messages_per_user)} message${offer.messages_per_user === 1 ? "" : "s"}, ${plain(offer.bits_per_user)} bits a user` }),
      h("span", { cls: "chip plain", text: `one false report moves it by ${plain(offer.influence)}` }),
      half && h("span", { cls: "chip plain", text: half.epsilon === null ? "no ε if half take part" : `ε = ${up(half.epsilon, 3)} if half take part` })),
    trail.size > 1 ? moving(told) : h("p", { cls: "say", text: "Drag ε to draw how error and risk depend on it." }));
  take.replaceChildren(conditions(told.conditions), home({ command: found.command, python: found.python, buttons: [
    told.plan && saver("Save plan.json", "plan.json", () => JSON.stringify(told.plan, null, 1) + "\n", "application/json"), linker()].filter(Boolean) }));
  tried.outdate({ plan: told.plan, repeat: REPEATS });
  if (told.plan && !superseded()) rehearse(told.plan);
}

/** Error and risk at every ε shown so far, each as a share of its largest value. */
function moving(told) {
  const found = [...trail].sort(([a], [b]) => a - b);
  const part = (at) => { const most = Math.max(...found.map(([, pair_]) => pair_[at] ?? 0)); return found.map(([x, pair_]) => [x, (pair_[at] ?? 0) / most]); };
  return lines({
    label: "Error and risk against ε", file: "error-and-risk", tall: 220, x: { name: "ε" }, y: { name: "share of the largest shown", reach: { log: false, from: 0, to: 1 } },
    csv: () => "epsilon,standard_error,tpr_at_1_percent\n" + found.map(([x, [a, b]]) => `${x},${a},${b ?? ""}`).join("\n") + "\n",
    asked: { x: told.epsilon, text: `ε = ${plain(told.epsilon)}` }, series: [{ name: "error", points: part(0), at: 0.15, dy: -8 }, { name: "risk", cls: "other", points: part(1), at: 0.9, dy: 18 }],
  });
}

function simulated({ answer: told }) {
  if (!told.example?.errors) return h("p", { cls: "say", text: "This task has no picture of single estimates." });
  const estimates = told.example.errors.slice(0, SHOWN).map((error, at) => ({ error, margin: told.example.margins[at], truth: told.example.truth?.[at] }));
  return [h("p", { cls: "say", text: `${grouped(told.users)} simulated users, ${told.data}. Over ${told.repeats} simulated collections the standard error is ${plain(told.standard_error.simulated)} (promised ${plain(told.promised ?? told.standard_error.expected)}), and ${plain(100 * told.covered)}% of the 95% intervals hold the truth.` }),
    beside({ estimates, unit: told.example.truth ? "users" : "estimate minus truth" })];
}

function ranking(frame, { answer: told }) {
  const winners = [told.best_local, told.best_by_shuffler];
  const half = (name) => { const found = told.fewer_users[name]?.[0]; return found ? (found.epsilon === null ? "none" : up(found.epsilon, 3)) : ""; };
  const seen = new Set();
  const offers = told.mechanisms.filter((one) => !seen.has(one.name) && seen.add(one.name));
  const rows = offers.map((one) => [
    h("span", { text: one.name }), h("span", { "data-exact": String(one.standard_error), text: plain(one.standard_error) }), `${plain(one.times_curator)}×`, one.epsilon_local === null ? "none" : plain(one.epsilon_local),
    plain(one.messages_per_user), plain(one.bits_per_user), plain(one.influence), half(one.name), one.rests_on]);
  const why = told.refused.length && h("details", { cls: "more" }, h("summary", { text: `${told.refused.length} left out, and why` }),
    h("div", null, h("ul", { cls: "conditions" }, told.refused.map((one) => h("li", null, h("span", { text: `${one.name}: ${one.reason}` }))))));
  return [h("p", { cls: "say", text: `Marked: the least error that keeps a local ε (${told.best_local ?? "none"}) and that rests on the shuffler alone (${told.best_by_shuffler ?? "none"}). A trusted curator would have ± ${plain(told.central.standard_error)} ${told.error.unit}.` }),
    table([["mechanism"], ["error", "n"], ["curator's", "n"], ["local ε₀", "n"], ["messages", "n"], ["bits", "n"], ["a liar moves", "n"], ["ε if half come", "n"], ["rests on", "why"]], rows, offers.map((one) => (winners.includes(one.name) ? "best" : ""))),
    why, told.caveat && h("p", { cls: "say", text: told.caveat })].filter(Boolean);
}
