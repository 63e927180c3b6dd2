// All that waits for a person, the oldest first: the first view.

import { board } from "./board.js";
import { button, el, fill, keep } from "./dom.js";
import { attempt, note } from "./notices.js";
import { moved, questionCard } from "./question.js";
import { nameOf, stateOf } from "./board.js";
import { counted, oneLine, since, visible } from "./words.js";

export function inboxView(rest) {
  const list = el("div.questions");
  const besides = el("section.besides");
  const head = el("h1", "Inbox");
  const node = el("div.inbox", head, list, besides);
  let target = rest[0] ?? "";

  function draw() {
    const questions = [...board.questions.values()].sort((a, b) => a.asked_at - b.asked_at);
    const before = [...list.children].map((child) => child.dataset.key).join();
    const doors = board.doors.map((each) => ({ key: `door ${each.code}`, mark: "", make: () => doorCard(each) }));
    const waiting = board.waitingElsewhere().length;
    head.textContent = headline(questions.length, waiting);
    if (waiting && !questions.length && !doors.length) keep(list, []);
    else if (questions.length || doors.length) {
      keep(list, [...doors, ...questions.map((each) => ({ key: each.token, mark: JSON.stringify(each), make: () => questionCard(each) }))]);
    } else {
      keep(list, [{ key: "none", mark: String(board.isLoaded), make: empty }]);
    }
    const after = [...list.children].map((child) => child.dataset.key).join();
    if (before && before !== "none" && !after.startsWith(before)) moved();
    show();
  }

  function show() {
    if (!target || !board.isLoaded || !node.isConnected) return;
    const card = [...list.children].find((child) => child.dataset.token === target);
    if (card) {
      card.scrollIntoView({ block: "start" });
      card.focus({ preventScroll: true });
    } else {
      list.prepend(el("p.gone", { data: { key: "gone" } }, "That question has been answered, or is no more."));
    }
    target = "";
  }

  // What has ended unseen, and what waits in its own terminal only.
  function drawBesides() {
    const waiting = board.waitingElsewhere();
    const done = [...board.sessions.values()].filter((row) => stateOf(row) === "done");
    const hooks = board.isOwner ? [...new Set(waiting.map((row) => row.agent).filter((name) => HOOKED.has(name)))] : [];
    fill(
      besides,
      waiting.length > 0 && [el("h2", "Waiting in their terminals"), el("ul.rows", waiting.map((row) => line(row, row.waits_for || row.activity.question))), hooks.map(hookHint)],
      done.length > 0 && [el("h2", "Finished since you last looked"), el("ul.rows", done.map((row) => line(row, row.what)))],
    );
  }

  function both() {
    draw();
    drawBesides();
  }

  board.addEventListener("questions", draw);
  board.addEventListener("sessions", both);
  board.addEventListener("questions", drawBesides);
  draw();
  drawBesides();
  return {
    node,
    begin: show,
    turn(parts) {
      target = parts[0] ?? "";
      show();
    },
    close() {
      board.removeEventListener("questions", draw);
      board.removeEventListener("sessions", both);
      board.removeEventListener("questions", drawBesides);
    },
  };
}

function headline(questions, waiting) {
  if (!waiting) return questions ? `${counted(questions, "question")} for you` : "Inbox";
  const there = `${waiting} ${waiting === 1 ? "waits" : "wait"} in ${waiting === 1 ? "its terminal" : "their terminals"}`;
  return questions ? `${counted(questions, "question")} for you, ${there}` : there[0].toUpperCase() + there.slice(1);
}

// Agents that ask in their own terminals only until they have the hook.
const HOOKED = new Set(["claude", "codex"]);

function hookHint(name) {
  const command = `fairlead hook --install ${name}`;
  const copy = button("Copy", () => attempt(async () => (await navigator.clipboard.writeText(command), note("The command is copied."))), { class: "quiet" });
  return el("p.hook-hint", "Without its hook, ", el("strong", name), " asks only in its terminal. This adds it, and buttons here from its next start on: ", el("code", command), " ", copy);
}

function line(row, words) {
  const link = el(
    "a",
    { href: `#/s/${encodeURIComponent(row.id)}` },
    el(`i.dot.${stateOf(row)}`, { "aria-hidden": "true" }),
    el("strong", visible(nameOf(row))),
    el("span.row-words", oneLine(words, 160)),
    el("span.dim", { data: { since: row.activity.since } }, since(row.activity.since)),
  );
  return el("li", link);
}

function doorCard({ code, from, agent }) {
  const decide = (allowed) => () => attempt(() => board.letIn(code, allowed));
  return el(
    "article.question",
    { "aria-label": "A browser wants to come in" },
    el("h2.question-what", "A browser of another machine wants to come in"),
    el("p.door-code", visible(code)),
    el("p.dim", `Let it in only if it shows this code. ${visible(from)} ${oneLine(agent ?? "", 160)}`),
    el("div.answers", button("Let it in", decide(true), { class: "answer allow" }), button("Refuse", decide(false), { class: "answer deny" })),
  );
}

function empty() {
  if (!board.isLoaded) return el("p.empty", "…");
  return el("div.empty", el("p.large", "Nothing waits for you."), el("p.dim", "Questions of all agents appear here, whole, to be answered with one tap."));
}
