// Small live pictures of sessions: a terminal's screen on a canvas, or the last words of an agent. Only those that
// are in view are fetched, a few at a time, and again when something has happened in them.

import { op } from "./api.js";
import { el, fill } from "./dom.js";
import { oneLine, visible } from "./words.js";

const AT_ONCE = 2;
const AGAIN = 2500; // while a session works
const LINES = 7;
const [CELL_WIDTH, CELL_HEIGHT] = [4, 8];
const [LEAST_COLS, LEAST_ROWS] = [80, 12];

export class Miniatures {
  #nodes = new Map();
  #visible = new Set();
  #waiting = new Set();
  #running = 0;
  #timers = new Map();
  #isClosed = false;
  #observer = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: "100px" });

  // The place of a session's picture; what it showed so far stays until there is something newer.
  make(row) {
    const id = row.id;
    const before = this.#nodes.get(id);
    const node = before?.node ?? el("a.miniature", { href: `#/s/${encodeURIComponent(id)}`, tabindex: "-1", "aria-hidden": "true" });
    node.dataset.session = id;
    this.#nodes.set(id, { node, row });
    if (this.#visible.has(id)) this.stale(id);
    return node;
  }

  // Watch those that are in the page now, and forget the others.
  watch(root) {
    const here = new Set();
    for (const node of root.querySelectorAll(".miniature")) {
      here.add(node.dataset.session);
      this.#observer.observe(node);
    }
    for (const [id, { node }] of this.#nodes) {
      if (here.has(id)) continue;
      this.#observer.unobserve(node);
      this.#forget(id);
    }
  }

  #forget(id) {
    this.#nodes.delete(id);
    this.#visible.delete(id);
    this.#waiting.delete(id);
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
  }

  #seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const id = target.dataset.session;
      if (isIntersecting && this.#nodes.has(id)) {
        this.#visible.add(id);
        this.stale(id);
      } else {
        this.#visible.delete(id);
        this.#waiting.delete(id);
      }
    }
  }

  stale(id) {
    if (!this.#visible.has(id)) return;
    this.#waiting.add(id);
    this.#next();
  }

  close() {
    this.#isClosed = true;
    this.#observer.disconnect();
    for (const id of [...this.#nodes.keys()]) this.#forget(id);
  }

  async #next() {
    if (this.#isClosed || this.#running >= AT_ONCE) return;
    const id = this.#waiting.values().next().value;
    if (id === undefined) return;
    this.#waiting.delete(id);
    const found = this.#nodes.get(id);
    if (!found || found.row.away) return this.#next(); // what it showed last stays
    this.#running += 1;
    try {
      await draw(found.node, found.row);
    } catch {
      // it has ended, or the daemon is away: the last picture stays
    }
    this.#running -= 1;
    this.#again(id);
    this.#next();
  }

  #again(id) {
    const row = this.#nodes.get(id)?.row;
    if (!row || row.activity?.state === "ended" || this.#isClosed) return;
    clearTimeout(this.#timers.get(id));
    const wait = row.activity?.state === "working" ? AGAIN : AGAIN * 4;
    this.#timers.set(id, setTimeout(() => (document.hidden ? this.#again(id) : this.stale(id)), wait));
  }
}

async function draw(node, row) {
  if (row.can?.includes("screen")) {
    const { screen } = await op("terminal_screen", { name: row.id, format: "cells" });
    fill(node, screenPicture(screen));
  } else {
    const { lines } = await op("session_lines", { session_id: row.id, limit: LINES });
    if (!lines.some((line) => line.trim())) return fill(node, el("p.last-words.dim", "Nothing has been said yet."));
    fill(node, el("pre.last-words", lines.slice(-LINES).map((line) => `${oneLine(line, 140)}\n`)));
  }
}

const PALETTE = ["#2e3436", "#e06c75", "#8ccf7e", "#e5c76b", "#67b0e8", "#c47fd5", "#6cbfbf", "#b3b9b8", "#5c6370", "#ef7e7e", "#96d988", "#f4d67a", "#71baf2", "#ce89df", "#67cbe7", "#eceff4"];

export function colour(value, otherwise) {
  if (value === null || value === undefined) return otherwise;
  if (typeof value === "number") return indexed(value);
  if (typeof value === "string" && /^#[0-9a-f]{6}$/i.test(value)) return value;
  return otherwise;
}

function indexed(number) {
  if (number < 16) return PALETTE[number];
  if (number >= 232) return `rgb(${[1, 1, 1].map(() => 8 + (number - 232) * 10).join()})`;
  const step = (value) => (value ? 55 + value * 40 : 0);
  const index = number - 16;
  return `rgb(${step(Math.floor(index / 36))},${step(Math.floor(index / 6) % 6)},${step(index % 6)})`;
}

// A screen of cells, small: text is drawn, so that one can read what it is about.
function screenPicture(screen) {
  const canvas = el("canvas");
  const ratio = Math.min(2, devicePixelRatio || 1) * 1.5;
  const cols = Math.max(LEAST_COLS, screen.cols);
  const used = screen.lines.findLastIndex((line) => line.runs.length > 0) + 1;
  const rows = Math.min(screen.rows, Math.max(LEAST_ROWS, used, (screen.cursor?.y ?? 0) + 1));
  canvas.width = Math.min(4000, cols * CELL_WIDTH * ratio);
  canvas.height = Math.min(4000, rows * CELL_HEIGHT * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const [ink, paper] = [style.getPropertyValue("--term-ink").trim(), style.getPropertyValue("--term-paper").trim()];
  context.fillStyle = paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.textBaseline = "middle";
  screen.lines.slice(0, rows).forEach((line, y) => {
    for (const run of line.runs) {
      const isReverse = run.attributes?.includes("reverse") || run.attributes?.includes("inverse");
      let [front, back] = [colour(run.fg, ink), colour(run.bg, null)];
      if (isReverse) [front, back] = [back ?? paper, front];
      if (back) {
        context.fillStyle = back;
        context.fillRect(run.x * CELL_WIDTH, y * CELL_HEIGHT, run.width * CELL_WIDTH, CELL_HEIGHT);
      }
      context.fillStyle = front;
      context.font = `${run.attributes?.includes("bold") ? "bold " : ""}6.5px ui-monospace, "DejaVu Sans Mono", monospace`;
      context.fillText(visible(run.text), run.x * CELL_WIDTH, (y + 0.5) * CELL_HEIGHT, run.width * CELL_WIDTH);
    }
  });
  const { cursor } = screen;
  if (cursor?.visible) {
    context.fillStyle = ink;
    context.globalAlpha = 0.6;
    context.fillRect(cursor.x * CELL_WIDTH, cursor.y * CELL_HEIGHT, CELL_WIDTH, CELL_HEIGHT);
  }
  return canvas;
}
