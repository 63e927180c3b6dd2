// All that waits for a person, the oldest first: the first view.

import { board } from "./board.js";
import { button, el, fill, keep } from "./dom.js";
import { attempt } from "./notices.js";
import { moved, questionCard } from "./question.js";
import { stateOf } from "./board.js";
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
    head.textContent = questions.length ? `${counted(questions.length, "question")} for you` : "Inbox";
    if (questions.length || doors.length) {
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
    const rows = [...board.sessions.values()];
    const asked = new Set([...board.questions.values()].map((each) => each.session_id));
    const waiting = rows.filter((row) => stateOf(row) === "waiting" && !asked.has(row.id));
    const done = rows.filter((row) => stateOf(row) === "done");
    fill(
      besides,
      waiting.length > 0 && [el("h2", "Waiting in their terminals"), el("ul.rows", waiting.map((row) => line(row, row.waits_for || row.activity.question)))],
      done.length > 0 && [el("h2", "Done, not looked at"), el("ul.rows", done.map((row) => line(row, row.what)))],
    );
  }

  board.addEventListener("questions", draw);
  board.addEventListener("sessions", drawBesides);
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
      board.removeEventListener("sessions", drawBesides);
    },
  };
}

function line(row, words) {
  const link = el(
    "a",
    { href: `#/s/${encodeURIComponent(row.id)}` },
    el(`i.dot.${stateOf(row)}`, { "aria-hidden": "true" }),
    el("strong", visible(row.name)),
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
