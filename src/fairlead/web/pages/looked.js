// Tells the daemon which questions a person has seen, so that nobody is told of these elsewhere: those on the
// screen of a page in the foreground at which somebody did something within the last minute.

import { op } from "./api.js";
import { board } from "./board.js";

const ACTIVE = 60_000;
const GATHER = 400;
const SIGNS = ["pointerdown", "pointermove", "keydown", "wheel", "touchstart", "scroll"];

const seen = new Set();
let actedAt = performance.now(); // who opens a page is there
let timer = 0;

function acted() {
  actedAt = performance.now();
  soon();
}

function soon() {
  if (!timer) timer = setTimeout(look, GATHER);
}

const isShown = ({ top, bottom, height }) => height > 0 && top < innerHeight && bottom > 0;

function look() {
  timer = 0;
  if (!board.isOwner || document.hidden || performance.now() - actedAt > ACTIVE) return;
  for (const token of seen) if (!board.questions.has(token)) seen.delete(token);
  for (const card of document.querySelectorAll(".question[data-token]")) {
    const { token } = card.dataset;
    if (seen.has(token) || !board.questions.has(token) || !isShown(card.getBoundingClientRect())) continue;
    seen.add(token);
    op("approval_seen", { token }).catch(() => seen.delete(token));
  }
}

export function lookWhatIsSeen() {
  for (const sign of SIGNS) addEventListener(sign, acted, { capture: true, passive: true });
  for (const change of ["visibilitychange", "focus"]) addEventListener(change, soon, true);
  for (const change of ["questions", "sessions"]) board.addEventListener(change, soon);
  addEventListener("hashchange", soon);
  soon();
}
