// Prompts for an agent in a terminal: they are put where it reads when it is its turn to, and what became of each is
// shown until it is done, so nobody has to watch the screen for a good moment to type.

import { newId, op } from "./api.js";
import { board } from "./board.js";
import { button, el, keep } from "./dom.js";
import { attempt } from "./notices.js";
import { draft, keepDraft } from "./remembered.js";
import { oneLine, since, visible } from "./words.js";

const SHOWN = 4;
const AGAIN = 3000; // milliseconds, while a prompt is on its way
const HIGHEST = 0.3; // of the window

export function promptBox(row) {
  const area = el("textarea", { rows: "1", placeholder: "Prompt the agent", "aria-label": `Prompt for ${visible(row.name)}`, oninput: typed, onkeydown: keys });
  area.value = draft(row.id);
  const send = el("button.primary", { type: "submit" }, "Prompt");
  const list = el("ul.receipts", { "aria-label": "Prompts", "aria-live": "polite" });
  const form = el("form.composer", { onsubmit: (event) => (event.preventDefault(), prompt()) }, area, send);
  const node = el("div.prompt-box", { hidden: true }, list, form);
  const isPhone = matchMedia("(pointer: coarse)");
  let receipts = [];
  let timer = 0;
  let isClosed = false;
  let isAsking = false;

  function shown() {
    const now = board.sessions.get(row.id);
    const isAgent = now?.agent || now?.prompt !== undefined || now?.activity?.evidence?.source === "hook";
    const isThere = Boolean(isAgent && board.mayWrite && (now.exit_code ?? null) === null);
    if (isThere && node.hidden) look();
    node.hidden = !isThere;
  }

  async function look() {
    clearTimeout(timer);
    if (isAsking) return;
    isAsking = true;
    const found = await op("prompt_receipts", { session_id: row.id, limit: SHOWN }).catch(() => null);
    isAsking = false;
    if (isClosed) return;
    if (found) receipts = found.receipts;
    draw();
    if (receipts.some((each) => each.state !== "ended")) timer = setTimeout(look, AGAIN);
  }

  function draw() {
    keep(
      list,
      receipts.map((each) => ({
        key: each.id,
        mark: JSON.stringify([each.state, each.place, each.outcome, each.reason, each.waits_for]),
        make: () => receiptRow(each),
      })),
    );
  }

  function receiptRow(each) {
    const isEnded = each.state === "ended";
    const state = isEnded ? (each.outcome === "dropped" ? "not delivered" : each.outcome) : each.state;
    const before = each.state === "queued" && each.place > 1 ? ` (${each.place - 1} before it)` : "";
    const why = each.reason || each.waits_for;
    return el(
      "li",
      el("span.outcome", { data: { outcome: state } }, `${visible(state)}${before}`),
      el("span.receipt-words", { title: visible(each.words ?? "") }, oneLine(each.words ?? "", 120)),
      why && el("span.warning", oneLine(why, 160)),
      el("span.grow"),
      each.asked && el("span.dim", { data: { since: each.asked } }, since(each.asked)),
      each.state === "queued" && button("Withdraw", () => withdraw(each), { class: "quiet" }),
    );
  }

  async function withdraw(each) {
    await attempt(() => op("prompt_withdraw", { session_id: row.id, prompt_id: each.id }));
    look();
  }

  async function prompt() {
    const text = area.value.trim();
    if (!text || send.disabled) return;
    send.disabled = true;
    const sent = await attempt(() => op("session_prompt", { text, session_id: row.id, prompt_id: newId() }));
    send.disabled = false;
    if (sent) {
      area.value = "";
      keepDraft(row.id, "");
    }
    grow();
    area.focus();
    look();
  }

  function keys(event) {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey || (isPhone.matches && !event.ctrlKey)) return;
    event.preventDefault();
    prompt();
  }

  function typed() {
    keepDraft(row.id, area.value);
    grow();
  }

  function grow() {
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * HIGHEST)}px`;
  }

  function heard({ detail: { topic, data } }) {
    if (data.session_id === row.id && !node.hidden && /^sessions\/(prompt-|turn-|state)/.test(topic)) look();
  }

  board.addEventListener("sessions", shown);
  board.addEventListener("feed", heard);
  return {
    node,
    begin: shown,
    close() {
      isClosed = true;
      clearTimeout(timer);
      board.removeEventListener("sessions", shown);
      board.removeEventListener("feed", heard);
    },
  };
}
