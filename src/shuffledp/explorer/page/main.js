// The frame: selects the view and keeps its state in the address, so that a link shows the same again.

import { $, h } from "./dom.js";
import { get, ask, Refused } from "./ask.js";
import { guarantee } from "./guarantee.js";
import { plan } from "./plan.js";
import { risk } from "./risk.js";
import { crowd } from "./crowd.js";
import { proof } from "./proof.js";
import { watch } from "./watch.js";

const VIEWS = { plan, guarantee, risk, crowd, proof, watch };
const LONGEST_LINK = 6000;
const states = {};
let current = null;

/** The catalogue, the state and the functions that all views share. */
const frame = {
  mechanisms: [],
  tasks: [],
  state: {},
  set(name, value) {
    frame.state[name] = value;
    remember();
    current.view.changed(frame, name);
  },
  rebuild() {
    const focused = document.activeElement?.id;
    $("form").replaceChildren(...current.view.fields(frame));
    if (focused) $(focused)?.focus();
  },
  problem(sentence) {
    $("problem").hidden = !sentence;
    $("problem").textContent = sentence ?? "";
    for (const field of document.querySelectorAll("[data-name]")) {
      const words = field.dataset.name.split("_").join("[-_ ]");
      const hit = sentence && new RegExp(`(^|[\\s'(-])${words}(?![\\w-])`).test(sentence);
      field.setAttribute("aria-invalid", String(Boolean(hit)));
    }
  },
  /** Runs a request and shows its error message, unless it has been superseded. */
  async guard(work, wanted = () => true) {
    try {
      const found = await work();
      if (wanted()) frame.problem(null);
      return found;
    } catch (error) {
      if (error.name === "AbortError" || !wanted()) return null;
      frame.problem(error instanceof Refused ? error.message : `The page failed: ${error.message}`);
      return null;
    }
  },
  /** Shows the answer in a few words, visible where the form fills the screen. */
  glance(text) { $("glance").textContent = text; },
};

function remember() {
  const told = new URLSearchParams(Object.entries(frame.state).filter(([name, value]) => value !== "" && value !== current.view.defaults[name]));
  const text = `#${current.name}${String(told) && `?${told}`}`;
  if (text.length <= LONGEST_LINK) history.replaceState(null, "", text);
}

function show() {
  const [name, query] = location.hash.slice(1).split("?");
  if (name === "main") return;
  const view = VIEWS[name] ?? VIEWS.guarantee;
  const told = query === undefined ? null : Object.fromEntries(new URLSearchParams(query));
  current?.view.leave?.();
  current = { name: VIEWS[name] ? name : "guarantee", view };
  states[view.shares] = told ? { ...view.defaults, ...told } : states[view.shares] ?? { ...view.defaults };
  frame.state = states[view.shares];
  remember();
  for (const link of $("tabs").querySelectorAll("a"))
    link.dataset.view === current.name ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  document.title = `${view.tab} · shuffledp explorer`;
  $("title").textContent = view.title;
  $("lead").textContent = view.lead;
  frame.problem(null);
  frame.glance("");
  document.querySelector(".frame").classList.toggle("wide", Boolean(view.wide));
  $("form").replaceChildren(...view.fields(frame));
  $("view").replaceChildren(...view.parts(frame));
  view.changed(frame, null);
}

$("tabs").append(...Object.entries(VIEWS).map(([name, view]) => h("li", null, h("a", { href: `#${name}`, "data-view": name, text: view.tab }))));
$("form").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", show);

const [catalogue, tasks] = await Promise.all([ask("mechanisms", {}), get("tasks")]);
frame.mechanisms = catalogue.answer.mechanisms;
frame.tasks = tasks.tasks;
frame.questions = tasks.questions;
show();
document.documentElement.dataset.ready = "yes";
