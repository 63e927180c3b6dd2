// A session: its head, what it asks, and its parts as tabs: terminal or chat, changes, timeline, reports.

import { SessionTabs } from "./session_tabs.js";
import { op } from "./api.js";
import { board, nameOf, stateOf } from "./board.js";
import { button, el, fill, keep } from "./dom.js";
import { attempt, note } from "./notices.js";
import { moved, questionCard } from "./question.js";
import { evidenceWords, hostChip, kindOf, usage, verdict } from "./sessions.js";
import { place, since, visible } from "./words.js";

export function sessionView(rest) {
  const id = rest[0];
  const head = el("header.session-head");
  const asked = el("div.session-questions");
  const tabs = new SessionTabs(id);
  const node = el("div.session", head, asked, tabs.nav, tabs.body);
  let part = rest[1] ?? "";
  let isSeen = false;

  function draw() {
    const row = board.sessions.get(id);
    if (!row) {
      const named = [...board.sessions.values()].filter((each) => each.name === id);
      if (named.length === 1) return location.replace(`#/${["s", named[0].id, ...rest.slice(1)].map(encodeURIComponent).join("/")}`);
      if (board.isLoaded && !tabs.isOpen) fill(head, el("h1", visible(id)), el("p.dim", "There is no such session (any more)."));
      return;
    }
    const mark = [stateOf(row), nameOf(row), row.branch, row.waits_for, row.cost, row.tokens, row.context_tokens, JSON.stringify(row.verdict), row.activity?.since, JSON.stringify(row.activity?.evidence?.words)].join("|");
    if (head.dataset.mark !== mark) {
      head.dataset.mark = mark;
      fill(head, headOf(row));
    }
    tabs.show(row, part);
    if (stateOf(row) === "done" || !isSeen) see();
  }

  // A person who has the session in front of them has seen what it did.
  function see() {
    if (!board.mayWrite || document.hidden) return;
    isSeen = true;
    op("session_seen", { session_id: id }).catch(() => {});
  }

  function drawQuestions() {
    const questions = board.questionsOf(id).sort((a, b) => a.asked_at - b.asked_at);
    const before = asked.childElementCount;
    keep(asked, questions.map((each) => ({ key: each.token, mark: JSON.stringify(each), make: () => questionCard(each, { withSession: false }) })));
    if (before > questions.length) moved();
  }

  board.addEventListener("sessions", draw);
  board.addEventListener("questions", drawQuestions);
  return {
    node,
    begin() {
      draw();
      drawQuestions();
      document.addEventListener("visibilitychange", draw);
    },
    turn(parts) {
      part = parts[1] ?? "";
      draw();
    },
    close() {
      document.removeEventListener("visibilitychange", draw);
      board.removeEventListener("sessions", draw);
      board.removeEventListener("questions", drawQuestions);
      tabs.close();
    },
  };
}

function headOf(row) {
  const state = stateOf(row);
  const found = row.activity?.evidence;
  return [
    el(
      "div.session-title",
      el(`i.dot.${state}`, { "aria-hidden": "true" }),
      el("h1", visible(nameOf(row))),
      hostChip(row),
      el("span.state", { title: found ? evidenceWords(found) : "" }, state, " ", row.activity?.since ? el("span", { data: { since: row.activity.since } }, since(row.activity.since)) : ""),
      verdict(row),
      el("span.grow"),
      board.isOwner && menu(row),
    ),
    el(
      "p.session-facts",
      el("span", kindOf(row)),
      el("span.path", { title: visible(row.project) }, place(row.project)),
      row.branch && el("span.branch", visible(row.branch)),
      usage(row),
      found && el("span.evidence", evidenceWords(found)),
    ),
  ];
}

function menu(row) {
  const isAgent = row.can?.includes("chat");
  const isEnded = stateOf(row) === "ended";
  return el(
    "span.session-menu",
    !isAgent && !isEnded && button("Stop", () => stop(row, `End the program of ${row.name}?`), { class: "quiet danger" }),
    (isAgent || isEnded) && button("Remove", () => remove(row), { class: "quiet danger" }),
  );
}

async function stop(row, question) {
  if (!confirm(visible(question))) return;
  await attempt(async () => {
    await op("session_stop", { session_id: row.id });
    note(`${row.name} has been ended.`);
  });
}

async function remove(row) {
  if (!confirm(`Remove the session ${visible(row.name)}? An agent's journal is moved to the trash.`)) return;
  await attempt(async () => {
    await op("session_remove", { session_id: row.id });
    await board.load();
    location.hash = "#/sessions";
  });
}
