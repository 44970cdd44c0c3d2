// Plots in SVG: labelled lines, points that can be read by mouse and keys, downloads as SVG and CSV.

import { h, s, save, plain, grouped } from "./dom.js";

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-size", "font-weight", "paint-order"];

function scale({ log, from, to }, low, high) {
  const place = log ? Math.log : (value) => value;
  const [a, b] = [place(from), place(to)];
  return (value) => low + ((place(value) - a) / (b - a || 1)) * (high - low);
}

function ticks({ log, from, to }, most) {
  if (!log) {
    const rough = (to - from) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= rough);
    const found = [];
    for (let at = Math.ceil(from / step - 1e-9) * step; at <= to * (1 + 1e-9); at += step) found.push(Number(at.toPrecision(12)));
    return found;
  }
  const low = Math.floor(Math.log10(from)), high = Math.ceil(Math.log10(to)), found = [];
  const every = Math.max(1, Math.ceil((high - low) / most));
  const parts = high - low <= 2 ? [1, 2, 5] : [1];
  for (let power = low; power <= high; power++)
    if (power % every === 0 || every === 1) for (const part of parts) found.push(part * 10 ** power);
  return found.filter((at) => at >= from * 0.999 && at <= to * 1.001);
}

function tickText(value, log) {
  const power = Math.round(Math.log10(value));
  if (log && (power >= 4 || power <= -3) && Math.abs(value / 10 ** power - 1) < 1e-9)
    return "10" + [...String(power)].map((sign) => RAISED[sign]).join("");
  return Math.abs(value) >= 1000 ? grouped(value) : plain(value);
}

function reach(values, log, zero) {
  const found = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  let [from, to] = [Math.min(...found), Math.max(...found)];
  if (zero && !log) from = Math.min(0, from);
  if (from === to) [from, to] = log ? [from / 2, to * 2] : [from - 1, to + 1];
  return { log, from, to };
}

/** A figure that is redrawn at each width. `draw(svg, width, height)` fills it and returns the points to read. */
function figure(label, file, csv, draw, tall = 300) {
  const svg = s("svg", { role: "img", "aria-label": label, tabindex: 0 });
  const told = h("span", { "aria-live": "polite" });
  const keep = file && h("span", null,
    h("button", { type: "button", onclick: () => save(`${file}.svg`, standalone(svg, label), "image/svg+xml"), text: "SVG" }),
    csv && h("button", { type: "button", onclick: () => save(`${file}.csv`, csv(), "text/csv"), text: "CSV" }));
  const made = h("figure", { cls: "plot" }, svg, h("figcaption", null, told, keep));
  let readable = { points: [], show() {} }, at = -1, drawn = 0;
  const show = (place) => {
    if (!readable.points.length) return;
    at = Math.max(0, Math.min(readable.points.length - 1, place));
    told.textContent = readable.points[at].text;
    readable.mark(readable.points[at]);
  };
  svg.addEventListener("pointermove", (event) => {
    const x = event.clientX - svg.getBoundingClientRect().left;
    const far = readable.points.map((point) => Math.abs(point.x - x));
    show(far.indexOf(Math.min(...far)));
  });
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) { event.preventDefault(); show(at + by); }
  });
  new ResizeObserver(() => {
    const width = made.clientWidth;
    if (!width || width === drawn) return;
    drawn = width;
    const height = Math.min(tall, Math.max(200, width * 0.62));
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    readable = draw(svg, width, height);
  }).observe(made);
  return made;
}

/** The drawing as a file that needs no style sheet. */
function standalone(svg, label) {
  const kept = svg.cloneNode(true), shown = [...svg.querySelectorAll("*")];
  [...kept.querySelectorAll("*")].forEach((one, place) => {
    const style = getComputedStyle(shown[place]);
    for (const name of KEPT) one.setAttribute(name, style.getPropertyValue(name));
    one.removeAttribute("class");
  });
  kept.prepend(s("title", { text: label }));
  kept.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  kept.setAttribute("font-family", "sans-serif");
  kept.removeAttribute("tabindex");
  return new XMLSerializer().serializeToString(kept);
}

