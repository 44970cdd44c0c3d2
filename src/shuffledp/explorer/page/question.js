// The subject of the views of the guarantee, the risk and the proof: a randomizer, its users and a target.

import { choice, more, number, pair, pasted, slider } from "./field.js";
import { h, grouped, typed, read } from "./dom.js";

export const ANY = "any", OWN = "table", RAW = "parameters";
const RAWS = { p: ["p", "4", "How many times likelier a message may be under one input than under another."], beta: ["β", "0.5", "Total variation of two inputs' messages."],
  q: ["q", "4", "How many times likelier than another user's; or q0 and q1."], q0: ["q0", ""], q1: ["q1", ""], q_common: ["q common", ""] };
const EXAMPLE = "0.5,0.25,0.25\n0.25,0.5,0.25\n0.25,0.25,0.5\n";
const RAW_PAIRS = [["p", "beta"], ["q", "q_common"], ["q0", "q1"]];
const TYPICAL = { options: 16, dimension: 64, items: 3, keys: 16, padding: 3, height: 4, bins: 64, coin: 0.25, flip: 0.1, multiplier: 20 };

export const defaults = {
  mechanism: "krr", epsilon_local: "2", users: "100000", delta: "1e-8", table: EXAMPLE,
  rounds: "1", of: "", rate: "", ...Object.fromEntries(Object.entries(RAWS).map(([name, [, value]]) => [name, value])), colluding: "0", effort: "quick", against: "users", fpr: "0.01", prior: "0.5",
};

const named = (frame) => frame.mechanisms.filter((one) => one.by_name && one.settings.every((each) => !each.required || /^(int|float)/.test(each.type)));
const kind = (frame) => frame.mechanisms.find((one) => one.name === frame.state.mechanism);
const numeric = (one) => (one?.settings ?? []).filter((each) => /^(int|float)/.test(each.type));

/** The values of the request: texts as typed, so that error messages are those of the library. */
export function asked(frame, ...extra) {
  const state = frame.state, given = {};
  const put = (name) => { if ((state[name] ?? "").trim() !== "") given[name] = state[name].trim(); };
  if (state.mechanism === OWN) given.table = state.table;
  else if (state.mechanism === RAW) Object.keys(RAWS).forEach(put);
  else {
    if (state.mechanism !== ANY) given.mechanism = state.mechanism;
    if (state.mechanism === ANY || kind(frame)?.local_epsilon) put("epsilon_local");
    const settings = {};
    for (const { name, required } of state.mechanism === ANY ? [] : numeric(kind(frame))) {
      const value = (state[`set.${name}`] ?? (required ? String(TYPICAL[name] ?? 1) : "")).trim();
      if (value !== "") settings[name] = value;
    }
    if (Object.keys(settings).length) given.settings = settings;
  }
  for (const name of [(state.rate ?? "").trim() === "" ? "users" : "rate", "of", ...extra]) put(name);
  if (read(state.rounds) !== 1) put("rounds");
  if (read(state.colluding) !== 0) put("colluding");
  return given;
}

/** The local ε, or null if the randomizer has none. */
export const local = (frame) => ([OWN, RAW].includes(frame.state.mechanism) || (frame.state.mechanism !== ANY && !kind(frame)?.local_epsilon) ? null : read(frame.state.epsilon_local));

export function about(frame) {
  const state = frame.state, users = read(state.users);
  const who = state.mechanism === OWN ? "your table" : state.mechanism === RAW ? "your parameters" : state.mechanism === ANY ? "any ε₀-LDP randomizer" : state.mechanism;
  return `${who}, ${Number.isFinite(users) ? grouped(users) : "?"} users, δ = ${typed(read(state.delta))}`;
}

/** The fields of the form; those of settings depend on the mechanism. */
export function fields(frame, { target = true } = {}) {
  const state = frame.state, set = (name, value) => frame.set(name, value);
  const tasks = Object.entries(Object.groupBy(named(frame), (one) => one.task));
  const groups = [[null, [[ANY, "Any ε₀-LDP randomizer"], [OWN, "My own table (CSV)"], [RAW, "Parameters p, β, q"]]], ...tasks.map(([task, many]) => [task, many.map((one) => [one.name, one.name])])];
  const chosen = kind(frame);
  const settings = numeric(chosen).map(({ name, required, meaning }) => number(`set.${name}`, name[0].toUpperCase() + name.slice(1).replace("_", " "), {
    value: state[`set.${name}`] ?? (required ? String(TYPICAL[name] ?? 1) : ""), placeholder: required ? "" : "default", set, hint: meaning && meaning.length < 90 ? meaning : "" }));
  const needed = settings.filter((_, place) => numeric(chosen)[place].required), rest = settings.filter((_, place) => !numeric(chosen)[place].required);
  return [
    choice("mechanism", "Each user runs", { value: state.mechanism, groups, set: (name, value) => { frame.set(name, value); frame.rebuild(); }, hint: chosen?.summary ?? "" }),
    state.mechanism === OWN && pasted("table", "Your table", { value: state.table, set, hint: "One row per input, no header: the probability of each output." }),
    state.mechanism === RAW && RAW_PAIRS.map((names) => pair(...names.map((name) => number(name, RAWS[name][0], { value: state[name], set, placeholder: "none" })))),
    state.mechanism === RAW && h("p", { cls: "hint", text: Object.values(RAWS).filter(([, , words]) => words).map(([name, , words]) => `${name}: ${words}`).join(" ") }),
    local(frame) !== null && slider("epsilon_local", "Local ε₀", { value: state.epsilon_local, low: 0.1, high: 8, step: 0.05, set, hint: "The guarantee of each message alone." }),
    ...needed,
    slider("users", "Users", { value: state.users, low: 10, high: 1e9, log: true, set }),
    target && slider("delta", "δ", { value: state.delta, low: 1e-14, high: 1e-2, log: true, set }),
    more("Rounds, samples, colluding users", state.rounds !== "1" || state.of !== "" || state.rate !== "" || state.colluding !== "0",
      slider("rounds", "Rounds", { value: state.rounds, low: 1, high: 1000, log: true, whole: true, set }),
      pair(number("of", "Drawn out of", { value: state.of, set, placeholder: "everybody" }), number("colluding", "Colluding", { value: state.colluding, set })),
      number("rate", "Rate, instead of users", { value: state.rate, set, placeholder: "none" }),
      h("p", { cls: "hint", text: "The users of each round are drawn secretly out of so many people, or each of these takes part by a secret coin of this rate. Colluding users reveal their messages to the analyst." }),
      ...rest),
  ].flat().filter(Boolean);
}
