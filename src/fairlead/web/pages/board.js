// What runs and who waits, as this page knows it: fetched once, kept up to date by events, fetched again when
// events were missed. Views listen for `sessions`, `questions`, `link` and `feed`.

import { get, op, post } from "./api.js";
import { Stream } from "./stream.js";
import { oneLine, setHome } from "./words.js";

const GATHER = 250;
const LEAST_BETWEEN_LISTS = 1500;
const FEW = 3;
const DOOR_AGAIN = 10_000;
const KEPT_ANSWERS = 50;
const ALL = "hosts/"; // no session has this id: what changes on a host makes the whole list stale
const REFETCH = new Set(["opened", "closed", "created", "changed", "exited", "judged", "turn-ended", "correction"]);

class Board extends EventTarget {
  me = { role: "watcher", share: null };
  sessions = new Map();
  questions = new Map();
  answered = new Map(); // token -> what this page said to it
  hosts = []; // other hosts, as host_list tells them
  doors = []; // browsers of other machines that wait to be let in: {code, from, agent}
  link = "opening"; // here, daemon-away, console-away, signed-out
  why = "";
  isLoaded = false;
  #dirty = new Set();
  #timer = 0;
  #doorTimer = 0;
  #listedAt = 0;
  #stream = null;
  #loading = null;
  #isEarly = false; // the lists were asked for before the stream began
  #news = new Map(); // what was told while everything is fetched, which may be older: token -> question or null
  #moved = new Set(); // and sessions

  async begin() {
    addEventListener("signed-out", (event) => this.signedOut(event.detail));
    document.addEventListener("visibilitychange", () => this.#looked());
    addEventListener("online", () => this.#stream?.hurry());
    try {
      await this.#know();
    } catch (refused) {
      if (refused.isOut) return;
      this.#set("console-away", refused.message);
    }
    // the lists are fetched while the stream connects, which brings what happened since we knew who we are
    const since = this.me.cursor ?? "";
    this.#isEarly = Boolean(since);
    if (since) this.load();
    this.#stream = new Stream("", {
      since,
      heard: (topic, data) => this.#heard(topic, data),
      hello: (data) => this.#greeted(data),
      reset: () => this.load(),
      lost: () => this.#lost(),
    });
  }

  get isOwner() {
    return this.me.role === "owner";
  }

  get mayWrite() {
    return this.me.role !== "watcher";
  }

  signedOut(why) {
    this.#stream?.close();
    this.#set("signed-out", why);
  }

