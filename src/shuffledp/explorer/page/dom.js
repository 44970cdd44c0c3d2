// Elements of the page, formatted numbers, and files to save.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, given, kids) {
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.textContent = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name === "cls" ? "class" : name, value === true ? "" : value);
  }
  made.append(...kids.flat(Infinity).filter((kid) => kid !== null && kid !== undefined && kid !== false));
  return made;
}

export const h = (tag, given, ...kids) => fill(document.createElement(tag), given, kids);
export const s = (tag, given, ...kids) => fill(document.createElementNS(SVG, tag), given, kids);
export const $ = (id) => document.getElementById(id);

/** A number of the JSON interface, in which infinities are texts. */
export const num = (value) => (value === "inf" ? Infinity : value === "-inf" ? -Infinity : value);

/** A few digits, rounded up, so that a guarantee still holds as displayed. */
export function up(value, digits = 4) {
  return rounded(num(value), digits, 1);
}

/** A few digits, rounded down, for attacks. */
export function down(value, digits = 4) {
  return rounded(num(value), digits, -1);
}

function rounded(value, digits, way) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "–∞";
  if (value === 0) return "0";
  let text = value.toPrecision(digits);
  if ((Number(text) - value) * way < 0) {
    const unit = 10 ** (Math.floor(Math.log10(Math.abs(Number(text)))) - digits + 1);
    text = (Number(text) + way * unit).toPrecision(digits);
  }
  return tidy(text);
}

function tidy(text) {
  const found = Number(text);
  if (found === 0) return "0";
  if (Math.abs(found) >= 1e-4 && Math.abs(found) < 1e6) return found >= 1000 ? grouped(found) : String(found);
  return found.toExponential().replace("e+", "e");
}

export const plain = (value, digits = 3) =>
  value === null || value === undefined ? "–" : Number.isFinite(num(value)) ? tidy(num(value).toPrecision(digits)) : "∞";

export const grouped = (value) => (Number.isFinite(value) ? value.toLocaleString("en-US") : "∞");

/** A number as it is usually typed: 1e-8, 100000, 0.5. */
export const typed = (value) =>
  value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-3) ? value.toExponential().replace("e+", "e") : String(value);

/** A probability as a percentage, rounded up. */
export const percent = (value, digits = 3) => `${up(Math.min(1, num(value)) * 100, digits)}%`;

/** Typed text as a number; NaN if it is none. */
export function read(text) {
  const found = String(text).trim().replace(/,(?=\d{3}\b)/g, "").replace(/_/g, "");
  if (found.endsWith("%")) return Number(found.slice(0, -1) || NaN) / 100;
  return found === "" ? NaN : Number(found);
}

export function save(name, text, type = "text/plain") {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy it";
  }
  setTimeout(() => (button.textContent = before), 1500);
}

export const card = (title, ...kids) => h("section", { cls: "card" }, title && h("h2", { text: title }), ...kids);

export function conditions(list, head = "It holds if") {
  return card(head, h("ul", { cls: "conditions" }, list.map((text) => h("li", null, h("span", { text })))));
}

export const facts = (rows) =>
  h("dl", { cls: "facts" }, rows.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", { text: name }), h("dd", null, value)]));

/** A table: columns are [heading, is a number]; cells are texts or elements. */
export function table(columns, rows, classes = []) {
  const cell = (tag) => (value, at) => h(tag, { cls: columns[at][1] ?? null, scope: tag === "th" ? (at ? "col" : "col") : null }, value ?? "–");
  return h("div", { cls: "scroll", tabindex: 0, role: "region", "aria-label": "Table" },
    h("table", null, h("thead", null, h("tr", null, columns.map(([name], at) => cell("th")(name, at)))),
      h("tbody", null, rows.map((row, place) => h("tr", { cls: classes[place] || null },
        row.map((value, at) => (at ? cell("td")(value, at) : h("th", { scope: "row" }, value))))))));
}
