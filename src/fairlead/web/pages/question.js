// A question as a card: who asks, all of what will happen, why it is asked, and its answers as large buttons.

import { board, hostOf, nameOf } from "./board.js";
import { diffOrText } from "./diff.js";
import { el, button, add } from "./dom.js";
import { markdown } from "./markdown.js";
import { note } from "./notices.js";
import { place, since, visible, oneLine } from "./words.js";

const STILL = 400; // milliseconds after cards have moved in which a press may have been meant for another one
const WORDS = { allow: "Allow", always: "Always allow this", deny: "Deny" };

let movedAt = 0;

// Cards have moved under a person's finger.
export function moved() {
  movedAt = performance.now();
}

export function questionCard(question, { withSession = true } = {}) {
  const headline = el("h2.question-what", visible(question.summary || question.title));
  const card = el("article.question", { "aria-label": `Question: ${oneLine(question.summary || question.title, 120)}`, tabindex: "-1" });
  card.dataset.token = question.token;
  const status = el("p.question-status", { role: "status" });
  add(card, [
    el("header.question-head", who(question, withSession), el("time.dim", { data: { since: question.asked_at } }, since(question.asked_at))),
    headline,
    question.reason && el("p.question-reason", visible(question.reason)),
    preview(question),
    question.lost && el("p.warning", `Nobody waits for the answer any more: ${visible(question.lost)}`),
    board.mayWrite ? answers(question, card, status) : el("p.dim", "You watch: somebody else answers this."),
    status,
  ]);
  return card;
}

function who(question, withSession) {
  const asking = board.sessions.get(question.session_id);
  const name = visible((asking && nameOf(asking)) || question.session_name || question.session_id?.slice(0, 8) || "the daemon");
  const chip = el("span.chip", visible(question.title));
  const project = question.project && el("span.dim.path", { title: visible(question.project) }, place(question.project));
  const session = question.session_id && withSession
    ? el("a.question-session", { href: `#/s/${encodeURIComponent(question.session_id)}` }, name)
    : withSession && el("span.question-session", name);
  const host = hostOf(question) && el("span.chip.host", { title: "The host that it is on" }, visible(hostOf(question)));
  return el("div.question-who", session, host, chip, project);
}

// All of it, unless the headline said it already.
function preview(question) {
  const whole = (question.preview ?? "").trim();
  if (!whole || whole === (question.summary ?? "").replace(/^\$ /, "").trim()) return null;
  const label = question.kind === "escalation" ? "What was found" : "What will happen";
  const shown = question.kind === "escalation" ? markdown(question.preview) : diffOrText(question.preview);
  return el("div.question-preview", { tabindex: "0", role: "region", "aria-label": label }, shown);
}

function answers(question, card, status) {
  const row = el("div.answers");
  const isDialog = question.kind === "dialog";
  const labels = question.labels ?? [];
  question.options.forEach((value, at) => {
    const label = visible(labels[at] ?? (question.kind === "escalation" && value === "deny" ? "Dismiss" : WORDS[value] ?? value));
    const kind = question.kind === "escalation" ? "other" : value === "deny" ? "deny" : /^allow/.test(value) ? "allow" : "other";
    const given = isDialog && value !== "deny" ? { option: "answer", text: value } : { option: value };
    row.append(button(label, () => settle(question, given, label, card, status), { class: `answer.${kind}` }));
  });
  const parts = [row];
  if (question.takes_text) parts.unshift(ownWords(question, card, status));
  return parts;
}

function ownWords(question, card, status) {
  const area = el("textarea", { rows: "2", "aria-label": "Answer in your own words", placeholder: "Answer in your own words" });
  const send = () => area.value.trim() && settle(question, { option: "answer", text: area.value.trim() }, "Answered", card, status);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  return el("div.own-words", area, button("Answer", send, { class: "answer.allow" }));
}

// The keyboard goes on with the next question; if there is none, with the view.
function goOn(card) {
  const to = card ?? document.getElementById("main");
  to.focus({ preventScroll: true });
  card?.scrollIntoView({ block: "nearest" });
}

async function settle(question, given, label, card, status) {
  if (card.dataset.busy) return;
  if (movedAt && performance.now() - movedAt < STILL) {
    status.textContent = "The questions have just moved: press again if you mean this one.";
    return;
  }
  card.dataset.busy = "true";
  const hadFocus = card.contains(document.activeElement);
  const cards = [...document.querySelectorAll("main .question")];
  const beside = [...cards.slice(cards.indexOf(card) + 1), ...cards.slice(0, cards.indexOf(card)).reverse()];
  if (hadFocus) card.focus({ preventScroll: true }); // what is disabled can't have it
  for (const each of card.querySelectorAll("button, textarea")) each.disabled = true;
  status.textContent = "Answering…";
  try {
    await board.answer(question, given);
    status.textContent = label;
    note(`${oneLine(question.session_name || question.title, 60)}: answered, ${label}`); // the card, with its own status, is gone
    if (hadFocus && document.activeElement === document.body) goOn(beside.find((each) => each.isConnected));
  } catch (refused) {
    delete card.dataset.busy;
    for (const each of card.querySelectorAll("button, textarea")) each.disabled = false;
    status.textContent = refused.message;
    status.classList.add("warning");
  }
}
