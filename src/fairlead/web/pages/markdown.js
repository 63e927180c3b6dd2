// Markdown as agents write it, as elements: paragraphs, headings, lists, tables, quotes, code and links. HTML in
// it is text. What is not finished yet, as it streams in, shows as far as it is.

import { button, el, outward } from "./dom.js";
import { isDiff, lines as diffLines } from "./diff.js";
import { visible } from "./words.js";

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])\s*(?:\1\s*){2,}$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)(.*)$/;
const TABLE_RULE = /^ *\|?( *:?-+:? *\|)+ *(:?-+:?)? *$/;
const DEEPEST = 12;

export function markdown(text) {
  const root = el("div.markdown");
  root.append(...blocks(visible(text).split("\n"), 0));
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
      found.push(el(`h${Math.min(6, heading[1].length + 2)}`, inline(heading[2])));
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
    } else if (row.includes("|") && TABLE_RULE.test(rows[at + 1] ?? "")) {
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
    const blank = rows.findIndex((row, place) => place > at && place < end && !row.trim() && rows[place + 1] !== undefined && rows[place + 1].trim() && !/^\s/.test(rows[place + 1]) && !ITEM.test(rows[place + 1]));
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

const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|!?\[((?:\\.|[^\]\\\n])*)\]\(\s*<?((?:[^()\s<>]|\([^()\s]*\))*)>?(?:\s+"[^"\n]*")?\s*\)|<((?:https?:\/\/|mailto:)[^\s<>]+)>|\b(https?:\/\/[^\s<>`"')\]]+[^\s<>`"')\].,;:!?*_])|(\*\*|__)(?=\S)([\s\S]*?\S)\7|(?<![\w*])(\*)(?=[^\s*])([^*\n]*?[^\s*])\*(?![\w*])|(?<!\w)(_)(?=[^\s_])([^_\n]*?[^\s_])_(?!\w)|~~(?=\S)([\s\S]*?\S)~~|\\([!-/:-@[-`{-~])|( {2,}|\\)\n/g;
const LONGEST_INLINE = 10_000;

export function inline(text, depth = 0) {
  if (text.length > LONGEST_INLINE || depth > 6) return [text];
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > last) parts.push(text.slice(last, found.index));
    last = found.index + found[0].length;
    const [whole, tick, codeText, label, target, angled, bare, , strong, , star, , underscore, gone, escaped] = found;
    if (tick) parts.push(el("code", codeText.replace(/^ (.*) $/s, "$1").replaceAll("\n", " ")));
    else if (label !== undefined) parts.push(link(target, inline(label || target, depth + 1)));
    else if (angled || bare) parts.push(link(angled ?? bare, [angled ?? bare]));
    else if (strong !== undefined) parts.push(el("strong", inline(strong, depth + 1)));
    else if (star !== undefined) parts.push(el("em", inline(star, depth + 1)));
    else if (underscore !== undefined) parts.push(el("em", inline(underscore, depth + 1)));
    else if (gone !== undefined) parts.push(el("del", inline(gone, depth + 1)));
    else if (escaped !== undefined) parts.push(escaped);
    else parts.push(whole.endsWith("\n") ? el("br") : whole);
  }
  if (last < text.length) parts.push(text.slice(last));
  return parts;
}

// A link to a file of the project can't be opened here; its name is shown.
function link(target, children) {
  if (/^(https?:|mailto:)/i.test(target)) return outward(target, ...children);
  const said = children.map((child) => (child instanceof Node ? child.textContent : child)).join("");
  return said === target ? el("code", target) : el("span", ...children, " (", el("code", target), ")");
}
