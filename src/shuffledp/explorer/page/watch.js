// The state of the watched collections and campaigns, without counts that are not yet released.

import { get } from "./ask.js";
import { card, facts, grouped, h, plain, table, typed, up } from "./dom.js";

const SECONDS = 2;
let place, clock = 0, last = "";

export const watch = {
  tab: "Watch", shares: "watch", defaults: {}, wide: true,
  title: "A collection, watched",
  lead: "The state of each step. The number of users is shown once it is released: an earlier count would reveal who took part when.",
  fields: () => [],
  parts() {
    place = h("div", { cls: "stack", "aria-live": "polite" });
    last = "";
    return [place];
  },
  changed(frame) { look(frame); clearInterval(clock); clock = setInterval(() => document.hidden || look(frame), 1000 * SECONDS); },
  leave() { clearInterval(clock); },
};

async function look(frame) {
  const found = await frame.guard(() => get("watched"));
  if (!found || JSON.stringify(found) === last) return;
  last = JSON.stringify(found);
  place.replaceChildren(...(found.watched.length ? found.watched.map(shown) : [card("Nothing is watched", h("p", { cls: "say" }, "Start the page with a directory of collect, or of a shuffler: "), h("pre", { tabindex: 0, text: "shuffledp web --watch result --watch shuffler" }))]));
}

function shown(one) {
  if (one.kind === "unknown") return card(one.name, h("p", { cls: "problem", text: one.problem }));
  if (one.kind === "shuffler") return h("div", { cls: "stack" }, one.campaigns.length ? one.campaigns.map((each) => campaign(one.name, each)) : card(one.name, h("p", { cls: "say", text: "This shuffler has no campaign yet." })));
  return collection(one);
}

const steps = (names, at) => h("ol", { cls: "steps" }, names.map((name, place_) => h("li", { cls: place_ < at ? "done" : place_ === at ? "now" : null, "aria-current": place_ === at ? "step" : null, text: name })));
const planned = (one) => [["asks for", one.task], ["with", one.mechanism], ["promises", `ε = ${plain(one.epsilon)} at δ = ${typed(one.delta)}, ${grouped(one.rounds)} round${one.rounds > 1 ? "s" : ""}`], ["planned for", `${grouped(one.planned)} users, at least ${grouped(one.minimum)}`]];

function collection(one) {
  const released = one.users !== undefined;
  const rows = released ? one.estimates.slice(0, 20) : [];
  const names = rows.length ? Object.keys(rows[0]) : [];
  return card(one.name, steps(one.steps, one.step), facts([...planned(one), ["took part", released ? `${grouped(one.users)} users` : "not to be known yet"],
    ["certified", released ? `ε = ${up(one.guarantee.epsilon.upper)} at δ = ${typed(one.guarantee.delta ?? one.delta)}` : ""]]),
    rows.length ? table(names.map((name) => [name.replaceAll("_", " "), "n"]), rows.map((row) => names.map((name) => (typeof row[name] === "number" ? plain(row[name], 5) : String(row[name]))))) : "");
}

function campaign(name, one) {
  const when = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  return card(`${name}: campaign ${one.id.slice(0, 12)}…`, facts(planned(one)),
    table([["round"], ["state"], ["closes"], ["took part", "n"]], one.rounds_told.map((each) => [String(each.round), each.state, when(each.closes), each.users === undefined ? "not to be known yet" : grouped(each.users)])));
}
