// Mixed populations, whose groups chose different local ε, and surveys of several questions.

import { Latest, ask } from "./ask.js";
import { conditions, down, grouped, h, num, plain, table, typed, up } from "./dom.js";
import { choice, number, segments, slider } from "./field.js";
import { home, linker, saver, waiting, working } from "./part.js";

const MIXING = ["krr", "oue", "rappor", "subset", "local-hash", "hadamard-response"];
let answer, take, latest, planned;

export const crowd = {
  tab: "Crowds", shares: "crowd",
  defaults: { what: "crowd", mechanism: "krr", options: "16", groups: "1:50000;4:50000", opt_outs: "0", delta: "1e-8", questions: "frequency:city:1:domain=16;mean:age:1:low=0,high=100", users: "100000", epsilon: "1" },
  title: "Mixed crowds, several questions",
  lead: "People who choose different local ε hide each other, too. One person can also answer several questions under one guarantee.",
  fields(frame) {
    const state = frame.state, set = frame.set, survey = state.what === "survey";
    const kinds = segments("What", [["crowd", "Mixed crowd"], ["survey", "Several questions"]], state.what, (what) => { state.what = what; location.hash = `crowd?what=${what}`; });
    const parts = state[survey ? "questions" : "groups"].split(";");
    const change = (list) => { set(survey ? "questions" : "groups", list.join(";")); };
    const put = (at, text) => change(parts.map((one, place) => (place === at ? text : one)));
    const drop = (at) => { change(parts.filter((_, place) => place !== at)); frame.rebuild(); };
    const add = h("button", { type: "button", text: survey ? "Add a question" : "Add a group", onclick: () => { change([...parts, survey ? "frequency:colour:1:domain=8" : `${1 + Math.max(...parts.map((one) => Number(one.split(":")[0]) || 0))}:10000`]); frame.rebuild(); } });
    const box = (label, value, oninput, aria = null) => h("label", { cls: "field" }, h("span", { cls: "label", text: label }), h("input", { type: "text", value, "aria-label": aria, spellcheck: "false", oninput: (event) => oninput(event.target.value) }));
    const remove = (at, name) => h("button", { type: "button", "aria-label": `Remove ${name} ${at + 1}`, text: survey ? "Remove" : "×", disabled: parts.length < 2, onclick: () => drop(at) });
    const groups = parts.map((text, at) => {
      const cells = text.split(":");
      const cell = (place, value) => { const told = parts[at].split(":"); told[place] = value; parts[at] = told.join(":"); put(at, parts[at]); };
      if (!survey) return h("div", { cls: "group" }, box("Local ε₀", cells[0], (value) => cell(0, value), `Local ε₀ of group ${at + 1}`), box("Users", cells[1], (value) => cell(1, value), `Users of group ${at + 1}`), remove(at, "group"));
      return h("div", { cls: "group four" },
        h("label", { cls: "field" }, h("span", { cls: "label", text: `Question ${at + 1}` }), h("select", { onchange: (event) => cell(0, event.target.value) }, frame.questions.map((one) => h("option", { value: one, text: one, selected: one === cells[0] })))),
        box("Column", cells[1], (value) => cell(1, value)), box("Weight", cells[2] ?? "1", (value) => cell(2, value)), box("Options", cells.slice(3).join(":"), (value) => { parts[at] = [...cells.slice(0, 3), value].join(":"); put(at, parts[at]); }), remove(at, "question"));
    });
    return survey
      ? [kinds, ...groups, add, slider("users", "Users", { value: state.users, low: 100, high: 1e9, log: true, set }), slider("epsilon", "Central ε of all answers", { value: state.epsilon, low: 0.05, high: 4, step: 0.05, set }), slider("delta", "δ", { value: state.delta, low: 1e-14, high: 1e-3, log: true, set })]
      : [kinds, choice("mechanism", "Everybody runs", { value: state.mechanism, groups: [[null, MIXING.map((one) => [one, one])]], set }), number("options", "Options", { value: state.options, set }), ...groups, add,
        number("opt_outs", "Opt-outs", { value: state.opt_outs, set, hint: "They send messages that depend on no value and hide the others." }), slider("delta", "δ", { value: state.delta, low: 1e-14, high: 1e-3, log: true, set })];
  },
  parts(frame) {
    answer = h("section", { cls: "card", "aria-live": "polite", "aria-label": "Each group" }, waiting());
    take = h("div", { cls: "stack" });
    latest = new Latest(async (given) => {
      const found = await frame.guard(() => ask("crowd", given));
      answer.classList.toggle("stale", !found);
      if (found) grouped_(frame, found);
    });
    planned = working(frame, "plan", surveyed, h("p", { cls: "say", text: "Each question is planned by itself and together with the others; the best ways to split the privacy budget are ranked." }));
    if (frame.state.what !== "survey") return [answer, take];
    const start = h("button", { type: "button", cls: "first", id: "survey", text: "Plan the survey", onclick: () => planned.run(survey(frame)) });
    return [h("section", { cls: "card" }, h("div", { cls: "head" }, h("h2", { text: "Ways to ask them all" }), start), planned.place), take];
  },
  changed(frame) {
    const state = frame.state;
    if (state.what === "survey") return planned.outdate(survey(frame));
    const group = state.groups.split(";").map((text) => { const [local, users] = text.split(":"); return { epsilon_local: local ?? "", users: users ?? "" }; });
    const given = { mechanism: state.mechanism, settings: { options: state.options }, group, delta: state.delta, effort: "quick" };
    if (state.opt_outs.trim() !== "0" && state.opt_outs.trim() !== "") given.opt_outs = state.opt_outs;
    latest.ask(given);
  },
  leave() { planned.stop(); },
};

