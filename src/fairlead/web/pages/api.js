// Asks the console's server. What it refuses is a `Refused` with the reason in a sentence for people.

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }

  // The console or its daemon can't be reached now: asking again later may help.
  get isAway() {
    return this.status === 0 || this.status === 503;
  }

  get isOut() {
    return this.status === 401;
  }
}

const AWAY = "the console can't be reached";
const LIMIT = 125_000;

async function ask(path, options) {
  let response;
  try {
    const signal = AbortSignal.timeout(LIMIT);
    response = await fetch(path, { cache: "no-store", credentials: "same-origin", signal, ...options });
  } catch (error) {
    throw new Refused(0, "web/unreachable", error.name === "TimeoutError" ? "no answer came in time" : AWAY);
  }
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new Refused(response.status, "web/no-json", `the console answered ${response.status} without saying why`);
  }
  if (!answer.ok) {
    const { code = "web/refused", message = `the console answered ${response.status}` } = answer.error ?? {};
    const refused = new Refused(response.status, code, message);
    if (refused.isOut) window.dispatchEvent(new CustomEvent("signed-out", { detail: message }));
    throw refused;
  }
  return { data: answer.data, status: response.status };
}

export const get = async (path) => (await ask(path, {})).data;

export const post = async (path, body = {}) => (await posted(path, body)).data;

// The same with the status, which says more where an answer may come later.
export function posted(path, body) {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

// An op of docs/rpc.md with its parameters.
export const op = (name, params = {}) => post(`/api/ops/${name}`, params);

export const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, "0")).join("");
