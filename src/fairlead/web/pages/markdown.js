// Markdown as agents write it, as elements: paragraphs, headings, lists, tables, quotes, code and links. HTML in
// it is text. What is not finished yet, as it streams in, shows as far as it is. An agent's text may be anything, so
// all takes time linear in it: no two repetitions of a pattern can match the same, or they are bounded.

import { button, el, outward } from "./dom.js";
import { isDiff, lines as diffLines } from "./diff.js";
import { visible } from "./words.js";

const FENCE = /^( {0,3})(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=\s)(.*)$/;
const RULE = /^ {0,3}([-*_])\s*(?:\1\s*){2,}$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)(.*)$/;
const DEEPEST = 12;
const LONGEST = 100_000; // characters that are drawn as Markdown; the rest is shown as it is

export function markdown(text) {
  const root = el("div.markdown");
  const shown = visible(text);
  root.append(...blocks(shown.slice(0, LONGEST).split("\n"), 0));
  if (shown.length > LONGEST) root.append(el("pre", { tabindex: "0" }, shown.slice(LONGEST)));
  return root;
}

function blocks(rows, depth) {
  const found = [];
  let at = 0;
  while (at < rows.length) {
    const row = rows[at];
    const fence = row.match(FENCE);
    const heading = row.match(HEADING);
    if (!row.trim()) {
      at += 1;
    } else if (fence) {
      const end = closing(rows, at + 1, fence[2]);
      found.push(code(rows.slice(at + 1, end).map((each) => dedent(each, fence[1].length)), fence[3].trim()));
      at = end + 1;
    } else if (heading) {
      found.push(el(`h${Math.min(6, heading[1].length + 2)}`, inline(title(heading[2]))));
      at += 1;
    } else if (RULE.test(row)) {
      found.push(el("hr"));
      at += 1;
    } else if (/^ {0,3}>/.test(row)) {
      const end = until(rows, at, (each) => !/^ {0,3}>/.test(each));
      const inner = rows.slice(at, end).map((each) => each.replace(/^ {0,3}> ?/, ""));
      found.push(el("blockquote", depth < DEEPEST ? blocks(inner, depth + 1) : inner.join("\n")));
      at = end;
    } else if (ITEM.test(row)) {
      const [list, end] = listOf(rows, at, depth);
      found.push(list);
      at = end;
    } else if (row.includes("|") && isTableRule(rows[at + 1] ?? "")) {
      const end = until(rows, at + 2, (each) => !each.includes("|") || !each.trim());
      found.push(tableOf(rows.slice(at, end)));
      at = end;
    } else {
      const end = until(rows, at + 1, (each) => !each.trim() || begins(each));
      found.push(el("p", inline(rows.slice(at, end).join("\n"))));
      at = end;
    }
  }
  return found;
}

const begins = (row) => FENCE.test(row) || HEADING.test(row) || RULE.test(row) || /^ {0,3}>/.test(row) || /^ {0,3}([-*+]|1[.)]) /.test(row);

// A heading's text, without the marks that may close it.
function title(text) {
  let end = text.trimEnd().length;
  while (end && text[end - 1] === "#") end -= 1;
  return text.slice(0, end).trim();
}

// The line below a table's head: `|---|:-:|`.
function isTableRule(row) {
  const cells = row.trim().split("|").map((cell) => cell.trim());
  if (cells.length < 2) return false;
  const inner = cells.slice(cells[0] ? 0 : 1, cells.at(-1) ? undefined : -1);
  return inner.length > 0 && inner.every((cell) => /^:?-+:?$/.test(cell));
}

function until(rows, at, ends) {
  while (at < rows.length && !ends(rows[at])) at += 1;
  return at;
}

