// Clients of shufflers that fail, lie or are closed: node clients.mjs CLIENT.JS < told. Exits with 1 where one does wrong.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { Refusal, Wallet, load, memoryStore, send } = await import(pathToFileURL(process.argv[2]).href);
const { campaign, id, notice, forged, other, strange, strangeId, choosy, choosyId, choosyNotice } = JSON.parse(readFileSync(0, "utf8"));
const BASE = "http://shuffler.example";
let posted, answers;
globalThis.fetch = async (url, options = {}) => {
  assert.ok(url.startsWith(`${BASE}/v1/campaigns/`), url);
  assert.deepEqual([options.credentials, options.referrerPolicy], ["omit", "no-referrer"]);
  if (options.method === "POST") {
    assert.equal(url, `${BASE}/v1/campaigns/${answers.id ?? id}/rounds/1/reports`);
    posted.push(Buffer.from(options.body).toString("hex"));
    if (answers.post === "lost") throw new TypeError("network");
    return new Response("", { status: answers.post ?? 201 });
  }
  const body = url.endsWith("/round") ? answers.notice ?? notice : answers.campaign ?? campaign;
  return typeof body === "number" ? new Response("", { status: body }) : new Response(typeof body === "function" ? body() : body);
};
/** An answer of 64 MiB in small pieces, which counts those that somebody took. */
const endless = () => {
  const stream = () =>
    new ReadableStream({
      pull(controller) {
        if ((stream.pieces += 1) > 1 << 10) controller.close();
        else controller.enqueue(new Uint8Array(1 << 16));
      },
    });
  return Object.assign(stream, { pieces: 0 });
};
const begin = (told = {}) => ([posted, answers] = [[], told]);
const given = (store) => store.all().then((entries) => entries.length);

// One answer: randomised once, whatever is asked afterwards.
begin();
let store = memoryStore();
const wallet = new Wallet(1, store);
assert.deepEqual(await wallet.spent(), { epsilon: 0, delta: 0 });
assert.deepEqual(await send(await load(BASE, id), "red", wallet), { round: 1, sent: true });
assert.deepEqual(await send(await load(BASE, id), "blue", wallet), { round: 1, sent: false });
assert.equal(posted.length, 1);
assert.equal((await store.all())[0].report, null);
const { epsilon } = JSON.parse(campaign).promise;
assert.equal((await wallet.spent()).epsilon, epsilon);

// Lost on the way, or refused for now: the same bytes, until they are confirmed.
for (const lost of ["lost", 503, 429]) {
  begin({ post: lost });
  store = memoryStore();
  for (const answer of ["red", "green"]) await assert.rejects(send(await load(BASE, id), answer, new Wallet(1, store)), Refusal);
  answers.post = 201;
  await send(await load(BASE, id), "blue", new Wallet(1, store));
  assert.deepEqual([posted.length, new Set(posted).size], [3, 1]);
}

// A round that closes meanwhile: it counts as given.
begin({ post: 410 });
store = memoryStore();
await assert.rejects(send(await load(BASE, id), "red", new Wallet(1, store)), /closed before your answer arrived/);
assert.equal(await given(store), 1);

begin({ post: 400 });
await assert.rejects(send(await load(BASE, id), "red", new Wallet(1, memoryStore())), /does not take what this page sends/);

// Two pages at once: one of them is first, and both send its bytes.
begin();
store = memoryStore();
const found = await load(BASE, id);
await Promise.all([send(found, "red", new Wallet(1, store)), send(found, "blue", new Wallet(1, store))]);
assert.deepEqual([new Set(posted).size, await given(store)], [1, 1]);

// A campaign that admits by tokens: it goes with the messages, inside the seal.
begin({ campaign: choosy, notice: choosyNotice, id: choosyId });
const admit = async ({ id: of }, round) => new Uint8Array(of === choosyId ? 30 + round : 0);
await send(await load(BASE, choosyId), "red", new Wallet(1, memoryStore()), admit);
assert.equal(posted[0].length, 2 * (97 + 31));

// What is refused before anything is drawn or sent.
const refused = async (sentence, { told = {}, answer = "red", limit = 1, which = id } = {}) => {
  begin(told);
  store = memoryStore();
  await assert.rejects(async () => send(await load(BASE, which), answer, new Wallet(limit, store)), (error) => {
    assert.ok(error instanceof Refusal, error.stack);
    assert.match(error.message, sentence);
    return true;
  });
  assert.deepEqual([posted, await given(store)], [[], 0]);
};
await refused(/not the one it was made for/, { told: { campaign: campaign.replace("red", "rad") } });
await refused(/not the one it was made for/, { told: { campaign: `${campaign} ` } });
await refused(/does not know this campaign/, { told: { campaign: 404 } });
await refused(/cannot be reached now/, { told: { campaign: 503 } });
await refused(/cannot be reached now/, { told: { notice: 503 } });
await refused(/64 digits/, { which: "../x" });
for (const [name, most] of [["campaign", 1 << 20], ["notice", 1 << 16]]) {
  const told = { [name]: endless() };
  await refused(/not the one it was made for/, { told });
  assert.ok(told[name].pieces <= most / (1 << 16) + 3, `${told[name].pieces}`);
}
const broken = () => new ReadableStream({ pull: (controller) => controller.error(new TypeError("network")) });
await refused(/cannot be reached now/, { told: { campaign: broken } });
await refused(/cannot be reached now/, { told: { notice: broken } });
await refused(/not signed by the shuffler/, { told: { notice: forged } });
await refused(/not signed by the shuffler/, { told: { notice: notice.replace('"round":1', '"round":2') } });
await refused(/not the one it was made for/, { told: { notice: other } });
await refused(/not the one it was made for/, { told: { notice: "{}" } });
await refused(/takes no answers now/, { told: { notice: 410 } });
await refused(/Choose one of the answers/, { answer: "violet" });
await refused(/more than the limit/, { limit: epsilon / 2 });
await refused(/must be a number above 0/, { limit: NaN });
await refused(/admits people by tokens/, { told: { campaign: choosy, notice: choosyNotice }, which: choosyId });
await refused(/hadamard-response.* does not run in browsers/, { told: { campaign: strange }, which: strangeId });

// A browser without one of the curves says so.
const missing = async () => {
  throw new DOMException("no", "NotSupportedError");
};
for (const [method, place, curve] of [["importKey", 2, "Ed25519"], ["generateKey", 0, "X25519"]]) {
  const whole = crypto.subtle[method];
  crypto.subtle[method] = (...told) => (told[place] === curve ? missing() : whole.apply(crypto.subtle, told));
  await refused(/a newer one can/);
  crypto.subtle[method] = whole;
}
