// Requests to the JSON interface of the server: quick ones one after the other, long ones with progress.

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

export class Refused extends Error {}

async function post(operation, given, accept, signal) {
  for (let tries = 0; ; tries++) {
    const answer = await fetch(`api/${operation}`, {
      method: "POST", body: JSON.stringify(given), signal,
      headers: { "content-type": "application/json", accept },
    });
    if (answer.status !== 503 || tries > 20) return answer;
    await pause(200 + 100 * tries);
  }
}

async function sentence(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return "The server cannot be reached; is `shuffledp web` still running?";
  }
}

/** Returns the answer of one operation. */
export async function ask(operation, given, signal) {
  const answer = await post(operation, given, "application/json", signal);
  if (!answer.ok) throw new Refused(await sentence(answer));
  return answer.json();
}

/** The same, with progress and early parts of the answer; aborting the signal cancels the computation. */
export async function follow(operation, given, heard, signal, known = () => {}) {
  const answer = await post(operation, given, "application/x-ndjson", signal);
  if (!answer.ok) throw new Refused(await sentence(answer));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Refused("The answer is incomplete; is `shuffledp web` still running?");
    text += value;
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) {
      const told = JSON.parse(line);
      if (told.error) throw new Refused(told.error);
      if (told.first) known(told.first);
      else if (told.progress) heard(told.progress);
      else return told;
    }
  }
}

export const get = async (path) => (await fetch(`api/${path}`)).json();

/** Runs only the newest request: those that were superseded while another one ran are dropped. */
export class Latest {
  constructor(work) {
    this.work = work;
  }

  ask(...given) {
    this.next = given;
    this.running ??= this.run().finally(() => (this.running = null));
    return this.running;
  }

  async run() {
    while (this.next) {
      const given = this.next;
      this.next = null;
      await this.work(...given, () => this.next !== null);
    }
  }
}
