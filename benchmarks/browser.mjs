// node browser.mjs CLIENT < jobs: processor time in ms of drawing an answer, and of drawing and sealing it, for each job.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { randomize, report } = await import(pathToFileURL(process.argv[2]).href);
const { id, document, key, jobs } = JSON.parse(readFileSync(0, "utf8"));
const notice = { round: 1, key: Buffer.from(key, "hex") };
const timed = async (count, work) => {
  await work();
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / count;
};
const told = [];
for (const { recipe, value, count } of jobs) {
  const drawn = await timed(count, () => randomize(recipe, value));
  told.push([drawn, await timed(count, () => report({ id, document }, notice, randomize(recipe, value)))]);
}
process.stdout.write(JSON.stringify(told));
