// A terminal session: watched at its own size until the pen is taken, then sized to this page. Scrollback, search,
// copy, paste, recording, and on phones a row of the keys that their keyboards lack.

import { op } from "./api.js";
import { board } from "./board.js";
import { button, el, fill } from "./dom.js";
import { attempt, note } from "./notices.js";
import { promptBox } from "./prompt_box.js";
import { recall, remember } from "./remembered.js";
import { FONT, drawOnGraphics, theme } from "./screen_look.js";
import { install } from "./strict_styles.js";
import { TerminalLink } from "./terminal_link.js";
import { visible } from "./words.js";
import { Terminal } from "./vendor/xterm/xterm.mjs";
import { FitAddon } from "./vendor/addon-fit/addon-fit.mjs";
import { SearchAddon } from "./vendor/addon-search/addon-search.mjs";
import { UnicodeGraphemesAddon } from "./vendor/addon-unicode-graphemes/addon-unicode-graphemes.mjs";

install();

const [SMALLEST, LARGEST, USUAL] = [5, 24, 13];
const SCROLLBACK = 5000;
const SETTLED = 120; // milliseconds without another change of the window's size
const LEAST = { cols: 20, rows: 5 };

const KEYS = [
  ["Esc", "\x1b"],
  ["Tab", "\t"],
  ["Ctrl", "ctrl"],
  ["↑", "A"],
  ["↓", "B"],
  ["←", "D"],
  ["→", "C"],
  ["^C", "\x03"],
  ["|", "|"],
  ["/", "/"],
  ["-", "-"],
  ["~", "~"],
  ["PgUp", "\x1b[5~"],
  ["PgDn", "\x1b[6~"],
];
const ARROWS = { "↑": "Up", "↓": "Down", "←": "Left", "→": "Right" };