function axes(svg, width, height, x, y, names) {
  const room = { left: 54, right: width - 16, top: 22, bottom: height - 40 };
  const X = scale(x, room.left, room.right), Y = scale(y, room.bottom, room.top);
  for (const at of ticks(y, 5)) svg.append(
    s("line", { cls: "grid", x1: room.left, x2: room.right, y1: Y(at), y2: Y(at) }),
    s("text", { cls: "tick", x: room.left - 8, y: Y(at) + 4, "text-anchor": "end", text: tickText(at, y.log) }));
  for (const at of ticks(x, width < 420 ? 4 : 7)) svg.append(
    s("text", { cls: "tick", x: X(at), y: room.bottom + 18, "text-anchor": "middle", text: tickText(at, x.log) }));
  svg.append(
    s("line", { cls: "axis", x1: room.left, x2: room.right, y1: room.bottom, y2: room.bottom }),
    s("text", { cls: "tick", x: room.right, y: height - 6, "text-anchor": "end", text: names[0] }),
    s("text", { cls: "tick", x: 2, y: 11, text: names[1] }));
  return { room, X, Y };
}

/**
 * Lines. `series`: {name, cls, points: [[x, y]], at: where along it the name stands, dy}; the first one is read.
 * `asked`: {x, text} is marked.
 */
export function lines({ label, file, csv, x, y, series, asked, area, tall }) {
  const rows = csv ?? (() => [["x", ...series.map((one) => one.name)].join(","),
    ...series[0].points.map(([at], place) => [at, ...series.map((one) => one.points[place]?.[1] ?? "")].join(","))].join("\n") + "\n");
  return figure(label, file, rows, (svg, width, height) => {
    const every = series.flatMap((one) => one.points);
    const over = x.reach ?? reach([...every.map(([at]) => at), ...(asked ? [asked.x] : [])], x.log);
    const up = y.reach ?? reach(every.map(([, value]) => value), y.log, true);
    const { room, X, Y } = axes(svg, width, height, over, up, [x.name, y.name]);
    const inside = ([at, value]) => Number.isFinite(value) && (!y.log || value > 0) && (!x.log || at > 0);
    if (area) svg.append(s("path", { cls: "area", d: path(series[0].points.filter(inside), X, Y) + `L${X(over.to)},${room.bottom}L${X(over.from)},${room.bottom}Z` }));
    if (asked) svg.append(s("line", { cls: "asked", x1: X(asked.x), x2: X(asked.x), y1: room.top, y2: room.bottom }));
    const names = [];
    for (const one of series) {
      const points = one.points.filter(inside);
      if (!points.length) continue;
      svg.append(s("path", { cls: `line ${one.cls ?? ""}`, d: path(points, X, Y) }));
      const [at, value] = points[Math.min(points.length - 1, Math.round((one.at ?? 0.7) * (points.length - 1)))];
      // Beside the line, not on it: above a falling line there is room on the right, below it on the left.
      const falls = points.at(-1)[1] < points[0][1], above = (one.dy ?? -10) < 0;
      const name = width < 480 ? one.short ?? one.name : one.name;
      const wide = 7 * name.length, wanted = X(at) + (falls === above ? 8 : -8 - wide);
      const left = Math.max(room.left + 4, Math.min(room.right - wide, wanted));
      names.push(s("text", { cls: `name ${one.cls ?? ""}`, x: left, y: Y(value) + (one.dy ?? -10), text: name }));
    }
    svg.append(...names);
    const dot = s("circle", { cls: "dot", r: 5 });
    const near = asked && nearest(series[0].points.filter(inside), asked.x);
    if (near) {
      svg.append(s("text", { cls: "tick", x: X(asked.x) + (X(asked.x) > width * 0.6 ? -6 : 6), y: room.top + 4, "text-anchor": X(asked.x) > width * 0.6 ? "end" : "start", text: asked.text }));
      dot.setAttribute("cx", X(near[0])); dot.setAttribute("cy", Y(near[1]));
    } else dot.setAttribute("r", 0);
    svg.append(dot);
    const read = series[0].points.filter(inside).map(([at, value]) => ({
      x: X(at), y: Y(value), text: `${x.name} ${plain(at, 4)}: ${series.map((one) => `${one.name} ${plain(valueAt(one.points, at), 4)}`).join(", ")}`,
    }));
    return { points: read, mark(point) { dot.setAttribute("r", 5); dot.setAttribute("cx", point.x); dot.setAttribute("cy", point.y); } };
  }, tall);
}

