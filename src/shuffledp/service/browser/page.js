/* A page that takes part in the campaign whose id follows # in its address. */

import { Refusal, Wallet, load, openRound, send } from "./client.js";

const at = (id) => document.getElementById(id);
const base = new URL("..", import.meta.url).href.replace(/\/$/, "");
const LIMIT = "shuffledp-limit", MAX_RADIO_BUTTONS = 8;
/** Formats a number rounded up to two decimals, so that no smaller ε is promised than holds. */
const up = (number) => (Math.max(0, Math.ceil(number * 100 - 1e-9)) / 100).toLocaleString("en", { minimumFractionDigits: 2 });
const whole = (number) => number.toLocaleString("en");
const times = (epsilon) => (epsilon > 20 ? "very many" : whole(Math.ceil(Math.exp(epsilon) * 10) / 10));

function element(name, settings = {}, ...inside) {
  const node = Object.assign(document.createElement(name), settings);
  node.append(...inside);
  return node;
}

function say(sentence, { bad = false, good = false } = {}) {
  at("alert").textContent = bad ? sentence : "";
  at("alert").hidden = !bad;
  at("status").textContent = bad ? "" : sentence;
  at("status").hidden = bad || !sentence;
  at("status").classList.toggle("good", good);
  if (bad || good) at(bad ? "alert" : "status").scrollIntoView({ block: "nearest" });
}

// --- Question ---

/** Shows the choices; returns a function that reads the answer. */
function ask({ task: { name, domain } }) {
  const labels = name === "count" ? ["Yes", "No"] : domain.categories;
  if (!labels) {
    const [low, high] = name === "frequency" ? [0, domain.count - 1] : [domain.low, domain.high];
    const step = name === "frequency" ? 1 : "any";
    const input = element("input", { type: "number", id: "number", min: low, max: high, step, required: true });
    at("choices").replaceChildren(element("label", { htmlFor: "number" }, `A number from ${whole(low)} to ${whole(high)}`), input);
    return () => input.valueAsNumber;
  }
  if (labels.length > MAX_RADIO_BUTTONS) {
    const options = labels.map((label) => element("option", { value: label }, label));
    const select = element("select", { id: "select", required: true }, element("option", { value: "" }, "Choose …"), ...options);
    at("choices").replaceChildren(element("label", { htmlFor: "select" }, "Your answer"), select);
    return () => select.value;
  }
  const radios = labels.map((value) => element("input", { type: "radio", name: "answer", value, required: true }));
  at("choices").replaceChildren(...radios.map((radio) => element("label", { className: "choice" }, radio, element("span", {}, radio.value))));
  return () => {
    const chosen = radios.find((radio) => radio.checked)?.value;
    return name === "count" && chosen ? chosen === "Yes" : chosen;
  };
}

// --- Admission token ---

const TOKEN = { kind: "rfc9578-2", type: [0, 2], nonce: 32, digest: 32, signature: 256 };
const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
const hash = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", Uint8Array.from(parts.flatMap((part) => [...part]))));
const demand = (holds, sentence) => { if (!holds) throw new Refusal(sentence); };

/** Returns the pasted token; throws Refusal unless it is for this round of this campaign and from its issuer. */
async function admitted({ id, document: { admission } }, round) {
  let token = new Uint8Array();
  try { token = bytes(at("token").value.trim().replace(/=+$/, "")); } catch { /* Not base64url: refused below. */ }
  const { type, nonce, digest, signature } = TOKEN, after = type.length + nonce;
  demand(token.length === after + 2 * digest + signature && type.every((byte, place) => token[place] === byte), "This is no token: paste all of it, as the issuer gave it. Nothing was sent.");
  const text = new TextEncoder(), name = text.encode(admission.issuer), number = new DataView(new ArrayBuffer(8));
  number.setBigUint64(0, BigInt(round));
  const context = await hash(text.encode("shuffledp v1 admission\0"), id.match(/../g).map((pair) => parseInt(pair, 16)), new Uint8Array(number.buffer));
  const wanted = [...(await hash(await challenge(type, name, context))), ...(await hash(bytes(admission.key)))];
  demand(wanted.every((byte, place) => token[after + place] === byte), "This token is for another campaign or round, or of another issuer. Nothing was sent.");
  return token;
}

const challenge = (type, name, context) => [...type, name.length >> 8, name.length & 255, ...name, context.length, ...context, 0, 0];

// --- Explanations ---

const NAMELESS = "not named";

/** Describes how an answer is randomised, depending on the local ε. */
function describeRandomizer(local, noiseless) {
  if (noiseless) return "Your answer as it is; the noise that hides it is added by the shuffler.";
  if (local === null) return "Your answer, or parts of it, among random messages that your browser draws.";
  return "Not your answer itself, but one that your browser draws by chance: it may be yours or another one.";
}

