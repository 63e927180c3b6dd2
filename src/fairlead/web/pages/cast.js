// Reads a recording (asciicast 3) of any length: blocks of the file are fetched as they are needed, and no more than
// one of them is held. An event is {time, kind, data, at}; `at` is where the next one begins.

const BLOCK = 512 * 1024;
const TAILS = [64 * 1024, 8 * 1024 * 1024]; // in which the last comment must be
const LONGEST_LINE = 8 * 1024 * 1024;
const COVERED = /^# fairlead .*\btime=(\d+(?:\.\d+)?)/;

export class CastError extends Error {}

export class Cast {
  header = null; // {cols, rows, timestamp}
  begin = 0; // where the first event is
  size = 0; // of the file, when it was last asked for
  duration = 0; // as far as it is known
  #path;

  constructor(path) {
    this.#path = path;
  }

  // The header and how long it is. Throws CastError.
  async open(signal) {
    const bytes = await this.#fetch(0, BLOCK, signal);
    const end = bytes.indexOf(10);
    if (end < 0) throw new CastError("this is no recording: it has no header");
    let found;
    try {
      found = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
    } catch {
      throw new CastError("this is no recording: its header is no JSON");
    }
    if (found?.version !== 3) throw new CastError(`a recording of version ${found?.version} is not played here`);
    const { cols, rows } = found.term ?? {};
    this.header = { cols: sane(cols, 80), rows: sane(rows, 24), timestamp: Number(found.timestamp) || 0 };
    this.begin = end + 1;
    await this.measure(signal);
  }

  // How long it is now: it may still be written.
  async measure(signal) {
    for (const tail of TAILS) {
      const bytes = await this.#fetch(Math.max(0, this.size - tail), undefined, signal);
      const lines = new TextDecoder().decode(bytes).split("\n");
      const found = lines.findLast((line) => COVERED.test(line))?.match(COVERED);
      if (found) this.duration = Math.max(this.duration, Number(found[1]));
      if (found || tail >= this.size) return;
    }
  }

  async #fetch(begin, count, signal) {
    if (this.size && begin >= this.size) return new Uint8Array();
    const last = count === undefined ? "" : begin + count - 1;
    const response = await fetch(this.#path, { headers: { range: `bytes=${begin}-${last}` }, cache: "no-store", credentials: "same-origin", signal });
    if (!response.ok) throw new CastError(await reasonOf(response));
    const size = Number(response.headers.get("content-range")?.split("/")[1]);
    if (Number.isFinite(size)) this.size = size;
    return new Uint8Array(await response.arrayBuffer());
  }

  reader(at = this.begin, time = 0) {
    return new Reader((begin, signal) => this.#fetch(begin, BLOCK, signal), at, time);
  }
}

const sane = (value, otherwise) => (Number.isInteger(value) && value >= 2 && value <= 1000 ? value : otherwise);

async function reasonOf(response) {
  const answer = await response.json().catch(() => null);
  return answer?.error?.message ?? `the console answered ${response.status}`;
}

// Events in their order, from a place in the file on.
class Reader {
  constructor(fetchBlock, at, time) {
    this.at = at; // of the next event that `next` returns
    this.time = time; // of the last one
    this.#fetch = fetchBlock;
    this.#end = at;
  }

  #fetch;
  #end; // of what was fetched
  #held = new Uint8Array();
  #used = 0;
  #decoder = new TextDecoder();

  // The next event; null if there is none (yet).
  async next(signal) {
    for (;;) {
      const end = this.#held.indexOf(10, this.#used);
      if (end < 0) {
        if (!(await this.#more(signal))) return null;
        continue;
      }
      const line = this.#decoder.decode(this.#held.subarray(this.#used, end));
      this.at += end + 1 - this.#used;
      this.#used = end + 1;
      const event = this.#event(line);
      if (event) return event;
    }
  }

  async #more(signal) {
    const left = this.#held.subarray(this.#used);
    if (left.length > LONGEST_LINE) throw new CastError("the recording is damaged: a line has no end");
    const block = await this.#fetch(this.#end, signal);
    if (!block.length) return false;
    this.#end += block.length;
    this.#held = new Uint8Array(left.length + block.length);
    this.#held.set(left);
    this.#held.set(block, left.length);
    this.#used = 0;
    return true;
  }

  #event(line) {
    if (!line.startsWith("[")) return null; // a comment, or nothing
    let found;
    try {
      found = JSON.parse(line);
    } catch {
      throw new CastError("the recording is damaged: a line is no event");
    }
    const [after, kind, data] = found;
    if (!Number.isFinite(after) || typeof kind !== "string" || typeof data !== "string") throw new CastError("the recording is damaged: a line is no event");
    this.time = Math.round((this.time + Math.max(0, after)) * 1e6) / 1e6; // sums stay what a person would add up
    return { time: this.time, kind, data, at: this.at };
  }
}
