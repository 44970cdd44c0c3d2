/* A client of shuffledp campaigns for browsers and Node: an answer is randomised once, each message is sealed to the
   analyst, all messages together to the shuffler, and the same bytes are sent until they are confirmed.
   No probability is a floating-point number: draws compare integers with 64-bit random words. */

/** An error whose message is shown to the person. */
export class Refusal extends Error {}

const refuse = (sentence) => {
  throw new Refusal(sentence);
};
const demand = (good, sentence) => good || refuse(sentence);
const WORD = 1n << 64n, UNIT = 1n << 53n;
const subtle = globalThis.crypto?.subtle;

// --- Bytes ---

const encoder = new TextEncoder();
const join = (...parts) => {
  const all = parts.map((part) => (typeof part === "string" ? encoder.encode(part) : new Uint8Array(part)));
  const whole = new Uint8Array(all.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of all) whole.set(part, (at += part.length) - part.length);
  return whole;
};
const hex = (content) => Array.from(content, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
const unbase64 = (text) =>
  Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
/** Encodes an integer, most significant byte first. */
const wide = (number, width) => unhex(number.toString(16).padStart(2 * width, "0"));

// --- HPKE (RFC 9180), base mode: X25519, HKDF-SHA256, AES-128-GCM ---

const KEM = join("KEM", [0, 32]), SUITE = join("HPKE", [0, 32, 0, 1, 0, 1]), EMPTY = new Uint8Array(32);
const hmac = async (secret, content) => {
  const key = await subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", key, content));
};
// An empty salt equals one of zeros: HMAC pads keys with zeros.
const extract = (suite, salt, label, secret) => hmac(salt, join("HPKE-v1", suite, label, secret));
const expand = async (suite, secret, label, info, length) =>
  (await hmac(secret, join([0, length], "HPKE-v1", suite, label, info, [1]))).slice(0, length);

/** Seals `content` to the public key `receiver`, bound to `info`; `pair`, the one-time keys, is for tests only. */
export async function seal(receiver, info, content, pair) {
  const { publicKey, privateKey } = pair ?? (await subtle.generateKey("X25519", false, ["deriveBits"]));
  const sent = new Uint8Array(await subtle.exportKey("raw", publicKey));
  const other = await subtle.importKey("raw", receiver, "X25519", false, []);
  const exchanged = await subtle.deriveBits({ name: "X25519", public: other }, privateKey, 256);
  const early = await extract(KEM, EMPTY, "eae_prk", exchanged);
  const shared = await expand(KEM, early, "shared_secret", join(sent, receiver), 32);
  const parts = [await extract(SUITE, EMPTY, "psk_id_hash", ""), await extract(SUITE, EMPTY, "info_hash", info)];
  const context = join([0], ...parts), secret = await extract(SUITE, shared, "secret", "");
  const key = await subtle.importKey("raw", await expand(SUITE, secret, "key", context, 16), "AES-GCM", false, ["encrypt"]);
  const iv = await expand(SUITE, secret, "base_nonce", context, 12);
  return join(sent, await subtle.encrypt({ name: "AES-GCM", iv }, key, content));
}

// --- Random draws ---

let pool = [];
/** Returns a uniform 64-bit word from the system's randomness; each word is used once. */
const system = () => {
  if (!pool.length) pool = [...crypto.getRandomValues(new BigUint64Array(64))];
  return pool.pop();
};

/** Exact samplers from 64-bit words. */
class Draw {
  constructor(word) {
    this.word = word;
  }

  /** Uniform on 0 … bound − 1. */
  below(bound) {
    let span = WORD;
    while (span < bound) span *= WORD;
    for (;;) {
      let number = 0n;
      for (let left = span; left > 1n; left /= WORD) number = number * WORD + this.word();
      if (number < span - (span % bound)) return number % bound;
    }
  }

  /** True with probability part/whole. */
  coin(part, whole = WORD) {
    return this.below(whole) < part;
  }

  /** True with probability e^−(part/whole): the first failure of coins part/whole/k is at an odd k. */
  fading(part, whole) {
    for (; part > whole; part -= whole) if (!this.fading(1n, 1n)) return false;
    let k = 1n;
    while (this.coin(part, whole * k)) k++;
    return k % 2n === 1n;
  }

  /** Rounds units/2^53·grid randomly to one of its two neighbours, with the same mean. */
  rounded(units, grid) {
    const place = units * grid;
    return place / UNIT + (this.coin(place % UNIT, UNIT) ? 1n : 0n);
  }

  /** Negative binomial of the noise's shape: i with weight C(i + shape − 1, i)·λ^i. */
  pile({ shape: [part, whole], rate, ratio }) {
    const more = () => (rate ? this.fading(...rate) : this.coin(...ratio));
    let total = 0n;
    // The integer part of the shape is a sum of geometric numbers; the rest accepts one with Π (j − 1 + rest)/j.
    for (; part >= whole; part -= whole) while (more()) total++;
    for (let i = 0n; ; ) {
      if (!more()) return total + i;
      i++;
      if (!this.coin((i - 1n) * whole + part, i * whole)) i = 0n;
    }
  }
}

// --- Mechanisms: messages are integers or bit vectors ---

const row = (count, on, order) => {
  const bytes = new Uint8Array(Math.ceil(count / 8));
  for (let j = 0; j < count; j++) if (on(j)) bytes[j >> 3] |= 1 << (order ? 7 - (j & 7) : j & 7);
  return bytes;
};

const KINDS = {
  /** The true option or a uniform one; then dummies, some of them blank. */
  option(draw, { options, uniform, dummies, filled, grid }, value) {
    const own = grid ? draw.rounded(value, grid) : value, sent = [draw.coin(uniform) ? draw.below(options) : own];
    while (sent.length <= dummies) sent.push(draw.coin(filled) ? draw.below(options) : options);
    return sent;
  },
  /** A bit for each option; the true one has another probability. */
  bits(draw, { options, own, other }, value) {
    return [row(Number(options), (j) => draw.coin(j === Number(value) ? own : other))];
  },
  /** A random linear hash with the true bucket or a uniform one. */
  hash(draw, { messages, length, uniform }, value) {
    const drawn = draw.below(messages);
    if (draw.coin(uniform)) return [drawn];
    let bucket = 0n;
    for (let left = drawn / length; value; left /= length, value /= length) bucket += (left % length) * (value % length);
    return [drawn - (drawn % length) + (bucket % length)];
  },
  /** A uniform subset, of all subsets or of those with the true option. */
  subset(draw, { options, size, width, uniform }, value) {
    const held = new Set(), last = options - 1n, own = !draw.coin(uniform);
    for (let j = options - size; j < options; j++) {
      const drawn = draw.below(j + 1n);
      held.add(held.has(drawn) || (own && j === last) ? j : drawn);
    }
    // If an option is forced, it is the last one; swap it with the true one.
    const named = (j) => (j === last ? value : j === value ? last : j);
    if (size * width >= options) return [row(Number(options), (j) => held.has(named(BigInt(j))), true)];
    const sorted = [...held].map(named).sort((a, b) => (a < b ? -1 : 1));
    const each = Number(width), digits = sorted.map((j) => j.toString(2).padStart(each, "0")).join("");
    return [row(digits.length, (j) => digits[j] === "1", true)];
  },
  /** A uniform point of the window around the value, or of the entire grid. */
  window(draw, { grid, size, uniform }, value) {
    if (draw.coin(uniform)) return [draw.below(grid)];
    return [draw.rounded(value, grid - size) + draw.below(size)];
  },
  /** A point with the weights of a hat around the value; the last weight, the brim, holds everywhere else. */
  hat(draw, { grid, weights }, value) {
    const point = draw.rounded(value, grid), brim = weights.at(-1), reach = BigInt(weights.length - 1);
    const [tip, ...sides] = weights.slice(0, -1);
    let left = draw.below(sides.reduce((sum, side) => sum + 2n * side, tip + (grid + 2n) * brim));
    if (left < tip) return [point + reach];
    left -= tip;
    for (const [j, side] of sides.entries()) {
      if (left < 2n * side) return [point + reach + (left < side ? 1n : -1n) * BigInt(j + 1)];
      left -= 2n * side;
    }
    left /= brim;
    return [left <= point ? left : left + 2n * reach - 1n];
  },
  /** Uniform shares whose sum is the value and a share of the noise. */
  shares(draw, { levels, modulus, messages, noise }, value) {
    let rest = draw.rounded(value, levels) + draw.pile(noise) - draw.pile(noise);
    const shares = [];
    while (shares.length < messages - 1n) shares.push(draw.below(modulus));
    for (const share of shares) rest -= share;
    return [...shares, ((rest % modulus) + modulus) % modulus];
  },
  /** The true option, a share of the noise with both signs, and blanks. */
  signed(draw, { options, places, noise }, value) {
    const sent = [2n * value];
    for (const { signs, shape, ...law } of noise) {
      const held = [], [part, whole] = shape;
      // Splits the total over the options like independent noise: a unit takes a new option or repeats an earlier one.
      for (let left = draw.pile({ shape, ...law }); left; left--) {
        const i = BigInt(held.length);
        held.push(draw.coin(part, part + i * whole) ? draw.below(options) : held[draw.below(i)]);
      }
      for (const sign of signs) sent.push(...held.map((option) => 2n * option + sign));
    }
    while (sent.length < places) sent.push(2n * options);
    return sent.slice(0, Number(places));
  },
};

/** Converts the strings of a recipe to integers. */
const integers = (recipe) =>
  typeof recipe === "string" ? BigInt(recipe)
  : Array.isArray(recipe) ? recipe.map(integers)
  : Object.fromEntries(Object.entries(recipe).map(([name, value]) => [name, integers(value)]));

/** Returns the messages of an answer; `value` is an option's index, or a number in units of 2^-53 of its range. */
export function randomize({ kind, bytes, ...recipe }, value, word = system) {
  const messages = KINDS[kind](new Draw(word), integers(recipe), BigInt(value));
  return messages.map((message) => (message instanceof Uint8Array ? message : wide(message, bytes)));
}

// --- Campaigns ---

const BROWSER_TOO_OLD = "This browser cannot seal and check what is sent (X25519, Ed25519): a newer one can. Nothing was sent.";
const WRONG_CAMPAIGN = "This page got a campaign that is not the one it was made for. Nothing was sent.";
const UNREACHABLE = "The shuffler cannot be reached now. Try again later; an answer that you gave stays as it is.";
const ask = (url, options) =>
  fetch(url, { credentials: "omit", referrerPolicy: "no-referrer", ...options }).catch(() => refuse(UNREACHABLE));
const known = (answer) => demand(answer.status !== 404, "The shuffler does not know this campaign.") && demand(answer.ok, UNREACHABLE);
/** Reads a response of at most `most` bytes. */
const read = async (answer, most) => {
  const reader = answer.body?.getReader(), parts = [];
  for (let held = 0; reader; ) {
    const { done, value } = await reader.read().catch(() => refuse(UNREACHABLE));
    if (done) break;
    parts.push(value);
    if ((held += value.length) > most) reader.cancel().catch(() => {}), refuse(WRONG_CAMPAIGN);
  }
  return join(...parts);
};
const CAMPAIGN_BYTES = 1 << 20, NOTICE_BYTES = 1 << 16;
const keyOf = ({ kem, kdf, aead, key }) => demand(kem === 32 && kdf === 1 && aead === 1, WRONG_CAMPAIGN) && unbase64(key);

/** Fetches a campaign from the shuffler at `base`; its bytes are checked against the id. */
export async function load(base, id) {
  demand(subtle, "This page can seal nothing unless it is loaded over https. Nothing was sent.");
  await subtle.generateKey("X25519", false, ["deriveBits"]).catch(() => refuse(BROWSER_TOO_OLD));
  demand(/^[0-9a-f]{64}$/.test(id), "This page needs the id of a campaign: 64 digits and letters at the end of its address.");
  const answer = await ask(`${base}/v1/campaigns/${id}`);
  known(answer);
  const content = await read(answer, CAMPAIGN_BYTES);
  const found = await subtle.digest("SHA-256", join("shuffledp v1 campaign\0", content));
  demand(hex(new Uint8Array(found)) === id, WRONG_CAMPAIGN);
  const document = JSON.parse(new TextDecoder().decode(content));
  const readable = document.format === "shuffledp campaign" && document.version === 1 && document.hops.length === 1;
  demand(readable, "This campaign is newer than this page, or none at all. Nothing was sent.");
  const { plan, promise, analyst, hops, recipe } = document;
  demand(Object.hasOwn(KINDS, recipe.kind), `The method of this campaign (${plan.mechanism.name}) does not run in browsers. Nothing was sent.`);
  return { id, base, document, recipe, promise, task: plan.task, analyst: analyst.operator, shuffler: hops[0].operator };
}

// As in the Python package, spellings that look alike are one answer: composed letters, no invisible characters.
const INVISIBLE = /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const canonical = (text) => String(text).replace(INVISIBLE, "").normalize("NFC");

/** Converts an answer to the `value` of `randomize`; throws Refusal if it does not fit the campaign. */
export function valueOf({ recipe, task: { name, domain } }, answer) {
  if (name === "frequency") {
    const { categories: names } = domain, place = names ? names.map(canonical).indexOf(canonical(answer)) : Number(answer);
    demand(Number.isSafeInteger(place) && place >= 0 && place < (names?.length ?? domain.count), "Choose one of the answers.");
    return place;
  }
  const { low, high } = domain, number = name === "count" && typeof answer === "boolean" ? +answer : answer;
  demand(typeof number === "number" && number >= low && number <= high, `The answer must be a number from ${low} to ${high}.`);
  demand(name !== "count" || number === 0 || number === 1, "Choose yes or no.");
  const [first, last] = recipe.range, moved = first + ((number - low) / (high - low)) * (last - first);
  const within = Math.min(Math.max(moved, first), last);
  // Rounds half to even, as the Python package does.
  const even = (x) => Math.round(x) - (Math.round(x) - x === 0.5 && Math.round(x) % 2 ? 1 : 0);
  return recipe.signed ? even(within * 2 ** 52) + 2 ** 52 : Math.min(even(((within - first) / (last - first)) * 2 ** 53), 2 ** 53);
}

/** Fetches the open round and checks the shuffler's signature. */
export async function openRound(campaign) {
  const { id, base, document } = campaign, answer = await ask(`${base}/v1/campaigns/${id}/round`, { cache: "no-store" });
  demand(answer.status !== 410, "This campaign takes no answers now.");
  known(answer);
  const parts = /^(.*)"signature":"([\w-]{86})",(.*)$/s.exec(new TextDecoder().decode(await read(answer, NOTICE_BYTES))) ?? refuse(WRONG_CAMPAIGN);
  // The text parsed below is exactly the signed one.
  const signed = parts[1] + parts[3];
  let key;
  try {
    key = await subtle.importKey("raw", unbase64(document.hops[0].identity.ed25519), "Ed25519", false, ["verify"]);
  } catch {
    refuse(BROWSER_TOO_OLD);
  }
  demand(
    await subtle.verify("Ed25519", key, unbase64(parts[2]), join("shuffledp v1 round\0", signed)),
    "The round is not signed by the shuffler of this campaign. Nothing was sent.",
  );
  const notice = JSON.parse(signed), { round, campaign: of, closes } = notice;
  demand(of === id && Number.isSafeInteger(round) && round > 0 && round <= document.plan.rounds, WRONG_CAMPAIGN);
  return { round, closes, key: keyOf(notice.key) };
}

/** Seals a person's report: messages sorted by their bytes, so that the position does not tell a real one from a dummy;
    then the person's token, if the campaign requires one. */
export async function report({ id, document }, { round, key }, messages, token = []) {
  const bound = (label) => join(`shuffledp v1 ${label}\0`, unhex(id), wide(round, 8)), analyst = keyOf(document.analyst.key);
  const sealed = await Promise.all(messages.map((message) => seal(analyst, bound("message"), message)));
  const sorted = sealed.map(hex).sort().map(unhex);
  return seal(key, bound("report"), join(...sorted, token));
}

// --- Wallet ---

/** Stores entries in memory: for tests, and as a base for other stores. */
export function memoryStore(entries = new Map()) {
  return {
    all: async () => [...entries.values()],
    add: async (entry, check) => {
      if (!entries.has(entry.key)) {
        check([...entries.values()]);
        entries.set(entry.key, entry);
      }
      return entries.get(entry.key);
    },
    put: async (entry) => entries.set(entry.key, entry),
  };
}

/** Stores entries in IndexedDB: on disk before anything is sent, and safe with several open pages. */
export function browserStore(name = "shuffledp") {
  const within = (mode, work) =>
    new Promise((resolve, reject) => {
      const opening = indexedDB.open(name, 1);
      const failed = (event) => {
        event?.preventDefault?.();
        reject(new Refusal("This browser keeps nothing for this page, so that an answer might be given twice. Nothing was sent."));
      };
      opening.onupgradeneeded = () => opening.result.createObjectStore("answers", { keyPath: "key" });
      opening.onerror = failed;
      opening.onsuccess = () => {
        const change = opening.result.transaction("answers", mode, { durability: "strict" });
        let found;
        change.onabort = (event) => (opening.result.close(), failed(event));
        change.oncomplete = () => (opening.result.close(), resolve(found));
        const answers = change.objectStore("answers"), reading = answers.getAll();
        reading.onsuccess = () => {
          try {
            found = work(reading.result, answers);
          } catch (refused) {
            reject(refused);
            change.abort();
          }
        };
      };
    });
  return {
    all: () => within("readonly", (entries) => entries),
    add: (entry, check) =>
      within("readwrite", (entries, answers) => {
        const known = entries.find(({ key }) => key === entry.key);
        if (known) return known;
        check(entries);
        answers.add(entry);
        return entry;
      }),
    put: (entry) => within("readwrite", (_, answers) => void answers.put(entry)),
  };
}

/** A person's answers and limit: the promised ε of all campaigns, each for all of its rounds, are added up. */
export class Wallet {
  constructor(limit, store = browserStore()) {
    demand(limit > 0 && Number.isFinite(limit), "Your limit must be a number above 0.");
    Object.assign(this, { limit, store });
  }

  /** Returns the total ε and δ, including one more campaign if given. */
  async spent(more) {
    return added(await this.store.all(), more);
  }

  /** Returns the answer to a round, if any. */
  async answer(campaign, { round }) {
    return (await this.store.all()).find(({ key }) => key === `${campaign.id}-${round}`);
  }
}

const added = (entries, more) => {
  const given = new Map(entries.map(({ campaign, epsilon, delta }) => [campaign, { epsilon, delta }]));
  if (more) given.set(more.id, more.promise);
  let epsilon = 0, delta = 0;
  for (const each of given.values()) (epsilon += each.epsilon), (delta += each.delta);
  return { epsilon, delta };
};

/** Answers the open round. An earlier answer is not replaced: its bytes are sent until they are confirmed.
    `admit(campaign, round)` returns the person's token, if the campaign requires one.
    Returns the round, and true as `sent` if this call sent the answer. */
export async function send(campaign, answer, wallet, admit) {
  const notice = await openRound(campaign), { round } = notice, { id, promise } = campaign;
  let entry = await wallet.answer(campaign, notice);
  if (!entry) {
    const afford = (entries) =>
      demand(added(entries, campaign).epsilon <= wallet.limit, "This would be more than the limit that you set for yourself. Nothing was sent.");
    afford(await wallet.store.all());
    const value = valueOf(campaign, answer), asks = campaign.document.admission;
    demand(!asks || admit, "This campaign admits people by tokens, of which this page has none. Nothing was sent.");
    const token = asks ? await admit(campaign, round) : [], messages = randomize(campaign.recipe, value);
    const { epsilon, delta } = promise, sealed = await report(campaign, notice, messages, token);
    entry = await wallet.store.add({ key: `${id}-${round}`, campaign: id, round, epsilon, delta, report: sealed }, afford);
  }
  if (!entry.report) return { round, sent: false };
  const headers = { "content-type": "application/vnd.shuffledp.reports" };
  const body = entry.report, place = `${campaign.base}/v1/campaigns/${id}/rounds/${round}/reports`;
  const { status } = await ask(place, { method: "POST", headers, body });
  demand(status !== 410, "This round was closed before your answer arrived; it counts as given.");
  demand(status === 201 || status >= 429, "The shuffler does not take what this page sends: the page may be too old.");
  demand(status === 201, "The shuffler could not keep your answer. Try again later; the same bytes will be sent.");
  await wallet.store.put({ ...entry, report: null });
  return { round, sent: true };
}
