// The certified ε of shuffled messages, beside every bound, and its curve along an axis.

import { Latest, follow } from "./ask.js";
import { card, conditions, down, grouped, h, num, plain, table, typed, up } from "./dom.js";
import { more, segments } from "./field.js";
import { block, home, linker, settled, waiting, working } from "./part.js";
import { lines, strip } from "./plot.js";
import { about, asked, defaults, fields, local } from "./question.js";

const AXES = { users: ["users", true], rounds: ["rounds", true], "local-epsilon": ["local ε₀", false], epsilon: ["ε", false] };
let answer, bounds, curve, take, latest, later, asking = 0, release = null;

export const guarantee = {
  tab: "Guarantee", shares: "question", defaults,
  title: "What shuffling buys",
  lead: "The central ε that holds against everybody who sees the shuffled messages, with its proof, and an attack that shows how close it is to the best possible.",
  fields: (frame) => fields(frame),
  parts(frame) {
    answer = h("section", { cls: "card", "aria-live": "polite", "aria-label": "The guarantee" }, waiting());
    take = h("div", { cls: "stack" });
    curve = working(frame, "sweep", (found) => drawn(frame, found));
    bounds = working(frame, "compare", compared);
    latest = new Latest((given, superseded) => number(frame, given, superseded));
    later = settled(() => { refresh(frame); bounds.run(asked(frame, "delta")); }, 700);
    const swept = h("section", { cls: "card" }, h("div", { cls: "head" }, h("h2", { text: "How it moves" }), axesOf(frame)), curve.place);
    return [answer, swept, card("Every bound, and why it does or does not apply", bounds.place), take];
  },
  changed(frame, name) {
    if (name === "against") return refresh(frame);
    if (name === "mechanism" || name === "rate") document.getElementById("view").querySelector(".segments")?.replaceWith(axesOf(frame));
    latest.ask({ ...asked(frame, "delta"), effort: frame.state.effort });
    release?.();
    later();
  },
  leave() { curve.stop(); bounds.stop(); },
};

function axesOf(frame) {
  const axes = [["users", "users"], ["rounds", "rounds"], ["local-epsilon", "local ε₀"], ["epsilon", "δ(ε)"]].filter(([axis]) => (axis !== "local-epsilon" || local(frame) !== null) && (axis !== "users" || !frame.state.rate.trim()));
  if (!axes.some(([axis]) => axis === frame.state.against)) frame.state.against = axes[0][0];
  return segments("Against", axes, frame.state.against, (axis) => frame.set("against", axis));
}

const refresh = (frame) => curve.run({ ...asked(frame, "delta", "against"), effort: "quick" });

/** Shows ε as soon as it is known, then the rest; a newer request does not wait for the attack of an older one. */
function number(frame, given, superseded) {
  const mine = ++asking, wanted = () => mine === asking;
  return new Promise((next) => {
    const known = (told) => {
      if (wanted()) valued(frame, told);
      release = next;
      if (superseded()) next();
    };
    frame.guard(() => follow("amplify", given, () => {}, undefined, known), wanted).then((found) => {
      if (wanted()) {
        release = null;
        answer.classList.toggle("stale", !found);
        if (found) shown(frame, found);
      }
      next();
    });
  });
}

function shown(frame, { answer: told, command, python }) {
  valued(frame, told);
  const shares = h("a", { cls: "button", href: "#risk", text: "What attackers can do" }), why = h("a", { cls: "button", href: "#proof", text: "How it was obtained" });
  take.classList.remove("stale");
  take.replaceChildren(conditions(told.conditions), home({ command, python, buttons: [shares, why, linker()] }));
}

