// A terminal's screen as a text that draws it again: what a player goes back to. Scrollback is left out.

const MOST_LOOKS = 64;

// What xterm.js does not tell of itself and what draws depends on: the margins, the colours, the cursor and the character set.
export class Tracked {
  constructor(terminal) {
    this.reset();
    const csi = (id, heard) => terminal.parser.registerCsiHandler(id, (params) => (heard(params), false));
    const escape = (id, heard) => terminal.parser.registerEscHandler(id, () => (heard(), false));
    csi({ final: "r" }, ([top, bottom]) => (this.margins = top || bottom ? `\x1b[${top || 1};${bottom || ""}r` : ""));
    csi({ final: "m" }, (params) => this.#painted(params));
    csi({ prefix: "?", final: "h" }, (params) => params.includes(25) && (this.cursor = ""));
    csi({ prefix: "?", final: "l" }, (params) => params.includes(25) && (this.cursor = "\x1b[?25l"));
    csi({ intermediates: "!", final: "p" }, () => this.reset());
    escape({ final: "c" }, () => this.reset());
    for (const set of ["0", "A", "B"]) escape({ intermediates: "(", final: set }, () => (this.set = set === "B" ? "" : `\x1b(${set}`));
  }

  reset() {
    this.margins = this.cursor = this.set = "";
    this.#look = [];
  }

  #look = [];

  // What was said of colours since the last time that all of it was undone.
  #painted(params) {
    if (!params[0]) this.#look = [];
    this.#look.push(`\x1b[${params.map((each, at) => (Array.isArray(each) ? `:${each.map((part) => (part < 0 ? "" : part)).join(":")}` : `${at ? ";" : ""}${each}`)).join("")}m`);
    if (this.#look.length > MOST_LOOKS) this.#look.shift();
  }

  get look() {
    return this.#look.join("");
  }
}

const MODES = [
  ["applicationCursorKeysMode", "\x1b[?1h"],
  ["insertMode", "\x1b[4h"],
  ["originMode", "\x1b[?6h"],
  ["reverseWraparoundMode", "\x1b[?45h"],
];

export function keyframe(terminal, tracked) {
  const { active, normal } = terminal.buffer;
  const parts = [drawn(terminal, normal)];
  if (active.type === "alternate") parts.push("\x1b[?1049h", drawn(terminal, active));
  parts.push("\x1b[0m", tracked.margins);
  for (const [name, sequence] of MODES) if (terminal.modes[name]) parts.push(sequence);
  if (!terminal.modes.wraparoundMode) parts.push("\x1b[?7l");
  const margin = terminal.modes.originMode ? Number(tracked.margins.match(/\d+/)?.[0] ?? 1) - 1 : 0;
  parts.push(`\x1b[${Math.max(0, active.cursorY - margin) + 1};${Math.min(active.cursorX, terminal.cols - 1) + 1}H`, tracked.cursor, tracked.set, tracked.look);
  return parts.join("");
}

function drawn(terminal, buffer) {
  const parts = [];
  const cell = buffer.getNullCell();
  let look = "0";
  for (let row = 0; row < terminal.rows; row += 1) {
    const line = buffer.getLine(buffer.baseY + row);
    if (!line) continue;
    parts.push(`\x1b[${row + 1};1H`);
    let blanks = 0;
    for (let at = 0; at < Math.min(line.length, terminal.cols); at += 1) {
      line.getCell(at, cell);
      if (cell.getWidth() === 0) continue;
      const its = lookOf(cell);
      if (!cell.getChars() && its === "0") {
        blanks += 1;
        continue;
      }
      if (blanks) parts.push(`\x1b[${at + 1}G`);
      blanks = 0;
      if (its !== look) parts.push(`\x1b[${its}m`);
      look = its;
      parts.push(cell.getChars() || " ");
    }
  }
  parts.push("\x1b[0m", `\x1b[${buffer.cursorY + 1};${buffer.cursorX + 1}H`);
  return parts.join("");
}

const FLAGS = [
  ["isBold", 1],
  ["isDim", 2],
  ["isItalic", 3],
  ["isUnderline", 4],
  ["isBlink", 5],
  ["isInverse", 7],
  ["isInvisible", 8],
  ["isStrikethrough", 9],
  ["isOverline", 53],
];

function lookOf(cell) {
  if (cell.isAttributeDefault()) return "0";
  const parts = [0];
  for (const [name, code] of FLAGS) if (cell[name]()) parts.push(code);
  if (!cell.isFgDefault()) parts.push(colour(38, cell.isFgRGB(), cell.getFgColor()));
  if (!cell.isBgDefault()) parts.push(colour(48, cell.isBgRGB(), cell.getBgColor()));
  return parts.join(";");
}

const colour = (code, isWhole, value) => (isWhole ? `${code};2;${(value >> 16) & 255};${(value >> 8) & 255};${value & 255}` : `${code};5;${value}`);
