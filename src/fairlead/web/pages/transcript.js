// The messages of a conversation as elements, and what is added to them as it streams in.

import { button, el, fill } from "./dom.js";
import { diffOrText, isDiff } from "./diff.js";
import { markdown } from "./markdown.js";
import { counted, cut, oneLine, visible } from "./words.js";

const SHOWN_AT_FIRST = 60;
const DRAW_EVERY = 90; // milliseconds between two drawings of a message that streams in
const LONG_PROMPT = 1500;
const LONG_RESULT = 30_000;
const SUMMARY_OF = ["command", "path", "file_path", "filePath", "pattern", "query", "url", "description", "prompt", "title"];

export class Transcript {
  node = el("div.transcript");
  cost = 0;
  #known = new Set();
  #tools = new Map();
  #live = null;
  #queued = el("div.queued");
  #timer = 0;
  #isAsked = false;
  #calls;

  constructor(id, calls) {
    this.id = id;
    this.#calls = calls;
  }

  close() {
    clearTimeout(this.#timer);
  }

  // All that was said, and the message in progress as far as it is.
  fillWith(messages, pieces, first) {
    this.#known.clear();
    this.#tools.clear();
    this.#live = null;
    this.cost = 0;
    fill(this.node);
    for (const each of messages) {
      this.cost += each.usage?.cost ?? 0;
      if (each.role === "toolResult") this.#known.add(each.id);
    }
    const results = new Map(messages.filter((each) => each.role === "toolResult").map((each) => [each.tool_call_id, each]));
    const said = messages.filter((each) => each.role !== "toolResult");
    const [old, recent] = [said.slice(0, -SHOWN_AT_FIRST), said.slice(-SHOWN_AT_FIRST)];
    if (first > 0) this.node.append(el("p.dim.earlier", `${counted(first, "earlier message")} not fetched`));
    if (old.length) {
      const more = button(`Show ${counted(old.length, "earlier message")}`, () => {
        const place = document.createDocumentFragment();
        for (const each of old) this.#say(each, results, place);
        more.replaceWith(place);
      }, { class: "quiet earlier" });
      this.node.append(more);
    }
    for (const each of recent) this.#say(each, results, this.node);
    if (!said.length) this.node.append(el("p.empty", "Nothing has been said yet."));
    for (const piece of pieces) this.#stream(piece.type === "thinking" ? "thinking" : "text", piece.text ?? piece.thinking ?? "");
    this.node.append(this.#queued);
  }

  showQueued(texts) {
    fill(this.#queued, texts.map((text) => el("div.message.user.waiting", el("span.tag", "waits"), el("p", visible(typeof text === "string" ? text : text.text ?? "")))));
  }

  heard(topic, data) {
    switch (topic) {
      case "session/prompted":
        if (this.#isNew(data.entry_id)) this.#add(userMessage(data.entry_id, data.text, this.#calls));
        break;
      case "assistant/delta":
        this.#stream("text", data.text);
        break;
      case "assistant/thinking-delta":
        this.#stream("thinking", data.text);
        break;
      case "assistant/message":
        this.#ended(data);
        break;
      case "tool/start":
        this.#tool(data.tool_id, data.tool_name).begin();
        break;
      case "tool/executing":
        this.#tool(data.tool_id, data.tool_name).run(argumentsOf(data));
        this.asked(this.#isAsked);
        break;
      case "tool/update":
        this.#tool(data.tool_id, data.tool_name).progress(data.result_text);
        break;
      case "tool/result":
        this.#tool(data.tool_id, data.tool_name).end(data.result_text, data.details ?? {}, data.is_error);
        break;
      case "session/retrying":
        this.#dropLive();
        this.#add(el("p.aside", `Asking again (${data.attempt} of ${data.limit}): ${oneLine(data.reason, 200)}`));
        break;
      case "session/turn-ended":
        this.#flush();
        if (data.outcome !== "done") this.#add(el("p.aside", `The turn was ${visible(data.outcome)}.`));
        break;
      case "error":
        this.#add(el("p.aside.fault", visible(data.error_message)));
        break;
      case "verify/report":
        this.#add(el("p.aside", el(`span.verdict.${data.confidence}`, String(data.confidence ?? "").toUpperCase()), " ", oneLine(data.summary, 300)));
        break;
    }
  }

  // Whether the agent waits for an answer: then the last call that has not ended is what it asks for.
  asked(isAsked) {
    this.#isAsked = isAsked;
    const open = [...this.#tools.values()].filter((each) => each.isOpen);
    open.forEach((each, at) => each.waits(isAsked && at === open.length - 1));
  }

  // What the page itself has to say here; it is in no journal.
  aside(text) {
    this.#add(el("p.aside.said", visible(text)));
  }

  #isNew(id) {
    if (!id) return true;
    if (this.#known.has(id)) return false;
    this.#known.add(id);
    return true;
  }

  #add(node) {
    this.node.querySelector(":scope > .empty")?.remove();
    if (this.#queued.isConnected) this.node.insertBefore(node, this.#queued);
    else this.node.append(node);
  }

  // --- what was said ----------------------------------------------------------------------------------------

  #say(message, results, place) {
    this.#known.add(message.id);
    if (message.role === "user") {
      const pictures = (message.content ?? []).filter((each) => each.type === "image").length;
      place.append(userMessage(message.id, message.text ?? "", this.#calls, pictures));
      return;
    }
    let last = null;
    for (const part of message.content ?? []) {
      const node = this.#part(part, results);
      if (node) place.append(node);
      if (part.type === "text") last = node ?? last;
    }
    this.#mayFork(last, message.id);
  }

  // An answer can be forked: the conversation up to it, and with what its calls brought.
  #mayFork(node, id) {
    if (node && id && this.#calls.fork) node.append(forkButton(id, this.#calls.fork));
  }

  #part(part, results) {
    switch (part.type) {
      case "text":
        return part.text.trim() ? el("div.message.assistant", markdown(part.text)) : null;
      case "thinking":
        return part.thinking.trim() ? thought(part.thinking) : null;
      case "tool-call": {
        const row = new ToolRow(part.name);
        this.#tools.set(part.id, row);
        row.run(part.arguments ?? {});
        const result = results.get(part.id);
        if (result) row.end(textOf(result), result.details ?? {}, result.is_error);
        return row.node;
      }
      case "image":
        return el("p.aside", `An image (${visible(part.mime_type)})`);
      case "error":
        return el("p.aside.fault", visible(part.text));
    }
    return null;
  }

  // --- what streams in --------------------------------------------------------------------------------------

  #stream(kind, text) {
    if (this.#live?.kind !== kind) {
      this.#flush();
      this.#live = { kind, text: "", node: el(`div.message.${kind === "text" ? "assistant" : "thinking"}.live`), drawn: 0, after: this.#live };
      this.#add(this.#live.node);
    }
    this.#live.text += text;
    if (!this.#timer) this.#timer = setTimeout(() => this.#drawLive(), DRAW_EVERY);
  }

  #drawLive() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const live = this.#live;
    if (!live || live.drawn === live.text.length) return;
    live.drawn = live.text.length;
    fill(live.node, live.kind === "text" ? markdown(live.text) : el("p", visible(live.text)));
  }

  #flush() {
    this.#drawLive();
    for (let live = this.#live; live; live = live.after) live.node.classList.remove("live");
  }

  #dropLive() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    for (let live = this.#live; live; live = live.after) live.node.remove();
    this.#live = null;
  }

  // A message is whole: it stands where its pieces were.
  #ended(message) {
    this.cost += message.usage?.cost ?? 0;
    this.#dropLive();
    if (!this.#isNew(message.id)) return;
    let last = null;
    for (const part of message.content ?? []) {
      if (part.type === "tool-call") {
        this.#tool(part.id, part.name).run(part.arguments ?? {});
        continue;
      }
      const node = this.#part(part, new Map());
      if (!node) continue;
      const call = (message.content ?? []).find((each) => each.type === "tool-call" && this.#tools.has(each.id));
      const before = call && this.#tools.get(call.id).node;
      if (before?.parentNode === this.node) this.node.insertBefore(node, before);
      else this.#add(node);
      if (part.type === "text") last = node;
    }
    this.#mayFork(last, message.id);
  }

  #tool(id, name) {
    let row = this.#tools.get(id);
    if (!row) {
      row = new ToolRow(name);
      this.#tools.set(id, row);
      this.#flush();
      this.#add(row.node);
    }
    return row;
  }
}

function userMessage(id, text, { fork }, pictures = 0) {
  const shown = visible(text);
  const isLong = shown.length > LONG_PROMPT;
  const body = isLong ? el("details", el("summary", `${cut(shown, 300)}`), el("p", shown)) : el("p", shown);
  return el("div.message.user", { data: { entry: id ?? "" } }, body, pictures > 0 && el("p.dim", `with ${counted(pictures, "picture")}`), id && fork && forkButton(id, fork));
}

const forkButton = (id, fork) => button("Fork", () => fork(id), { class: "quiet fork", title: "Copy the conversation up to here into another session" });

function thought(text) {
  return el("details.message.thinking", el("summary", `Thinking: ${oneLine(text, 100)}`), el("p", visible(text)));
}

const textOf = (message) => (message.content ?? []).map((part) => part.text ?? "").join("");

function argumentsOf(data) {
  try {
    return JSON.parse(data.arguments);
  } catch {
    return data.parsed_args ?? {};
  }
}

// --- calls ---------------------------------------------------------------------------------------------------

// A call of a tool: a row with what it does and how it ended, which opens to all of it.
export class ToolRow {
  #about = el("span.tool-about");
  #state = el("span.tool-state");
  #given = el("div.tool-given");
  #result = el("div.tool-result");

  constructor(name) {
    this.name = name ?? "tool";
    this.node = el("details.tool", el("summary", el("i.tool-mark", { "aria-hidden": "true" }), el("strong", visible(this.name)), this.#about, this.#state), this.#given, this.#result);
    this.#mark("running", "…");
  }

  #mark(state, words) {
    this.node.dataset.state = state;
    this.#state.textContent = words;
  }

  get isOpen() {
    return this.node.dataset.state === "running";
  }

  waits(isAsked) {
    if (isAsked) this.#state.textContent = "waits for permission";
    else if (this.#state.textContent === "waits for permission") this.#state.textContent = "runs";
  }

  begin() {
    this.#mark("running", "is being written");
  }

  run(given) {
    if (this.node.dataset.state === "running") this.#mark("running", "runs");
    const key = SUMMARY_OF.find((each) => typeof given[each] === "string");
    this.#about.textContent = key ? oneLine(given[key], 160) : oneLine(JSON.stringify(given), 120);
    fill(this.#given, Object.entries(given).map(([name, value]) => argument(name, value)));
  }

  progress(text) {
    fill(this.#result, el("pre", visible(cut(text ?? "", LONG_RESULT))));
  }

  end(text, details, isError) {
    this.#mark(isError ? "failed" : "done", isError ? "failed" : summaryOf(details));
    if (this.name === "plan") {
      this.node.open = true;
      fill(this.#result, el("ul.plan", text.split("\n").filter(Boolean).map(planStep)));
    } else if (details.diff && isDiff(details.diff)) {
      fill(this.#result, diffOrText(details.diff));
      fill(this.#given); // the diff says the same, and more
      this.node.open = details.diff.split("\n").length < 40;
    } else {
      fill(this.#result, el("pre", visible(cut(text ?? "", LONG_RESULT))));
      if (isError) this.node.open = true;
    }
  }
}

function argument(name, value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return el("div.argument", el("span.argument-name", visible(name)), text.includes("\n") || text.length > 100 ? el("pre", visible(cut(text, LONG_RESULT))) : el("code", visible(text)));
}

function summaryOf(details) {
  const parts = [];
  if (details.added) parts.push(`+${details.added}`);
  if (details.removed) parts.push(`−${details.removed}`);
  return parts.join(" ") || "✓";
}

function planStep(line) {
  const [, mark, text] = line.match(/^\[([ x>])\] (.*)$/) ?? [null, " ", line];
  return el(`li.${{ x: "done", ">": "now" }[mark] ?? "open"}`, `${{ x: "☑", ">": "▸" }[mark] ?? "☐"} ${visible(text)}`);
}