function closing(rows, at, mark) {
  return until(rows, at, (row) => {
    const end = row.match(/^ {0,3}(`{3,}|~{3,})\s*$/);
    return end && end[1][0] === mark[0] && end[1].length >= mark.length;
  });
}

const dedent = (row, count) => row.slice(Math.min(count, row.length - row.trimStart().length));

function code(rows, language) {
  const text = rows.join("\n");
  const name = language.split(/\s/)[0];
  const shown = name === "diff" && isDiff(text) ? diffLines(rows) : el("pre", { tabindex: "0" }, el("code", text));
  const copy = button("Copy", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  }, { class: "quiet" });
  return el("figure.code", el("figcaption", el("span", name || "text"), copy), shown);
}

function listOf(rows, at, depth) {
  const first = rows[at].match(ITEM);
  const isNumbered = /\d/.test(first[2]);
  const list = isNumbered ? el("ol", { start: parseInt(first[2], 10) }) : el("ul");
  const margin = first[1].length;
  while (at < rows.length) {
    const item = rows[at].match(ITEM);
    if (!item || item[1].length > margin + 3 || item[1].length < margin || /\d/.test(item[2]) !== isNumbered || RULE.test(rows[at])) break;
    const indent = item[1].length + item[2].length + Math.min(item[3].length || 1, 4);
    const end = until(rows, at + 1, (row) => row.trim() && row.length - row.trimStart().length < Math.min(indent, margin + 2) && (ITEM.test(row) || begins(row)));
    let last = end;
    const isAtMargin = (row) => row.trim() && !/^\s/.test(row) && !ITEM.test(row);
    let blank = at + 1;
    while (blank < end && (rows[blank].trim() || !isAtMargin(rows[blank + 1] ?? ""))) blank += 1;
    if (blank >= end) blank = 0;
    if (blank > 0) last = blank; // a paragraph at the margin after a blank line ends the list
    const inner = [item[4], ...rows.slice(at + 1, last).map((row) => dedent(row, indent))];
    list.append(el("li", depth < DEEPEST ? tight(task(inner), depth) : inner.join("\n")));
    at = last;
    if (blank > 0) break;
  }
  return [list, at];
}

// A single paragraph in an item needs no paragraph of its own.
function tight(inner, depth) {
  const made = blocks(inner, depth + 1);
  return made.length && made[0].tagName === "P" ? [...made[0].childNodes, ...made.slice(1)] : made;
}

function task(inner) {
  const box = inner[0].match(/^\[([ xX>])\] (.*)$/);
  if (!box) return inner;
  const mark = { " ": "☐", ">": "▸" }[box[1]] ?? "☑";
  return [`${mark} ${box[2]}`, ...inner.slice(1)];
}

function tableOf(rows) {
  const cells = (row) => row.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const sides = cells(rows[1]).map((rule) => (rule.endsWith(":") ? (rule.startsWith(":") ? "center" : "right") : "left"));
  const line = (row, tag) => el("tr", cells(row).map((cell, at) => el(`${tag}.${sides[at] ?? "left"}`, inline(cell))));
  return el("div.table", { tabindex: "0" }, el("table", el("thead", line(rows[0], "th")), el("tbody", rows.slice(2).map((row) => line(row, "td")))));
}

// --- within a paragraph --------------------------------------------------------------------------------------

const CODE = "\u0001"; // stands for a code span; `visible` leaves no such character in a text
const INLINE = /(\u0001)|!?\[((?:\\.|[^\]\\\n]){0,500})\]\(\s{0,9}<?((?:[^()\s<>\u0001]|\([^()\s\u0001]{0,200}\)){0,2000})>?(?:\s{1,9}"[^"\n\u0001]{0,200}")?\s{0,9}\)|<((?:https?:\/\/|mailto:)[^\s<>\u0001]{1,2000})>|\b(https?:\/\/[^\s<>`"')\]\u0001]{1,2000}[^\s<>`"')\].,;:!?*_\u0001])|(\*\*|__)(?=\S)([\s\S]{0,1000}?\S)\6|(?<![\w*])\*(?=[^\s*])([^*\n]{0,1000}?[^\s*])\*(?![\w*])|(?<!\w)_(?=[^\s_])([^_\n]{0,1000}?[^\s_])_(?!\w)|~~(?=\S)([\s\S]{0,1000}?\S)~~|\\([!-/:-@[-`{-~])|(?:(?<! ) {2,}|\\)\n/g;
const LONGEST_INLINE = 10_000;

export function inline(text) {
  if (text.length > LONGEST_INLINE) return [text];
  const [rest, codes] = withoutCode(text);
  return parts(rest, codes[Symbol.iterator](), 0);
}

// A text with a mark for each code span, and those spans: from a run of backticks to the next one as long.
function withoutCode(text) {
  const runs = [...text.matchAll(/\\[!-/:-@[-`{-~]|`+/g)];
  const ends = new Map(); // by length, where runs that may end a span are, the last one first
  for (const found of [...text.matchAll(/`+/g)].reverse()) {
    const size = found[0].length;
    if (!ends.has(size)) ends.set(size, []);
    ends.get(size).push(found.index);
  }
  const codes = [];
  let rest = "";
  let at = 0;
  for (const { 0: run, index } of runs) {
    if (index < at || run[0] !== "`") continue;
    const begin = index + run.length;
    const places = ends.get(run.length) ?? [];
    while (places.length && places.at(-1) < begin) places.pop();
    if (!places.length) continue;
    const end = places.at(-1);
    rest += text.slice(at, index) + CODE;
    codes.push(text.slice(begin, end));
    at = end + run.length;
  }
  return [rest + text.slice(at), codes];
}

function parts(text, codes, depth) {
  if (depth > 6) return [text.replaceAll(CODE, () => codes.next().value)];
  const made = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > last) made.push(text.slice(last, found.index));
    last = found.index + found[0].length;
    const [whole, code, label, target, angled, bare, , strong, star, underscore, gone, escaped] = found;
    if (code) made.push(el("code", codes.next().value.replace(/^ (.*) $/s, "$1").replaceAll("\n", " ")));
    else if (label !== undefined) made.push(link(target, parts(label || target, codes, depth + 1)));
    else if (angled || bare) made.push(link(angled ?? bare, [angled ?? bare]));
    else if (strong !== undefined) made.push(el("strong", parts(strong, codes, depth + 1)));
    else if (star !== undefined) made.push(el("em", parts(star, codes, depth + 1)));
    else if (underscore !== undefined) made.push(el("em", parts(underscore, codes, depth + 1)));
    else if (gone !== undefined) made.push(el("del", parts(gone, codes, depth + 1)));
    else if (escaped !== undefined) made.push(escaped);
    else made.push(whole.endsWith("\n") ? el("br") : whole);
  }
  if (last < text.length) made.push(text.slice(last));
  return made;
}

// A link to a file of the project can't be opened here; its name is shown.
function link(target, children) {
  if (/^(https?:|mailto:)/i.test(target)) return outward(target, ...children);
  const said = children.map((child) => (child instanceof Node ? child.textContent : child)).join("");
  return said === target ? el("code", target) : el("span", ...children, " (", el("code", target), ")");
}