/** The number, and its attack unless that is still being computed. */
function valued(frame, told) {
  const { lower, upper } = told.epsilon, top = num(upper), alone = local(frame);
  const gap = lower > 0 && Number.isFinite(top) ? 100 * (top / lower - 1) : null;
  const quick = frame.state.effort === "quick";
  answer.replaceChildren(
    h("div", { cls: "big" }, h("strong", { id: "epsilon", "data-exact": String(upper), text: Number.isFinite(top) ? `ε ≤ ${up(upper)}` : "ε above 700" }),
      h("span", { text: `at δ = ${typed(told.delta)} for ${grouped(told.users)} users` + (told.rounds > 1 ? `, ${grouped(told.rounds)} rounds` : "") })),
    h("p", { cls: "exact", text: `exactly ${upper}` }),
    alone && top < alone ? strip(alone, top) : "",
    h("p", { cls: "say", id: "attack", text: lower === undefined ? "Looking for an attack …" : lower === null ? "No attack is known for this input." : lower > 0
      ? `A concrete attack on a constructed dataset achieves ε = ${down(lower)}: nobody can prove less${gap !== null ? `, and the gap is ${plain(gap, 2)}%` : ""}.` : "The known attacks attain no positive ε." }),
    told.note ? h("p", { cls: "problem", text: told.note }) : "",
    h("div", { cls: "chips" },
      h("span", { cls: told.guarantee ? "chip" : "chip warn", text: told.guarantee ? (told.certified ? "proved, rounding included" : "guaranteed") : "NOT a guarantee" }),
      h("span", { cls: "chip plain", text: `${told.bound}: ${told.theorem}` })),
    told.if_known ? h("p", { cls: "say", text: `If everybody learns who was drawn: ε = ${up(told.if_known.epsilon.upper)}.` }) : "",
    quick ? h("p", { cls: "say" }, "Quick answer. ", h("button", { type: "button", text: "Look at every crowd", onclick: () => frame.set("effort", "full") }), " often gives a smaller ε, in seconds.") : "");
  frame.glance(`ε ≤ ${up(upper)} at δ = ${typed(told.delta)}`);
  answer.classList.remove("stale");
  take.classList.add("stale");
}

function drawn(frame, { files, command, python }) {
  const text = files["curve.csv"], rows = text.trim().split(/\r?\n/).slice(1).map((row) => row.split(","));
  const axis = frame.state.against, [name, log] = AXES[axis], value = axis === "epsilon" ? "δ" : "ε";
  const points = (at) => rows.filter((row) => row[at] !== "" && Number(row[at]) > 0).map((row) => [Number(row[0]), Number(row[at])]);
  const here = { users: frame.state.users, rounds: frame.state.rounds, "local-epsilon": frame.state.epsilon_local }[axis];
  const x = here === undefined ? null : Number(String(here).replaceAll(",", ""));
  return [lines({
    label: `${value} against ${name}: ${about(frame)}`, file: `epsilon-${axis}`, csv: () => text,
    x: { name, log }, y: { name: value, log: true }, asked: x ? { x, text: "asked" } : null,
    series: [{ name: "guaranteed", points: points(1), at: 0.14, dy: -12 }, { name: "attack: no less is possible", cls: "other", points: points(2), at: 0.88, dy: 22 }],
  }), more("The same curve in a terminal and in Python", false, block("In a terminal", command), python && block("In Python", python))];
}

function compared({ answer: told }) {
  const most = Math.max(...told.bounds.map((one) => (one.epsilon && one.guarantee ? num(one.epsilon.upper) : 0)).filter(Number.isFinite));
  const rows = told.bounds.map((one) => [one.bound, one.epsilon ? h("span", { "data-exact": String(one.epsilon.upper), text: up(one.epsilon.upper) }) : "–",
    one.epsilon ? (one.guarantee ? one.theorem : `${one.theorem}: not a guarantee`) : one.reason]);
  const classes = told.bounds.map((one) => (one.bound === told.best ? "best" : one.epsilon && one.guarantee ? "" : "off"));
  return [h("p", { cls: "say", text: `Smallest first; the largest that applies gives ${up(most)}.` }),
    table([["bound"], ["ε", "n"], ["theorem, or why it does not apply", "why"]], rows, classes)];
}
