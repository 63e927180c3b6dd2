// The dialog that starts a session: a program in a terminal, or an agent, in a directory or a worktree of its own.

import { op } from "./api.js";
import { board } from "./board.js";
import { button, el, fill } from "./dom.js";
import { recall, remember } from "./remembered.js";
import { fullPath, homePath, place, visible } from "./words.js";

const SHELL = ["sh", "-c", 'exec "${SHELL:-/bin/sh}"'];
const SHELLS_WORK = /[|&;<>()$`*?[\]#~=%{}\n]/;

export function startDialog() {
  const kind = el("select", { name: "kind", onchange: turn }, el("option", { value: "terminal" }, "Terminal"), el("option", { value: "agent" }, "Agent: Fairlead's own"));
  const name = el("input", { name: "name", required: true, autocomplete: "off", maxlength: "80", value: freeName() });
  const command = el("input.mono", { name: "command", autocomplete: "off", spellcheck: "false", placeholder: "a shell; or claude, codex, htop …" });
  const places = [...new Set([...board.sessions.values()].map((row) => row.project))].filter(Boolean).sort();
  const list = el("datalist", { id: "places" }, places.map((path) => el("option", { value: place(path) })));
  const directory = el("input.mono", { name: "directory", required: true, list: "places", autocomplete: "off", spellcheck: "false" });
  directory.value = place(recall("directory") || places[0] || homePath() || "/");
  const worktree = el("input", { type: "checkbox", name: "worktree" });
  const first = el("textarea", { name: "prompt", rows: "3", placeholder: "What should it do? (may stay empty)" });
  const fault = el("p.warning", { role: "alert" });
  const commandRow = row("Command", command);
  const promptRow = row("Prompt", first);
  const start = el("button.primary", { type: "submit" }, "Start");
  const form = el(
    "form",
    { method: "dialog", onsubmit: submit, oninput: () => fill(fault) },
    el("h2", "New session"),
    row("Kind", kind),
    row("Name", name),
    commandRow,
    row("Directory", directory, list),
    promptRow,
    el("label.check", worktree, "in a git worktree with a branch of its own"),
    fault,
    el("div.dialog-buttons", button("Cancel", () => dialog.close()), start),
  );
  const dialog = el("dialog.start", { "aria-label": "New session", onclose: () => dialog.remove() }, form);
  turn();
  document.body.append(dialog);
  dialog.showModal();
  name.select();
  knowAgents(kind);

  function turn() {
    commandRow.hidden = kind.value !== "terminal";
    promptRow.hidden = kind.value === "terminal";
  }

  async function submit(event) {
    event.preventDefault();
    start.disabled = true;
    fill(fault);
    try {
      const id = await begin({
        kind: kind.value,
        name: name.value.trim(),
        command: command.value.trim(),
        cwd: fullPath(directory.value),
        worktree: worktree.checked,
        prompt: first.value.trim(),
      });
      remember("directory", fullPath(directory.value));
      dialog.close();
      await board.load();
      location.hash = `#/s/${encodeURIComponent(id)}`;
    } catch (refused) {
      fill(fault, visible(refused.message));
      start.disabled = false;
    }
  }
}

function row(label, ...nodes) {
  return el("label.field", el("span", label), ...nodes);
}

async function knowAgents(kind) {
  const { agents } = await op("agents").catch(() => ({ agents: [] }));
  for (const each of agents.filter((one) => one.path)) {
    kind.append(el("option", { value: `agent ${each.name}` }, `Agent: ${visible(each.about || each.name)}`));
  }
}

async function begin({ kind, name, command, cwd, worktree, prompt }) {
  let at = cwd;
  if (worktree) at = (await op("worktree_add", { name, project: cwd })).worktree.path;
  if (kind === "terminal") return (await op("terminal_start", { name, argv: argvOf(command), cwd: at })).name;
  const agent = kind.split(" ")[1];
  const opened = await op("open_session", { name, cwd: at, ...(agent ? { agent } : {}) });
  if (prompt) await op("prompt", { message: prompt, session_id: opened.session_id });
  return opened.session_id;
}

// Words of a command with quotes; what needs a shell is given to one.
export function argvOf(command) {
  if (!command) return SHELL;
  if (SHELLS_WORK.test(command.replace(/'[^']*'/g, ""))) return ["sh", "-c", command];
  const words = [...command.matchAll(/(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+/g)].map(([word]) =>
    word.replace(/'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)/g, (_, single, double, escaped) => single ?? double?.replace(/\\(["\\])/g, "$1") ?? escaped),
  );
  const isWhole = (command.match(/(?<!\\)["']/g) ?? []).length % 2 === 0;
  return isWhole && words.length ? words : ["sh", "-c", command];
}

function freeName() {
  const taken = new Set([...board.sessions.values()].map((each) => each.name));
  let number = 1;
  while (taken.has(`web-${number}`)) number += 1;
  return `web-${number}`;
}
