// Makes elements. Whatever comes from a session is only ever text or an attribute's value here: nothing in
// these pages parses HTML.

const SVG = "http://www.w3.org/2000/svg";
const ADDRESSES = /^(https?:|mailto:)/i;

// An element: el("a.name", {href: "…", onclick: f}, "text", child, [more]). Nothing and false are left out.
export function el(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElement(tag), classes, rest);
}

// The same for drawings.
export function svg(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElementNS(SVG, tag), classes, rest);
}

function filled(node, classes, rest) {
  if (classes.length) node.classList.add(...classes);
  const isGiven = rest.length && isAttributes(rest[0]);
  if (isGiven) for (const [key, value] of Object.entries(rest[0])) set(node, key, value);
  add(node, isGiven ? rest.slice(1) : rest);
  return node;
}

function isAttributes(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Node);
}

function set(node, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith("on")) {
    if (typeof value !== "function") throw new TypeError(`${key} must be a function`);
    node.addEventListener(key.slice(2), value);
  } else if (key === "value" || key === "checked" || key === "disabled" || key === "open" || key === "hidden") {
    node[key] = value;
  } else if (key === "data") {
    Object.assign(node.dataset, value);
  } else {
    node.setAttribute(key, value === true ? "" : value);
  }
}

// Append children, which may be nodes, texts or lists of those.
export function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

// Let a node have these children and no others.
export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

// Replace a node's children by others, and keep those that say the same: what a person is about to press, reads
// or has selected stays the same element. `made` are pairs of a key and a function that makes the node; a node is
// made again when its `mark` differs.
export function keep(node, made) {
  const known = new Map([...node.children].map((child) => [child.dataset.key, child]));
  let at = node.firstElementChild;
  for (const { key, mark, make } of made) {
    let child = known.get(key);
    if (!child || child.dataset.mark !== mark) {
      const fresh = make();
      fresh.dataset.key = key;
      fresh.dataset.mark = mark;
      if (child) {
        if (at === child) at = child.nextElementSibling;
        child.replaceWith(fresh);
        node.insertBefore(fresh, at);
      } else {
        node.insertBefore(fresh, at);
      }
      known.delete(key);
      continue;
    }
    known.delete(key);
    if (child === at) at = at.nextElementSibling;
    else node.insertBefore(child, at);
  }
  for (const child of known.values()) child.remove();
}

export const button = (text, onclick, more = {}) =>
  el(["button", ...(more.class ?? "").split(/[ .]/)].filter(Boolean).join("."), { type: "button", onclick, ...without(more, "class") }, text);

function without(values, key) {
  const rest = { ...values };
  delete rest[key];
  return rest;
}

// A link that an agent wrote: only to addresses that a browser may open, in a window that knows nothing of us.
export function outward(address, ...children) {
  if (!ADDRESSES.test(address)) return el("span.address", ...children, ` (${address})`);
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}
