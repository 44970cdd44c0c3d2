// The module's bytes against the vectors: node conformance.mjs CLIENT.JS VECTORS.JSON. Exits with 1 at the first difference.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , module, vectors] = process.argv;
const { randomize, seal } = await import(pathToFileURL(module).href);
const { messages, seal: sealed } = JSON.parse(readFileSync(vectors, "utf8"));
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const unhex = (text) => new Uint8Array(Buffer.from(text, "hex"));

const words = (seed, first) => {
  const given = first.map((word) => BigInt(`0x${word}`));
  let k = 0;
  return () => given.shift() ?? createHash("sha256").update(`${seed}/${k++}`).digest().readBigUInt64BE();
};
let count = 0;
for (const { name, recipe, cases } of messages) {
  for (const { value, seed, first, messages: wanted } of cases) {
    assert.deepEqual(randomize(recipe, BigInt(value), words(seed, first)).map(hex), wanted, `${name}: ${seed}`);
    count++;
  }
}

const url = (text) => Buffer.from(text, "hex").toString("base64url");
for (const { ephemeral, receiver, info, content, sealed: wanted } of sealed) {
  const key = { kty: "OKP", crv: "X25519", d: url(ephemeral), x: url(wanted.slice(0, 64)) };
  const { d, ...shown } = key;
  const privateKey = await crypto.subtle.importKey("jwk", key, "X25519", false, ["deriveBits"]);
  const publicKey = await crypto.subtle.importKey("jwk", shown, "X25519", true, []);
  assert.equal(hex(await seal(unhex(receiver), unhex(info), unhex(content), { publicKey, privateKey })), wanted);
  count++;
}
console.log(count);