const survey = (frame) => ({ question: frame.state.questions.split(";"), users: frame.state.users, epsilon: frame.state.epsilon, delta: frame.state.delta });

function grouped_(frame, { answer: told, command, python }) {
  const worst = told.groups[told.worst];
  frame.glance(`ε ≤ ${up(worst.epsilon.upper)} for everybody`);
  const alone = told.groups.map((one) => one.mechanism.epsilon);
  answer.replaceChildren(
    h("div", { cls: "big" }, h("strong", { id: "worst", "data-exact": String(worst.epsilon.upper), text: `ε ≤ ${up(worst.epsilon.upper)}` }), h("span", { text: `for everybody, at δ = ${typed(worst.delta)}` })),
    h("p", { cls: "say", text: `${grouped(told.users)} people in one shuffle. A smaller local ε gives a smaller central ε, too.` }),
    table([["local ε₀"], ["users", "n"], ["central ε", "n"], ["attack attains", "n"], ["times smaller", "n"], ["bound", "why"]],
      told.groups.map((one, at) => [plain(alone[at]), grouped(one.users), h("span", { "data-exact": String(one.epsilon.upper), text: up(one.epsilon.upper) }), one.epsilon.lower === null ? "none known" : down(one.epsilon.lower), plain(alone[at] / num(one.epsilon.upper)), one.bound]),
      told.groups.map((_, at) => (at === told.worst ? "best" : ""))));
  take.replaceChildren(conditions(told.conditions), home({ command, python, buttons: [linker()] }));
}

function surveyed({ answer: told, command }) {
  const rows = told.mechanisms.map((one) => [one.name, ...(one.questions ?? []).map((each) => `± ${plain(each.standard_error ?? each.error)}`), plain(one.messages_per_user), plain(one.bits_per_user), one.rests_on]);
  const asked = told.mechanisms[0]?.questions ?? [];
  take.replaceChildren(conditions(told.conditions), home({ command, buttons: [told.plan && saver("Save plan.json", "plan.json", () => JSON.stringify(told.plan, null, 1) + "\n", "application/json"), linker()].filter(Boolean) }));
  return [table([["way"], ...asked.map((one, at) => [one.name ?? one.question ?? `question ${at + 1}`, "n"]), ["messages", "n"], ["bits", "n"], ["rests on", "why"]], rows, told.mechanisms.map((one) => (one.name === told.best ? "best" : ""))),
    told.caveat && h("p", { cls: "say", text: told.caveat })].filter(Boolean);
}