const path = (points, X, Y) => points.map(([at, value], place) => `${place ? "L" : "M"}${X(at).toFixed(1)},${Y(value).toFixed(1)}`).join("");
const nearest = (points, x) => points.reduce((best, one) => (!best || Math.abs(one[0] - x) < Math.abs(best[0] - x) ? one : best), null);
const valueAt = (points, x) => nearest(points, x)?.[1];

/** The gain of shuffling: local ε and central ε on one logarithmic line. */
export function strip(local, central) {
  return figure("Local ε of one message, and central ε of all of them shuffled", null, null, (svg, width) => {
    const height = 74;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const X = scale({ log: true, from: Math.min(central, local) / 1.6, to: Math.max(central, local) * 1.6 }, 8, width - 8);
    const [a, b] = [X(central), X(local)], side = b - a > 190;
    svg.append(
      s("line", { cls: "axis", x1: 8, x2: width - 8, y1: 36, y2: 36, "stroke-width": 4, "stroke-linecap": "round" }),
      s("line", { cls: "line", x1: a, x2: b, y1: 36, y2: 36, "stroke-width": 4 }),
      s("circle", { cls: "dot", cx: a, cy: 36, r: 8 }), s("circle", { cls: "dot other", cx: b, cy: 36, r: 8 }),
      s("text", { cls: "name", x: Math.max(8, Math.min(a, width - 120)), y: 64, "text-anchor": a < 80 ? "start" : "middle", text: `shuffled: ${plain(central)}` }),
      s("text", { cls: "name other", x: Math.min(b, width - 8), y: side ? 64 : 18, "text-anchor": b > width - 90 ? "end" : "middle", text: `alone: ${plain(local)}` }));
    if (side) svg.append(s("text", { cls: "tick", x: (a + b) / 2, y: 22, "text-anchor": "middle", text: `${plain(local / central)} times smaller` }));
    return { points: [], mark() {} };
  }, 74);
}

/** Estimates of one simulated collection, with their intervals, beside the truth. */
export function beside({ estimates, unit }) {
  const csv = () => ["truth,estimate,margin", ...estimates.map((one) => `${one.truth ?? 0},${(one.truth ?? 0) + one.error},${one.margin}`)].join("\n") + "\n";
  const label = `One simulated collection: ${estimates.length} estimates with 95% intervals beside the truth, in ${unit}`;
  return figure(label, "simulated", csv, (svg, width, height) => {
    const at = (one) => one.truth ?? 0;
    const y = reach(estimates.flatMap((one) => [at(one) + one.error + one.margin, at(one) + one.error - one.margin, at(one)]), false);
    const x = { log: false, from: -0.5, to: estimates.length - 0.5 };
    const room = { left: 64, right: width - 12, top: 22, bottom: height - 26 };
    const X = scale(x, room.left, room.right), Y = scale(y, room.bottom, room.top), wide = Math.min(9, (room.right - room.left) / estimates.length / 2.4);
    for (const tick of ticks(y, 6)) svg.append(s("line", { cls: "grid", x1: room.left, x2: room.right, y1: Y(tick), y2: Y(tick) }),
      s("text", { cls: "tick", x: room.left - 8, y: Y(tick) + 4, "text-anchor": "end", text: tickText(tick, false) }));
    estimates.forEach((one, place) => svg.append(
      s("line", { cls: "span", x1: X(place), x2: X(place), y1: Y(at(one) + one.error - one.margin), y2: Y(at(one) + one.error + one.margin) }),
      s("line", { cls: "truth", x1: X(place) - wide, x2: X(place) + wide, y1: Y(at(one)), y2: Y(at(one)) }),
      s("circle", { cls: "dot", cx: X(place), cy: Y(at(one) + one.error), r: Math.max(2.2, Math.min(5, wide / 1.6)), "stroke-width": 1 })));
    svg.append(s("text", { cls: "tick", x: 2, y: 11, text: unit }),
      s("text", { cls: "name", x: room.right - 62, y: 11, "text-anchor": "end", text: "estimate ±" }), s("text", { cls: "name other", x: room.right, y: 11, "text-anchor": "end", text: "– truth" }));
    const read = estimates.map((one, place) => ({ x: X(place), text: `Truth ${plain(at(one), 5)}, estimate ${plain(at(one) + one.error, 5)} ± ${plain(one.margin)}` }));
    return { points: read, mark() {} };
  }, 240);
}