function explain(campaign, notice) {
  const { promise: { epsilon, epsilon_local: local, delta, users, colluding }, analyst, shuffler, document } = campaign;
  const who = analyst || "the analyst", mixer = shuffler || "the shuffler";
  at("question").textContent = document.question || "Your answer";
  const noiseless = campaign.recipe.kind === "signed" && !campaign.recipe.noise.length;
  at("sent").textContent = `${describeRandomizer(local, noiseless)} It is locked so that only the analyst can open it, after it was mixed ` +
    "with those of everybody else. No name and no cookie is sent.";
  at("promise").textContent =
    `Whatever you answer, anything that ${who} may find out becomes at most ${times(epsilon)} times as likely as with ` +
    `another answer (ε = ${up(epsilon)}), but for a chance of 1 in ${whole(Math.floor(1 / delta + 1e-6))}` +
    (document.plan.rounds > 1 ? `, over all ${whole(document.plan.rounds)} rounds together.` : ".");
  const same = analyst === shuffler, both = same ? `If what ${who} mixes and what it reads come together` : `If ${who} and ${mixer} work together`;
  at("together").textContent = local === null
    ? `${both}, your answer can be found out.`
    : `${both}, it is still at most ${times(local)} times (ε = ${up(local)}).`;
  at("analyst").textContent = `${analyst || NAMELESS} (analyst)`;
  at("shuffler").textContent = `${shuffler || NAMELESS} (shuffler)`;
  at("one").hidden = !same;
  const colluders = colluding ? `, of whom up to ${whole(colluding)} may work against you` : "";
  const conditions = [
    `at least ${whole(users)} people take part${colluders}: with fewer, nothing is handed on;`,
    ...(noiseless ? ["the shuffler adds the noise that was planned, and tells nobody what it added;"] : []),
    "the shuffler tells nobody who sent what, and throws its key away after mixing;",
    "you take part once, with this browser, and do not clear its data before the round ends;",
    "you do not tell your answer elsewhere: that you took part is not hidden, only what you answered.",
  ];
  at("conditions").replaceChildren(...conditions.map((condition) => element("li", {}, condition)));
  at("id").textContent = campaign.id;
  at("told").hidden = false;
  const until = new Date(notice.closes * 1000).toLocaleString("en", { dateStyle: "long", timeStyle: "short" });
  say(`This round is open until ${until}.`);
}

async function showCost(campaign, wallet) {
  const before = (await wallet.spent()).epsilon, after = (await wallet.spent(campaign)).epsilon;
  at("cost").textContent =
    `This campaign costs ε = ${up(campaign.promise.epsilon)}: the smaller, the less can be learned about you. With this browser you have given ε = ${up(before)} so far` +
    (after > before ? `; with your answer it will be ${up(after)}.` : ", this campaign included.") +
    (after > wallet.limit && after > before ? " That is more than your limit: nothing is sent unless you raise it." : "");
  // The meter is red above the limit, because its optimum is below it.
  Object.assign(at("meter"), { max: 1.01, low: 1, high: 1, optimum: 0, value: Math.min(after / wallet.limit, 1.01) });
}

// --- Steps of the page ---

function finish(sentence) {
  at("answers").disabled = at("admission").disabled = at("own-limit").disabled = at("button").disabled = true;
  at("button").textContent = "Sent";
  say(sentence, { good: true });
}

const limit = () => {
  const typed = at("limit").valueAsNumber;
  localStorage.setItem(LIMIT, String(typed));
  return typed;
};

async function begin() {
  const campaign = await load(base, location.hash.slice(1)), notice = await openRound(campaign);
  const { admission } = campaign.document;
  if (admission) {
    demand(admission.kind === TOKEN.kind, "This campaign admits people in a way that this page does not know.");
    at("admission").hidden = false;
    at("token").required = true;
    at("issuer").textContent = admission.issuer;
  }
  at("limit").value = Number(localStorage.getItem(LIMIT)) || 1;
  const answer = ask(campaign);
  explain(campaign, notice);
  const refresh = () => at("limit").validity.valid && showCost(campaign, new Wallet(limit())).catch(failed);
  await refresh();
  at("limit").addEventListener("input", refresh);
  at("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    at("button").disabled = true;
    say("Sealing and sending …");
    try {
      const wallet = new Wallet(limit()), { sent } = await send(campaign, answer(), wallet, admission && admitted);
      await showCost(campaign, wallet);
      finish(sent ? "Your answer is in. It counts once, however often you come back." : "You have already taken part.");
    } catch (error) {
      at("button").disabled = false;
      failed(error);
      await resume(campaign, notice);
    }
  });
  at("form").hidden = false;
  await resume(campaign, notice);
}

/** Resumes an earlier answer instead of asking again. */
async function resume(campaign, notice) {
  const earlier = await new Wallet(limit()).answer(campaign, notice);
  if (!earlier) return;
  at("answers").disabled = true;
  for (const input of [...at("choices").querySelectorAll("input, select"), at("token")]) input.required = false;
  at("admission").disabled = true;
  if (!earlier.report) return finish("You have already taken part in this round with this browser.");
  at("button").textContent = "Send the same again";
  if (at("alert").hidden) say("Your answer was sealed, but it is not confirmed yet. Send the same bytes again: it counts once.");
}

const failed = (error) => say(error instanceof Refusal ? error.message : "Something went wrong on this page. Nothing more was sent.", { bad: true });

addEventListener("hashchange", () => location.reload());
begin().catch(failed);
