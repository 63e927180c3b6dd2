// Unified diffs as elements: files that fold, hunks, line numbers, and marked words where one line became another.

import { el } from "./dom.js";
import { counted, visible } from "./words.js";

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;
const FOLDED_OVER = 400; // lines of a file that is shown folded
const MARKED_UNDER = 400; // characters of a line in which words are compared
const MOST_LINES = 20_000;

export const isDiff = (text) => /^(@@ -\d|diff --git |--- )/m.test(text.slice(0, 4000));

// A preview of a tool: a diff in its colours, or a text as it is.
export function diffOrText(text) {
  if (isDiff(text) && HUNK.test(text.split("\n").find((line) => line.startsWith("@@")) ?? "")) return lines(text.split("\n"));
  return el("pre.whole", visible(text));
}

// The files of a patch of git: [{path, kind, lines}].
export function filesOf(patch) {
  const files = [];
  let file = null;
  for (const line of patch.split("\n")) {
    if (line.startsWith("diff --git ")) {
      file = { path: pathIn(line), notes: [], lines: [], added: 0, removed: 0 };
      files.push(file);
    } else if (file && !file.lines.length && !line.startsWith("@@")) {
      if (line.startsWith("+++ ") && line !== "+++ /dev/null") file.path = unquoted(line.slice(4)).replace(/^b\//, "");
      else if (line.startsWith("--- ") && file.path === "" && line !== "--- /dev/null") file.path = unquoted(line.slice(4)).replace(/^a\//, "");
      else if (/^(new file|deleted file|rename|copy|similarity|old mode|new mode|Binary files|GIT binary)/.test(line)) file.notes.push(line);
    } else if (file) {
      file.lines.push(line);
      if (line.startsWith("+")) file.added += 1;
      else if (line.startsWith("-")) file.removed += 1;
    }
  }
  return files;
}

function pathIn(line) {
  const rest = line.slice("diff --git ".length);
  const quoted = rest.match(/ ("b\/(?:[^"\\]|\\.)*")$/);
  if (quoted) return unquoted(quoted[1]).replace(/^b\//, "");
  const half = (rest.length - 1) / 2;
  const name = rest.slice(2, half); // a/NAME b/NAME, unless it was renamed
  return rest === `a/${name} b/${name}` ? name : rest.slice(rest.lastIndexOf(" b/") + 3);
}

// Git writes names with odd characters as C strings, with bytes in octal.
function unquoted(name) {
  const text = name.replace(/\t$/, "");
  if (!text.startsWith('"')) return text;
  const simple = { n: 10, t: 9, r: 13, a: 7, b: 8, f: 12, v: 11, '"': 34, "\\": 92 };
  const bytes = [];
  const inner = text.slice(1, -1);
  for (let at = 0; at < inner.length; at += 1) {
    const letter = String.fromCodePoint(inner.codePointAt(at));
    if (letter !== "\\") {
      bytes.push(...new TextEncoder().encode(letter));
      at += letter.length - 1;
    } else if (/[0-7]/.test(inner[at + 1])) {
      bytes.push(parseInt(inner.slice(at + 1, at + 4), 8));
      at += 3;
    } else {
      bytes.push(simple[inner[at + 1]] ?? inner.charCodeAt(at + 1));
      at += 1;
    }
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

// A file of a patch, which unfolds when it is opened.
export function fileDiff(file) {
  const body = el("div.file-body");
  const summary = el(
    "summary",
    el("span.file-path", visible(file.path)),
    el("span.counts", file.added > 0 && el("span.plus", `+${file.added}`), file.removed > 0 && el("span.minus", `−${file.removed}`)),
  );
  const details = el("details.file", summary, body);
  const show = () => {
    if (body.childElementCount || !details.open) return;
    body.append(...file.notes.map((note) => el("p.dim", visible(note))));
    if (file.lines.length) body.append(lines(file.lines));
    body.append(el("span")); // so that a file with nothing to show is not drawn again
  };
  details.addEventListener("toggle", show);
  details.open = file.lines.length <= FOLDED_OVER;
  show();
  return details;
}

// The lines of one or more hunks as a table.
export function lines(all) {
  const table = el("div.diff", { role: "table", "aria-label": "Changes" });
  let [before, after] = [0, 0];
  const shown = all.slice(0, MOST_LINES);
  for (let at = 0; at < shown.length; at += 1) {
    const line = shown[at];
    const hunk = line.match(HUNK);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[3])];
      table.append(row("hunk", "", "", `⋯ ${hunk[5]}`.trim()));
    } else if (line.startsWith("-")) {
      const next = shown[at + 1] ?? "";
      const isPair = next.startsWith("+") && !(shown[at + 2] ?? "").startsWith("+") && !(shown[at - 1] ?? "").startsWith("-");
      if (isPair && Math.max(line.length, next.length) < MARKED_UNDER) {
        const [gone, come] = marked(line.slice(1), next.slice(1));
        table.append(row("minus", before, "", gone), row("plus", "", after, come));
        before += 1;
        after += 1;
        at += 1;
      } else {
        table.append(row("minus", before, "", visible(line.slice(1))));
        before += 1;
      }
    } else if (line.startsWith("+")) {
      table.append(row("plus", "", after, visible(line.slice(1))));
      after += 1;
    } else if (line.startsWith("\\")) {
      table.append(row("remark", "", "", visible(line.slice(2))));
    } else if (line.startsWith(" ")) {
      table.append(row("same", before, after, visible(line.slice(1))));
      before += 1;
      after += 1;
    } else if (line) {
      table.append(row("remark", "", "", visible(line)));
    }
  }
  if (all.length > MOST_LINES) table.append(row("remark", "", "", `${counted(all.length - MOST_LINES, "more line")} not shown`));
  return table;
}

const SIGNS = { plus: "+", minus: "−" };

function row(kind, before, after, text) {
  return el(
    `div.line.${kind}`,
    { role: "row" },
    el("span.number", { role: "cell" }, before),
    el("span.number", { role: "cell" }, after),
    el("span.sign", { role: "cell" }, SIGNS[kind] ?? ""),
    el("code.text", { role: "cell" }, text || " "),
  );
}

// What differs between two lines: what is the same at both ends is not marked.
function marked(gone, come) {
  const from = gone.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  const to = come.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  let start = 0;
  while (start < Math.min(from.length, to.length) && from[start] === to[start]) start += 1;
  let end = 0;
  while (end < Math.min(from.length, to.length) - start && from.at(-1 - end) === to.at(-1 - end)) end += 1;
  const parts = (words) => [
    visible(words.slice(0, start).join("")),
    words.length - end > start && el("mark", visible(words.slice(start, words.length - end).join(""))),
    visible(words.slice(words.length - end).join("")),
  ];
  const isOther = start + end < Math.min(from.length, to.length) / 3;
  return isOther ? [visible(gone), visible(come)] : [parts(from), parts(to)];
}
