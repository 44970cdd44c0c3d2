// What the module makes of answers, from words that a seed stands for: node reports.mjs CLIENT.JS < job; JSON out.
import { createCipheriv, createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { randomize, report, valueOf } = await import(pathToFileURL(process.argv[2]).href);
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const { seed, jobs } = JSON.parse(readFileSync(0, "utf8"));
const stream = createCipheriv("aes-256-ctr", createHash("sha256").update(seed).digest(), Buffer.alloc(16));
let block = Buffer.alloc(0), at = 0;
const word = () => {
  if (at === block.length) [block, at] = [stream.update(Buffer.alloc(1 << 16)), 0];
  return block.readBigUInt64BE((at += 8) - 8);
};
const told = [];
for (const { id, document, notice, answers } of jobs) {
  const { recipe, plan: { task } } = document, campaign = { id, document, recipe, task };
  const values = answers.map((answer) => valueOf(campaign, answer));
  const messages = values.map((value) => randomize(recipe, value, word));
  const sealing = notice && { round: notice.round, key: Buffer.from(notice.key, "hex") };
  const reports = [];
  for (const each of sealing ? messages : []) reports.push(hex(await report(campaign, sealing, each)));
  told.push({ values: values.map(String), messages: messages.map((each) => each.map(hex).join("")), reports });
}
process.stdout.write(JSON.stringify(told));
