// What the guarantee, the risk and the proof are about: a randomizer, its users and a target.

import { choice, more, number, pair, pasted, slider } from "./field.js";
import { h, grouped, typed, read } from "./dom.js";

export const ANY = "any", OWN = "table";
const EXAMPLE = "0.5,0.25,0.25\n0.25,0.5,0.25\n0.25,0.25,0.5\n";
const TYPICAL = { options: 16, dimension: 64, items: 3, keys: 16, padding: 3, height: 4, bins: 64, coin: 0.25, flip: 0.1, multiplier: 20 };

export const defaults = {
  mechanism: "krr", epsilon_local: "2", users: "100000", delta: "1e-8", table: EXAMPLE,
  rounds: "1", of: "", colluding: "0", effort: "quick", against: "users", fpr: "0.01", prior: "0.5",
};

const named = (frame) => frame.mechanisms.filter((one) => one.by_name && one.settings.every((each) => !each.required || /^(int|float)/.test(each.type)));
const kind = (frame) => frame.mechanisms.find((one) => one.name === frame.state.mechanism);
const numeric = (one) => (one?.settings ?? []).filter((each) => /^(int|float)/.test(each.type));

/** What is sent: texts as they were typed, so that what is wrong with them is said in the library's own words. */
export function asked(frame, ...extra) {
  const state = frame.state, given = {};
  const put = (name) => { if ((state[name] ?? "").trim() !== "") given[name] = state[name].trim(); };
  if (state.mechanism === OWN) given.table = state.table;
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
  for (const name of ["users", "of", ...extra]) put(name);
  if (read(state.rounds) !== 1) put("rounds");
  if (read(state.colluding) !== 0) put("colluding");
  return given;
}

/** The local ε that is asked about, where there is one. */
export const local = (frame) => (frame.state.mechanism === OWN || (frame.state.mechanism !== ANY && !kind(frame)?.local_epsilon) ? null : read(frame.state.epsilon_local));

export function about(frame) {
  const state = frame.state, users = read(state.users);
  const who = state.mechanism === OWN ? "your table" : state.mechanism === ANY ? "any ε₀-LDP randomizer" : state.mechanism;
  return `${who}, ${Number.isFinite(users) ? grouped(users) : "?"} users, δ = ${typed(read(state.delta))}`;
}

/** The fields; those of settings change with the mechanism. */
export function fields(frame, { target = true } = {}) {
  const state = frame.state, set = (name, value) => frame.set(name, value);
  const tasks = Object.entries(Object.groupBy(named(frame), (one) => one.task));
  const groups = [[null, [[ANY, "Any ε₀-LDP randomizer"], [OWN, "My own table (CSV)"]]], ...tasks.map(([task, many]) => [task, many.map((one) => [one.name, one.name])])];
  const chosen = kind(frame);
  const settings = numeric(chosen).map(({ name, required, meaning }) => number(`set.${name}`, name[0].toUpperCase() + name.slice(1).replace("_", " "), {
    value: state[`set.${name}`] ?? (required ? String(TYPICAL[name] ?? 1) : ""), placeholder: required ? "" : "default", set, hint: meaning && meaning.length < 90 ? meaning : "" }));
  const needed = settings.filter((_, place) => numeric(chosen)[place].required), rest = settings.filter((_, place) => !numeric(chosen)[place].required);
  return [
    choice("mechanism", "Each user runs", { value: state.mechanism, groups, set: (name, value) => { frame.set(name, value); frame.rebuild(); }, hint: chosen?.summary ?? "" }),
    state.mechanism === OWN && pasted("table", "Your table", { value: state.table, set, hint: "A row for each input, no header: how likely each output is." }),
    local(frame) !== null && slider("epsilon_local", "Local ε₀", { value: state.epsilon_local, low: 0.1, high: 8, step: 0.05, set, hint: "What each message promises by itself." }),
    ...needed,
    slider("users", "Users", { value: state.users, low: 10, high: 1e9, log: true, set }),
    target && slider("delta", "δ", { value: state.delta, low: 1e-14, high: 1e-2, log: true, set }),
    more("Rounds, samples, colluding users", state.rounds !== "1" || state.of !== "" || state.colluding !== "0",
      slider("rounds", "Rounds", { value: state.rounds, low: 1, high: 1000, log: true, whole: true, set }),
      pair(number("of", "Drawn out of", { value: state.of, set, placeholder: "everybody" }), number("colluding", "Colluding", { value: state.colluding, set })),
      h("p", { cls: "hint", text: "Each round's users are drawn secretly out of so many; colluding ones tell the analyst what they sent." }),
      ...rest),
  ].filter(Boolean);
}
