// The page: its bar, the list of sessions at the side, the banner that says what is away, and one view at a time,
// as the address after # says.

import { board, byUrgency, hostOf, nameOf, stateOf } from "./board.js";
import { button, el, fill, keep } from "./dom.js";
import { inboxView } from "./inbox.js";
import { lookWhatIsSeen } from "./looked.js";
import { announce } from "./notices.js";
import { clearNotices, notifyButton, renewPush } from "./push.js";
import { recall, remember } from "./remembered.js";
import { oneLine, since, visible } from "./words.js";

const TICK = 5000;
const LATER = { // fetched when they are first wanted
  sessions: () => import("./sessions.js").then((module) => module.sessionsView),
  s: () => import("./session.js").then((module) => module.sessionView),
  reports: () => import("./reports.js").then((module) => module.reportsView),
  health: () => import("./health.js").then((module) => module.healthView),
};
const VIEWS = [
  ["inbox", "Inbox"],
  ["sessions", "Sessions"],
  ["reports", "Reports"],
  ["health", "Health"],
];

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const nav = document.getElementById("nav");
const side = document.getElementById("side");
let shown = { key: "", close: () => {}, turn: null };
let wanted = 0;

function where() {
  const [view = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  return { view: view || "inbox", rest };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function route() {
  const { view, rest } = where();
  const key = view === "s" ? `s/${rest[0]}` : view;
  drawNav();
  drawSide();
  if (shown.key === key && shown.turn) return shown.turn(rest);
  const turn = (wanted += 1);
  let make = inboxView;
  if (view !== "inbox") {
    try {
      make = LATER[view] ? await LATER[view]() : null;
    } catch {
      make = () => ({ node: el("p.empty", "This part of the console can't be fetched now."), close() {} });
    }
  }
  if (turn !== wanted) return;
  shown.close();
  if (!make) {
    location.replace("#/inbox");
    return;
  }
  const made = make(rest);
  shown = { key, close: made.close ?? (() => {}), turn: made.turn ?? null };
  main.className = `view-${view}`;
  fill(main, made.node);
  main.scrollTop = 0;
  made.begin?.();
  if (document.activeElement && document.activeElement !== document.body && nav.contains(document.activeElement)) return;
  if (turn > 1 && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

function drawNav() {
  const { view } = where();
  const count = board.questions.size + board.waitingElsewhere().length + board.doors.length;
  const links = VIEWS.filter(([name]) => board.isOwner || name === "inbox" || name === "sessions").map(([name, label]) => ({
    key: name,
    mark: `${view === name || (name === "sessions" && view === "s")}${name === "inbox" ? count : ""}`,
    make: () =>
      el(
        `a.${name}`,
        { href: `#/${name}`, "aria-current": view === name || (name === "sessions" && view === "s") ? "page" : null },
        el("span", label),
        name === "inbox" && count > 0 && el("span.badge", { "aria-label": `${count} waiting` }, count),
      ),
  }));
  keep(nav, links);
  document.title = count ? `(${count}) Fairlead` : "Fairlead";
  if (count) navigator.setAppBadge?.(count).catch(() => {});
  else navigator.clearAppBadge?.().catch(() => {});
}

const BRIEF = new Set(["idle", "unknown"]); // states that only the dot shows, so that names have room

function drawSide() {
  const { view, rest } = where();
  const rows = [...board.sessions.values()].sort(byUrgency);
  keep(
    side,
    rows.map((row) => {
      const isHere = view === "s" && rest[0] === row.id;
      const state = stateOf(row);
      const age = since(row.activity?.since);
      return {
        key: row.id,
        mark: [state, isHere, nameOf(row), age, row.waits_for].join("|"),
        make: () =>
          el(
            "a.side-row",
            { href: `#/s/${encodeURIComponent(row.id)}`, "aria-current": isHere ? "page" : null, title: oneLine(row.waits_for || row.what, 200) },
            el(`i.dot.${state}`, { "aria-hidden": "true" }),
            el("span.side-name", hostOf(row) && el("span.dim", `${visible(hostOf(row))}:`), visible(nameOf(row))),
            el("span.side-state", BRIEF.has(state) ? el("span.only-heard", `${state} `) : `${state} `, age),
          ),
      };
    }),
  );
}

const LINKS = {
  opening: ["", "Connecting…"],
  "daemon-away": ["away", "The daemon is away; programs keep running. This page comes back when it runs again; if it was stopped, any command starts it, such as `fairlead ls`."],
  "console-away": ["away", "The console can't be reached. This page comes back when it can be; if it was stopped, `fairlead web` starts it."],
  "signed-out": ["out", "This browser is not let in (any more). Run `fairlead web` on your machine for a new link; a guest asks whoever shared the session for one."],
};

function drawLink() {
  const [kind, words] = LINKS[board.link] ?? ["", board.why];
  banner.hidden = !words;
  banner.className = `banner ${kind}`;
  const more = board.why && board.link !== "here" && !words.toLowerCase().includes(board.why.toLowerCase()) ? ` (${visible(board.why)})` : "";
  banner.textContent = words ? words + more : "";
  document.body.classList.toggle("is-away", kind === "away");
}

function drawWhose() {
  const place = document.getElementById("whose");
  const { role, share } = board.me;
  fill(
    place,
    share && el("span.chip", `shared: ${visible(share.name ?? "one session")}, ${role}`),
    notifyButton(drawWhose),
  );
}

function toggleTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  remember("theme", theme);
  dispatchEvent(new Event("theme"));
}

// Ages that stand in the page grow.
function tick() {
  for (const node of document.querySelectorAll("[data-since]")) node.textContent = since(Number(node.dataset.since));
  drawSide();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, .xterm, dialog")) return;
  if (document.querySelector(".terminal.is-mine")) return; // somebody writes there: a key beside it leads nowhere
  if (event.key === "q") {
    event.preventDefault();
    return toQuestion();
  }
  const view = { i: "inbox", s: "sessions", r: "reports", h: "health" }[event.key];
  if (view && (board.isOwner || view === "inbox" || view === "sessions")) location.hash = `#/${view}`;
  else if (event.key === "/") document.querySelector("main input[type=search]")?.focus();
  else return;
  event.preventDefault();
}

// To the first question: of the session that is shown, else of the inbox.
async function toQuestion() {
  if (!main.querySelector(".question")) {
    location.hash = "#/inbox";
    await route();
  }
  main.querySelector(".question")?.focus();
}

board.addEventListener("link", drawLink);
board.addEventListener("link", drawWhose);
board.addEventListener("questions", drawNav);
board.addEventListener("questions", () => clearNotices().catch(() => {}));
board.addEventListener("sessions", drawSide);
board.addEventListener("sessions", drawNav);
board.addEventListener("asked", (event) => announce(event.detail));
addEventListener("hashchange", route);
addEventListener("keydown", keys);
document.getElementById("theme").addEventListener("click", toggleTheme);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
setInterval(tick, TICK);

if ("serviceWorker" in navigator && recall("service-worker") !== "off") {
  navigator.serviceWorker.register("/sw.js").catch(() => {});
  navigator.serviceWorker.addEventListener("message", (event) => {
    if (typeof event.data?.go === "string" && event.data.go.startsWith("#/")) location.hash = event.data.go;
  });
}

drawLink();
route();
await board.begin();
drawNav();
drawWhose();
lookWhatIsSeen();
renewPush().then(drawWhose);
if (board.me.share && !location.hash) location.replace(`#/s/${encodeURIComponent(board.me.share.session)}`);

// A press on a button takes the focus from no text: what shows only while there is none would move the button away.
document.addEventListener("mousedown", (event) => {
  if (event.target.closest?.("main.view-s button") && document.activeElement?.matches("textarea")) event.preventDefault();
});
