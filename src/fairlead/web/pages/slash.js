// Slash commands in a conversation: which there are, completed while they are typed, and what they do. Those that
// only lead to another session, or ask a person in a terminal, have their own places on the page.

import { op } from "./api.js";
import { board } from "./board.js";
import { el, fill } from "./dom.js";
import { money, oneLine, tokens, visible } from "./words.js";

const MOST = 8;
const CHOSEN_ELSEWHERE = new Set(["/resume", "/tree", "/new", "/login", "/logout", "/quit", "/exit", "/worktree", "/history", "/prompts", "/skills", "/jobs", "/job", "/cancel-job"]);
const NAME = /^\/\S*$/;

// What is chosen by our own commands: the op and what it is given, or nothing if there are words missing.
const CHOICES = {
  "/mode": ([mode]) => mode && { op: "set_mode", given: { mode } },
  "/thinking": ([level]) => level && { op: "set_thinking_level", given: { level } },
  "/model": (words) => {
    const [provider, id] = words.length === 1 ? words[0].split(/\/(.*)/s) : words;
    return id && { op: "set_model", given: { provider, model_id: id } };
  },
  "/option": ([option, ...value]) => value.length > 0 && { op: "set_option", given: { option, value: value.join(" ") } },
};

const first = (row) => row.name.split(" ")[0];

export class Slash {
  node = el("ul.completions", { role: "listbox", id: "completions", "aria-label": "Commands", hidden: true });
  #id;
  #area;
  #rows = null;
  #found = [];
  #at = 0;

  // `area` is where a person types.
  constructor(id, area) {
    this.#id = id;
    this.#area = area;
    area.setAttribute("aria-controls", "completions");
    area.setAttribute("aria-autocomplete", "list");
  }

  get isOpen() {
    return !this.node.hidden;
  }

  // Look what is typed, and show what it may become.
  async typed() {
    const text = this.#area.value;
    if (!NAME.test(text)) return this.close();
    this.#rows ??= await op("get_commands", { session_id: this.#id }).then((found) => found.commands, () => null);
    if (this.#area.value !== text || !this.#rows) return;
    const near = text.toLowerCase();
    this.#found = this.#rows.filter((row) => !CHOSEN_ELSEWHERE.has(first(row)) && first(row).toLowerCase().startsWith(near)).slice(0, MOST);
    this.#at = 0;
    this.#draw();
  }

  close() {
    this.node.hidden = true;
    this.#area.removeAttribute("aria-activedescendant");
  }

  #draw() {
    this.node.hidden = !this.#found.length || (this.#found.length === 1 && this.#found[0].name === this.#area.value);
    fill(
      this.node,
      this.#found.map((row, at) =>
        el(
          "li",
          { role: "option", id: `completion-${at}`, "aria-selected": String(at === this.#at), onpointerdown: (event) => (event.preventDefault(), this.#take(at)) },
          el("code", visible(row.name)),
          " ",
          el("span.dim", oneLine(row.description ?? "", 120)),
        ),
      ),
    );
    if (this.isOpen) this.#area.setAttribute("aria-activedescendant", `completion-${this.#at}`);
    else this.#area.removeAttribute("aria-activedescendant");
  }

  // True if a key was for the list.
  key(event) {
    if (!this.isOpen) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#at = (this.#at + step + this.#found.length) % this.#found.length;
    else if (event.key === "Tab" || (event.key === "Enter" && first(this.#found[this.#at]) !== this.#area.value)) return this.#take(this.#at);
    else if (event.key === "Escape") return this.close(), true;
    else return false;
    this.#draw();
    return true;
  }

  #take(at) {
    const row = this.#found[at];
    this.#area.value = row.name.includes(" ") ? `${first(row)} ` : row.name;
    this.close();
    this.#area.focus();
    return true;
  }

  // Do what a text says if it is a command: a promise of what to show, or null if it is none.
  run(text, view) {
    const [, name, rest = ""] = text.match(/^(\/\S+)(?:\s+([^]*))?$/) ?? [];
    if (!name || !this.#rows?.some((row) => first(row) === name)) return null;
    return this.#do(name, rest.trim(), text, view);
  }

  async #do(name, rest, text, view) {
    const given = { session_id: this.#id };
    const row = this.#rows.find((each) => first(each) === name);
    if (CHOSEN_ELSEWHERE.has(name)) throw new Error(`${name} is not for this page; \`fairlead agent\` has it`);
    switch (row.name) {
      case "/help":
        return this.#rows.filter((each) => !CHOSEN_ELSEWHERE.has(first(each))).map((each) => `${each.name}: ${oneLine(each.description ?? "", 120)}`).join("\n");
      case "/status":
      case "/cost":
        return used(board.sessions.get(this.#id) ?? {}, view);
      case "/compact [instructions]": {
        await op("compact", { ...given, ...(rest ? { custom_instructions: rest } : {}) });
        return "Older messages are summarized.";
      }
      case "/remember text #tag": {
        const tags = [...rest.matchAll(/(?:^|\s)#(\S+)/g)].map(([, tag]) => tag);
        await op("remember", { ...given, text: rest.replace(/(?:^|\s)#\S+/g, "").trim(), ...(tags.length ? { tags } : {}) });
        return "It is remembered for all sessions.";
      }
    }
    const choose = CHOICES[name];
    if (choose && row.name.includes(" ")) {
      const words = choose(rest.split(/\s+/).filter(Boolean));
      if (!words) return "Choose it below, or write it behind the command.";
      await op(words.op, { ...given, ...words.given });
      return "";
    }
    await op("command", { ...given, text });
    return "";
  }
}

function used(row, view) {
  const { context_tokens: now, context_window: most } = view;
  const words = [row.cost > 0 && money(row.cost), row.tokens > 0 && `${tokens(row.tokens)} tokens`, most > 0 && `context ${tokens(now)} of ${tokens(most)}`, view.header_model_label && visible(view.header_model_label)];
  return words.filter(Boolean).join(" · ") || "Nothing has been used yet.";
}