  async #know() {
    this.me = await get("/api/me");
    setHome(this.me.home);
  }

  #lost() {
    if (this.link === "signed-out") return;
    this.#set("console-away", "the console can't be reached");
    get("/api/me").catch(() => {}); // a cookie that has ended looks the same to a stream; this says so
  }

  async #greeted(data) {
    if (this.me.version === undefined) await this.#know().catch(() => {});
    if (data.daemon === "away") this.#set("daemon-away", "");
    else this.#set("here", "");
    const isKnown = this.#isEarly && (this.isLoaded || this.#loading);
    this.#isEarly = false;
    if (!isKnown) this.load();
  }

  #looked() {
    if (!document.hidden) this.#stream?.hurry(); // in the background its title still counts the questions
  }

  #set(link, why) {
    if (this.link === link && this.why === why) return;
    this.link = link;
    this.why = why;
    this.#tell("link");
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  // Fetch everything again; callers while that goes on get the same.
  load() {
    this.#loading ??= this.#load().finally(() => (this.#loading = null));
    return this.#loading;
  }

  async #load() {
    let before = null;
    this.#news.clear();
    this.#moved.clear();
    try {
      const hosts = this.me.share ? {} : { hosts: true };
      const [listed, asked] = await Promise.all([op("session_list", hosts), op("approvals", hosts)]);
      this.#listedAt = performance.now();
      this.#dirty.clear();
      this.hosts = listed.hosts ?? [];
      this.sessions = new Map(listed.sessions.map((row) => [row.id, stamped(row)]));
      const answerable = asked.approvals.filter((row) => !row.away);
      before = this.isLoaded ? this.questions : null;
      this.questions = new Map((await whole(answerable)).map((row) => [row.token, row]));
      for (const [token, question] of this.#news) {
        if (question) this.questions.set(token, question);
        else this.questions.delete(token);
      }
      this.isLoaded = true;
      this.#set("here", "");
    } catch (refused) {
      if (refused.isOut) return;
      if (refused.status === 503) this.#set("daemon-away", refused.message);
      else if (refused.isAway) this.#set("console-away", refused.message);
      else this.#set(this.link, refused.message);
      return;
    }
    this.#tell("sessions");
    this.#tell("questions");
    for (const id of this.#moved) this.#changed(id);
    for (const [token, question] of before ? this.questions : []) if (!before.has(token)) this.#tell("asked", question);
    this.lookAtDoors();
  }

  #heard(topic, data) {
    if (topic === "web/away") this.#set("daemon-away", data.why ?? "");
    else if (topic === "web/back") this.#back();
    else if (topic === "web/waiting" || topic === "web/came-in") this.lookAtDoors();
    else if (topic === "questions/opened") this.#asked(data.question);
    else if (topic === "questions/answered") this.#settled(data.token);
    else if (topic.startsWith("hosts/")) this.#changed(ALL);
    else if (topic === "sessions/state") this.#state(data);
    else if (topic.startsWith("sessions/") && REFETCH.has(topic.slice(9))) this.#changed(data.session_id);
    else if (topic.startsWith("terminal/") && data.name) this.#changed(data.name);
    this.#tell("feed", { topic, data });
  }

  #back() {
    this.#set("here", "");
    this.load();
  }

  #asked(question) {
    const isNew = !this.questions.has(question.token);
    if (this.#loading) this.#news.set(question.token, question);
    this.questions.set(question.token, question);
    this.#tell("questions");
    if (isNew) this.#tell("asked", question);
  }

  #settled(token) {
    if (this.#loading) this.#news.set(token, null);
    if (this.questions.delete(token)) this.#tell("questions");
  }

  #state({ session_id: id, ...activity }) {
    const row = this.sessions.get(id);
    if (this.#loading) this.#moved.add(id);
    if (!row) return this.#changed(id);
    this.sessions.set(id, { ...row, activity, waits_for: activity.state === "waits" ? row.waits_for : "" });
    this.#tell("sessions");
  }

  #changed(id) {
    if (!id) return;
    this.#dirty.add(id);
    if (!this.#timer) this.#timer = setTimeout(() => this.#refresh(), GATHER);
  }

  // Who waits to be let in; only owners may see that.
  async lookAtDoors() {
    if (!this.isOwner) return;
    const found = await get("/api/web/sessions").catch(() => ({ waiting: [] }));
    this.doors = found.waiting ?? [];
    this.#tell("questions");
    clearTimeout(this.#doorTimer);
    if (this.doors.length) this.#doorTimer = setTimeout(() => this.lookAtDoors(), DOOR_AGAIN); // they give up unheard
  }

  async letIn(code, allowed) {
    await post("/api/web/confirm", { code, allowed });
    await this.lookAtDoors();
  }

  async #refresh() {
    const ids = [...this.#dirty];
    const early = LEAST_BETWEEN_LISTS - (performance.now() - this.#listedAt);
    if ((ids.length > FEW || ids.some((id) => !this.sessions.has(id))) && early > 0) {
      this.#timer = setTimeout(() => this.#refresh(), early);
      return;
    }
    this.#timer = 0;
    this.#dirty.clear();
    if (ids.length > FEW || ids.some((id) => !this.sessions.has(id))) return this.load();
    await Promise.all(ids.map((id) => this.#find(id)));
    this.#tell("sessions");
  }

  async #find(id) {
    try {
      const { session } = await op("session_find", { session_id: id });
      this.sessions.set(session.id, merged(this.sessions.get(session.id), session));
    } catch (refused) {
      if (refused.status === 404 || refused.status === 403) this.sessions.delete(id);
    }
  }

  // Answer a question, if every word of it still is as it was shown. Whoever answers first, wins.
  async answer(question, { option, text = "" }) {
    const [current] = (await op("approvals", { token: question.token })).approvals;
    if (said(current) !== said(question)) {
      this.questions.set(question.token, current);
      this.#tell("questions");
      throw new Error("The question has changed meanwhile: read it again.");
    }
    const allowed = option === "allow" || option === "always" || /^(allow|always)-/.test(option) || option === "answer";
    const given = { token: question.token, allowed };
    if (option === "always") given.always = true;
    else if (option !== "allow" && option !== "deny") given.option = option;
    if (text) given.text = text;
    await op("approval_settle", given);
    this.answered.set(question.token, option);
    while (this.answered.size > KEPT_ANSWERS) this.answered.delete(this.answered.keys().next().value);
    this.#settled(question.token);
  }

  // Sessions that wait for a person in their own terminals, with nothing to answer here.
  waitingElsewhere() {
    const asked = new Set([...this.questions.values()].map((each) => each.session_id));
    return [...this.sessions.values()].filter((row) => stateOf(row) === "waiting" && !asked.has(row.id));
  }

  questionsOf(id) {
    return [...this.questions.values()].filter((each) => each.session_id === id);
  }
}

// Every word of a question that a person decides by.
const WORDS_OF = ["kind", "session_id", "project", "title", "summary", "reason", "preview", "options", "labels", "takes_text", "lost"];
const said = (question) => JSON.stringify(WORDS_OF.map((name) => question[name] ?? null));

// A list of very many questions has only parts of what each will do; then each is asked for by itself.
const MOST_IN_A_LIST = 900_000;

async function whole(rows) {
  if (rows.reduce((sum, row) => sum + (row.preview ?? "").length, 0) < MOST_IN_A_LIST) return rows;
  const found = await Promise.all(rows.map((row) => op("approvals", { token: row.token }).catch(() => null)));
  return found.flatMap((answer) => answer?.approvals ?? []);
}

// A single session is found without what takes time: that stays as the last list had it.
const SLOW = ["branch", "worktree", "cpu_percent", "cpu_seconds", "memory"];

function merged(before, row) {
  const kept = SLOW.filter((name) => (row[name] ?? null) === null && before?.[name] !== undefined);
  return stamped({ ...row, ...Object.fromEntries(kept.map((name) => [name, before[name]])) });
}

// `idle` and the like count from the moment of the answer.
function stamped(row) {
  return { ...row, fetched_at: Date.now() / 1000 };
}

export const board = new Board();

// The host that a session or a question is on, unless it is this one.
export const hostOf = (row) => (row.host && row.host !== "local" ? row.host : "");

const ORDER = { waiting: 0, done: 1, working: 2, idle: 3, unknown: 4, ended: 5, away: 6 };

// What a person should look at first, and then what changed last: the order of all lists of sessions.
export function byUrgency(a, b) {
  return ORDER[stateOf(a)] - ORDER[stateOf(b)] || (b.activity?.since ?? 0) - (a.activity?.since ?? 0) || a.name.localeCompare(b.name, undefined, { numeric: true });
}

const MADE_UP = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// What a session is called: one that nobody named by what it was asked, or by the beginning of its id.
export function nameOf(row) {
  if (!MADE_UP.test(row.name) || !row.id.endsWith(row.name) || row.can?.includes("screen")) return row.name;
  return oneLine(row.what, 60) || row.name.slice(0, 8);
}

const WORDS = { working: "working", waits: "waiting", idle: "idle", ended: "ended", unknown: "unknown" };

// What a session does, in a word: `done` is idle that nobody has looked at yet.
export function stateOf(row) {
  const state = row.activity?.state ?? "unknown";
  if (row.away) return "away";
  if (row.exit_code !== null && row.exit_code !== undefined) return "ended";
  if (row.waits_for || state === "waits") return "waiting";
  if (state === "idle" && row.activity.seen === false) return "done";
  return WORDS[state] ?? "unknown";
}