export function terminalPane(row) {
  const screen = el("div.terminal-screen");
  const pen = el("span.pen", { role: "status" });
  const penButton = button("Take the pen", togglePen, { class: "primary" });
  const size = el("span.dim.size");
  const cover = el("div.terminal-cover", { role: "status" });
  cover.hidden = true;
  const searchBox = el("input", { type: "search", placeholder: "Find in the terminal", "aria-label": "Find in the terminal", onkeydown: searchKey, oninput: () => find(true) });
  const searchRow = el("div.terminal-search", searchBox, button("↑", () => find(false, true), { "aria-label": "Previous" }), button("↓", () => find(), { "aria-label": "Next" }), button("✕", closeSearch, { "aria-label": "Close" }));
  searchRow.hidden = true;
  const recordButton = button("Record", toggleRecording, { class: "quiet" });
  const download = el("a.button.quiet", { href: `/api/recordings/${encodeURIComponent(row.id)}`, download: `${row.name}.cast`, hidden: true, title: "Download the recording" }, "Download");
  const keyRow = el("div.key-row", { role: "toolbar", "aria-label": "Keys" }, KEYS.map(([label, key]) => keyButton(label, key)));
  const prompts = promptBox(row);
  const bar = el(
    "div.terminal-bar",
    penButton,
    pen,
    size,
    el("span.grow"),
    button("Find", openSearch, { class: "quiet" }),
    button("Copy", copy, { class: "quiet", title: "Copy the selection, or the screen" }),
    board.mayWrite && button("Paste", paste, { class: "quiet paste" }),
    button("A−", () => scale(-1), { class: "quiet", "aria-label": "A−, smaller text" }),
    button("A+", () => scale(1), { class: "quiet", "aria-label": "A+, larger text" }),
    board.isOwner && recordButton,
    download,
  );
  let writer = row.writer ?? "";
  const node = el("section.terminal", { "aria-label": `Terminal of ${visible(row.name)}` }, bar, el("div.terminal-room", screen, searchRow, cover), keyRow, prompts.node);

  let font = Number(recall("font", String(USUAL))) || USUAL;
  let isMine = false;
  let may = board.mayWrite;
  let isCtrl = false;
  let session = { cols: row.cols || 80, rows: row.rows || 24 };
  let isRecording = Boolean(row.recording);
  let timer = 0;
  const encoder = new TextEncoder();
  const terminal = new Terminal({
    allowProposedApi: true,
    cols: session.cols,
    rows: session.rows,
    cursorBlink: false,
    fontFamily: FONT,
    fontSize: font,
    linkHandler: { activate: follow },
    macOptionIsMeta: true,
    minimumContrastRatio: 4.5,
    screenReaderMode: recall("screen-reader") === "on",
    scrollback: SCROLLBACK,
    theme: theme(),
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(search);
  let link = null;

  function begin() {
    terminal.open(screen);
    try {
      terminal.loadAddon(new UnicodeGraphemesAddon());
    } catch {
      // widths as xterm.js has them by itself
    }
    drawOnGraphics(terminal);
    terminal.onData((data) => typed(data));
    terminal.onBinary((data) => link.type(Uint8Array.from(data, (letter) => letter.charCodeAt(0))));
    terminal.attachCustomKeyEventHandler(hotkey);
    const observer = new ResizeObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(adjust, SETTLED);
    });
    observer.observe(screen.parentElement);
    stops.push(() => observer.disconnect());
    document.addEventListener("pointerdown", pressed, true);
    stops.push(() => document.removeEventListener("pointerdown", pressed, true));
    connect();
    adjust();
    showRecording();
    prompts.begin();
  }

  const stops = [];

  function connect() {
    link = new TerminalLink(row.id, {
      output: (bytes, written) => terminal.write(bytes, () => written(bytes.length)),
      size: (cols, rows) => terminal.write("", () => sized(cols, rows)), // after what was printed before
      pen: penMoved,
      link: linked,
      ended,
      said: (text) => note(text),
    });
    const back = () => document.hidden || link.hurry();
    document.addEventListener("visibilitychange", back);
    addEventListener("online", back);
    board.addEventListener("sessions", rowMoved);
    stops.push(() => board.removeEventListener("sessions", rowMoved));
    stops.push(() => document.removeEventListener("visibilitychange", back), () => removeEventListener("online", back));
  }

  // --- size -------------------------------------------------------------------------------------------------

  function sized(cols, rows) {
    session = { cols, rows };
    if (terminal.cols !== cols || terminal.rows !== rows) terminal.resize(cols, rows);
    if (!isMine) adjust();
    drawSize();
  }

  // With the pen the session gets the size of this page; else the text gets the size at which all of it is seen.
  function adjust() {
    if (!screen.isConnected || !screen.clientWidth) return;
    if (isMine) {
      terminal.options.fontSize = font;
      const wanted = proposed();
      if (wanted && (wanted.cols !== session.cols || wanted.rows !== session.rows)) link.resize(wanted.cols, wanted.rows);
      return;
    }
    const room = fit.proposeDimensions();
    if (!room || !Number.isFinite(room.cols)) return;
    const now = terminal.options.fontSize;
    const fits = Math.min((now * (room.cols + 0.5)) / session.cols, (now * (room.rows + 0.5)) / session.rows);
    const chosen = Math.max(SMALLEST, Math.min(font, Math.floor(fits * 2) / 2));
    if (chosen !== now) terminal.options.fontSize = chosen;
  }

  function proposed() {
    const room = fit.proposeDimensions();
    if (!room || !Number.isFinite(room.cols)) return null;
    return { cols: Math.max(LEAST.cols, room.cols), rows: Math.max(LEAST.rows, room.rows) };
  }

  function scale(step) {
    font = Math.max(SMALLEST, Math.min(LARGEST, font + step));
    remember("font", String(font));
    terminal.options.fontSize = font;
    adjust();
  }

  function drawSize() {
    const policy = isMine ? "sized to this page" : "the size that the writer chose";
    size.textContent = `${session.cols}×${session.rows}, ${policy}`;
  }

  // --- the pen ----------------------------------------------------------------------------------------------

  function togglePen() {
    if (isMine) {
      link.dropPen();
      return;
    }
    terminal.options.fontSize = font;
    link.takePen(proposed());
    terminal.focus();
  }

  // The session's row says who writes; the link says so earlier to who had the pen.
  function rowMoved() {
    const now = board.sessions.get(row.id);
    if (!now || isMine) return;
    writer = now.writer ?? "";
    drawPen();
  }

  function drawPen() {
    const watching = may ? "You watch" : "You watch (this link may not write)";
    fill(pen, isMine ? "You write" : writer ? `${visible(writer)} writes here` : watching);
  }

  function penMoved({ mine, by, may: mayTake }) {
    const had = isMine;
    isMine = mine;
    may = mayTake;
    penButton.hidden = !may;
    penButton.textContent = mine ? "Give back the pen" : "Take the pen";
    penButton.classList.toggle("primary", !mine);
    writer = mine ? "" : by ?? (had ? "" : writer);
    drawPen();
    node.classList.toggle("is-mine", mine);
    terminal.options.cursorBlink = mine;
    if (mine) terminal.focus();
    adjust();
    drawSize();
  }

  function typed(data) {
    const keys = isCtrl ? controlled(data) : data;
    if (isCtrl) setCtrl(false);
    link.type(encoder.encode(keys));
  }

  function controlled(data) {
    const code = data.toUpperCase().charCodeAt(0);
    return data.length === 1 && code >= 0x40 && code < 0x60 ? String.fromCharCode(code & 0x1f) : data === " " ? "\0" : data;
  }

  // --- keys -------------------------------------------------------------------------------------------------

  // Who writes and presses a button with the pointer goes on writing, unless the button leads elsewhere.
  function pressed(event) {
    if (!isMine || !screen.contains(document.activeElement) || !event.target.closest?.("button, a.button")) return;
    document.addEventListener("click", () => setTimeout(writeOn), { once: true });
  }

  function writeOn() {
    const now = document.activeElement;
    if (isMine && screen.isConnected && !document.querySelector("dialog[open]") && (!now || now === document.body || now.matches("button, a.button, .question"))) terminal.focus();
  }

  function hotkey(event) {
    if (event.type !== "keydown") return true;
    const isOurs = event.ctrlKey && event.shiftKey && !event.altKey;
    if (isOurs && event.code === "KeyC") copy();
    else if (isOurs && event.code === "KeyF") openSearch();
    else if (isOurs && event.code === "KeyV") return true;
    else {
      if (!isMine && may && event.key.length === 1 && !event.ctrlKey && !event.metaKey) penButton.classList.add("hint");
      return true;
    }
    event.preventDefault();
    return false;
  }

  function keyButton(label, key) {
    const made = button(label, () => press(label, key), { "aria-label": ARROWS[label] ?? label });
    made.addEventListener("pointerdown", (event) => event.preventDefault()); // the keyboard stays
    if (key === "ctrl") made.setAttribute("aria-pressed", "false");
    return made;
  }

  function press(label, key) {
    if (key === "ctrl") return setCtrl(!isCtrl);
    const isArrow = label in ARROWS;
    const keys = isArrow ? `\x1b${terminal.modes.applicationCursorKeysMode ? "O" : "["}${key}` : key;
    if (!link.type(encoder.encode(isCtrl ? controlled(keys) : keys))) note("Take the pen to type.");
    if (isCtrl) setCtrl(false);
  }

  function setCtrl(isOn) {
    isCtrl = isOn;
    keyRow.querySelector("[aria-pressed]").setAttribute("aria-pressed", String(isOn));
  }

  async function copy() {
    const text = terminal.getSelection() || shownText();
    await attempt(async () => {
      await navigator.clipboard.writeText(text);
      note(terminal.hasSelection() ? "The selection is copied." : "The screen is copied.");
    });
  }

  function shownText() {
    const buffer = terminal.buffer.active;
    const rows = [];
    for (let at = 0; at < terminal.rows; at += 1) rows.push(buffer.getLine(buffer.viewportY + at)?.translateToString(true) ?? "");
    return rows.join("\n").trimEnd();
  }

  async function paste() {
    if (!isMine) return note("Take the pen to paste.");
    await attempt(async () => terminal.paste(await navigator.clipboard.readText()));
    terminal.focus();
  }

  // A link that a program printed: its address is shown before it is opened.
  function follow(event, address) {
    event.preventDefault();
    if (/^https?:\/\//i.test(address) && confirm(`Open this address?\n\n${visible(address)}`)) open(address, "_blank", "noopener,noreferrer");
  }

  // --- finding ----------------------------------------------------------------------------------------------

  function openSearch() {
    searchRow.hidden = false;
    searchBox.focus();
    searchBox.select();
  }

  function closeSearch() {
    searchRow.hidden = true;
    search.clearDecorations();
    terminal.focus();
  }

  function find(isNew = false, isBack = false) {
    if (!searchBox.value) return search.clearDecorations();
    const options = { incremental: isNew, decorations: { matchOverviewRuler: "#d4a72c", activeMatchColorOverviewRuler: "#e16f24", matchBackground: "#5a4a12", activeMatchBackground: "#a85d1c" } };
    const isFound = isBack ? search.findPrevious(searchBox.value, options) : search.findNext(searchBox.value, options);
    searchBox.classList.toggle("not-found", !isFound);
  }

  function searchKey(event) {
    if (event.key === "Enter") find(false, event.shiftKey);
    else if (event.key === "Escape") closeSearch();
  }

  // --- recording --------------------------------------------------------------------------------------------

  function showRecording() {
    recordButton.textContent = isRecording ? "Stop recording" : "Record";
    recordButton.classList.toggle("recording", isRecording);
    download.hidden = !isRecording && !row.last_recording;
  }

  async function toggleRecording() {
    await attempt(async () => {
      await op("terminal_record", isRecording ? { name: row.id, stop: true } : { name: row.id });
      isRecording = !isRecording;
      if (isRecording) download.hidden = false;
      recordButton.textContent = isRecording ? "Stop recording" : "Record";
      recordButton.classList.toggle("recording", isRecording);
    });
  }

  // --- the link ---------------------------------------------------------------------------------------------

  const WORDS = {
    away: "The console can't be reached. The screen comes back with it.",
    "daemon-away": "The daemon is away. The program keeps running; the screen comes back with it.",
  };

  function linked(state, why) {
    const words = state === "refused" ? `No terminal: ${visible(why)}` : WORDS[state] ?? "";
    cover.hidden = !words;
    fill(cover, words);
    if (state === "here") return;
    isMine = false; // until the session says so again
    pen.textContent = "";
    node.classList.remove("is-mine");
  }

  function ended(code) {
    cover.hidden = false;
    cover.classList.add("ended");
    fill(cover, code === null ? "The program has ended." : `The program has ended with ${code}.`);
    penButton.hidden = true;
    pen.textContent = "";
  }

  function recolour() {
    terminal.options.theme = theme();
  }

  addEventListener("theme", recolour);
  return {
    node,
    begin,
    close() {
      removeEventListener("theme", recolour);
      clearTimeout(timer);
      for (const stop of stops) stop();
      prompts.close();
      link?.close();
      terminal.dispose();
    },
  };
}
