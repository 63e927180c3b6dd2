// Draws Markdown without a browser: prints what some texts become, and how long each of many shapes takes at two
// sizes. The first argument is the file of the pages.
import { pathToFileURL } from "node:url";

class Node {
  constructor(tag) {
    Object.assign(this, { tagName: tag.toUpperCase(), childNodes: [], dataset: {}, classList: { add() {} } });
  }
  append(...children) {
    this.childNodes.push(...children);
  }
  setAttribute() {}
  addEventListener() {}
}
globalThis.Node = Node;
globalThis.document = { createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag), addEventListener() {}, documentElement: new Node("html") };
const { markdown } = await import(pathToFileURL(process.argv[2]));

const shown = (node) => (node instanceof Node ? `<${node.tagName.toLowerCase()}>${node.childNodes.map(shown).join("")}</>` : node);

const SHAPES = {
  "spaces in a heading": (n) => `# a${" ".repeat(n)}x`,
  "spaces before a heading": (n) => `# ${" ".repeat(n)}x`,
  "marks in a heading": (n) => `# a${" #".repeat(n / 2)}x`,
  "rising runs of backticks": (n) => Array.from({ length: Math.sqrt(2 * n) }, (_, at) => `${"`".repeat(at + 1)}a`).join(""),
  "paragraphs of backticks": (n) => `${Array.from({ length: 120 }, (_, at) => `${"`".repeat(at + 1)}a`).join("")}\n\n`.repeat(n / 7400),
  "backticks": (n) => "`a".repeat(n / 2),
  "a long list": (n) => "- a\n".repeat(n / 4),
  "a list with empty lines": (n) => "- a\n\n".repeat(n / 5),
  "nested items": (n) => "- ".repeat(n / 2),
  "open bold": (n) => `${" **a".repeat(2000)}\n\n`.repeat(n / 8000),
  "open emphasis": (n) => `${" *a".repeat(3000)}\n\n`.repeat(n / 9000),
  "open strikes": (n) => `${" ~~a".repeat(2000)}\n\n`.repeat(n / 8000),
  "brackets": (n) => `${"[".repeat(9000)}\n\n`.repeat(n / 9000),
  "open links": (n) => `${"[a](".repeat(2000)}\n\n`.repeat(n / 8000),
  "parentheses in a link": (n) => `${"[a](" + "(a)".repeat(3000)}\n\n`.repeat(n / 9000),
  "spaces": (n) => `a${" ".repeat(9000)}b\n\n`.repeat(n / 9000),
  "a table's rule of spaces": (n) => `a|b\n${" ".repeat(n)}x`,
  "a table's rule of dashes": (n) => `a|b\n|${"-".repeat(n)}x`,
  "a table's rule that ends late": (n) => `a|b\n|-|${" ".repeat(n)}x`,
  "a fence of spaces": (n) => `\`\`\`${" ".repeat(n)}\``,
  "a fence of tildes": (n) => `${"~".repeat(n)}\``,
  "a ruler": (n) => `-${" ".repeat(n)}x`,
  "quotes": (n) => ">".repeat(n),
  "quoted lines": (n) => "> a\n".repeat(n / 4),
  "cells": (n) => `${"|".repeat(n / 3)}\n|-|\n${"|".repeat(n / 3)}`,
  "very much": (n) => "# a\n".repeat(20 * n),
};

const TEXTS = JSON.parse(process.argv[3]);
const [short, long] = JSON.parse(process.argv[4]);
const took = (text) => {
  const began = performance.now();
  markdown(text);
  return performance.now() - began;
};
const times = {};
if (long) for (const [name, of] of Object.entries(SHAPES)) times[name] = [took(of(short)), took(of(long))];
console.log(JSON.stringify({ drawn: TEXTS.map((text) => markdown(text).childNodes.map(shown).join("")), times }));
