// Every session as a card: a live miniature of its screen or its last words, what it does and how that is known,
// its verdict, age and place. Filters, search, and a way to start another one.

import { board, byUrgency, hostOf, nameOf, stateOf } from "./board.js";
import { button, el, keep } from "./dom.js";
import { Miniatures } from "./miniature.js";
import { recall, remember } from "./remembered.js";
import { startDialog } from "./start.js";
import { bytes, money, oneLine, place, since, tokens, verdictWord, visible } from "./words.js";

const FILTERS = ["all", "waiting", "done", "working", "idle", "unknown", "ended", "away"];

export function sessionsView() {
  const miniatures = new Miniatures();
  const grid = el("div.cards");
  const search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search sessions", oninput: draw });
  let filter = recall("filter", "all");
  const chips = el("div.filters", { role: "group", "aria-label": "Filter" });
  const head = el(
    "header.view-head",
    el("h1", "Sessions"),
    chips,
    el("span.grow"),
    search,
    board.isOwner && button("New session", () => startDialog(), { class: "primary" }),
  );
  const away = el("ul.hosts-away");
  const node = el("div.sessions", head, away, grid);

  function drawChips(rows) {
    const counts = Object.fromEntries(FILTERS.map((name) => [name, rows.filter((row) => name === "all" || stateOf(row) === name).length]));
    if (!FILTERS.includes(filter)) filter = "all";
    keep(
      chips,
      FILTERS.filter((name) => counts[name] || name === "all" || name === filter).map((name) => ({
        key: name,
        mark: `${counts[name]}${name === filter}`,
        make: () => button(`${name} ${counts[name]}`, () => choose(name), { class: "chip", "aria-pressed": String(name === filter) }),
      })),
    );
  }

  function choose(name) {
    filter = name;
    remember("filter", name);
    draw();
    chips.querySelector("[aria-pressed=true]")?.focus();
  }

  function draw() {
    const all = [...board.sessions.values()];
    drawChips(all);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = all
      .filter((row) => filter === "all" || stateOf(row) === filter)
      .filter((row) => words.every((word) => `${hostOf(row)} ${row.name} ${row.kind} ${row.project} ${row.branch ?? ""} ${row.what} ${row.waits_for}`.toLowerCase().includes(word)))
      .sort(byUrgency);
    const cards = rows.map((row) => ({ key: row.id, mark: markOf(row), make: () => card(row, miniatures) }));
    if (!cards.length) cards.push({ key: "none", mark: `${board.isLoaded}${all.length}`, make: () => none(all.length) });
    const gone = board.hosts.filter((host) => host.state !== "here");
    keep(away, gone.map((host) => ({ key: host.name, mark: JSON.stringify(host), make: () => awayLine(host) })));
    keep(grid, cards);
    miniatures.watch(grid);
  }

  function heard({ detail: { topic, data } }) {
    if (data.session_id && /^sessions\/(state|changed|turn-ended|prompt-started|exited)$/.test(topic)) miniatures.stale(data.session_id);
  }

  board.addEventListener("sessions", draw);
  board.addEventListener("feed", heard);
  return {
    node,
    begin: draw,
    close() {
      board.removeEventListener("sessions", draw);
      board.removeEventListener("feed", heard);
      miniatures.close();
    },
  };
}

const markOf = ({ fetched_at: _, idle: __, cpu_seconds: ___, ...rest }) => JSON.stringify(rest);

function none(count) {
  if (!board.isLoaded) return el("p.empty", "…");
  return el("div.empty", count ? "No session matches." : "No sessions yet. Start one here, or with `fairlead start NAME`.");
}

// A host whose sessions can't be used now.
function awayLine({ name, state, why, seen_at }) {
  const word = state === "connecting" ? "is being connected to" : state === "away" ? "is away" : "can't be used";
  const ago = seen_at ? el("span", { data: { since: seen_at } }, since(seen_at)) : "";
  return el("li.dim", el("strong", visible(name)), ` ${word} `, ago, why ? ` ${oneLine(why, 200)}` : "");
}

export const hostChip = (row) => hostOf(row) && el("span.chip.host", { title: "The host that it is on" }, visible(hostOf(row)));

function card(row, miniatures) {
  const state = stateOf(row);
  const found = row.activity?.evidence;
  const link = `#/s/${encodeURIComponent(row.id)}`;
  return el(
    `article.card.${state}`,
    { "aria-label": `${visible(nameOf(row))}, ${state}` },
    el(
      "header",
      el(`i.dot.${state}`, { "aria-hidden": "true" }),
      el("h2", el("a.card-link", { href: link }, visible(nameOf(row)))),
      hostChip(row),
      el("span.dim", kindOf(row)),
      el("span.grow"),
      verdict(row),
      el("span.state", state, " ", el("span", { data: { since: row.activity?.since || row.started_at } }, since(row.activity?.since || row.started_at))),
    ),
    row.waits_for && el("p.card-question", oneLine(row.waits_for, 240)),
    miniatures.make(row),
    el(
      "footer",
      el("span.path", { title: visible(row.project) }, place(row.project)),
      row.branch && el("span.branch", visible(row.branch)),
      usage(row),
      row.memory && el("span", bytes(row.memory)),
      row.clients > 0 && el("span", `${row.clients} attached`),
    ),
    found && el("p.evidence", { title: "How its state is known" }, evidenceWords(found)),
  );
}

// What an agent has cost and how full its context is, as far as that is known.
export function usage(row) {
  const used = row.context_window > 0 && row.context_tokens > 0 ? row.context_tokens / row.context_window : 0;
  const words = [
    row.cost > 0 ? money(row.cost) : row.tokens > 0 && `${tokens(row.tokens)} tokens`,
    used > 0 && `${Math.max(1, Math.round(100 * used))} % of context`,
  ].filter(Boolean);
  const whole = [row.tokens > 0 && `${row.tokens} tokens`, used > 0 && `${row.context_tokens} of ${row.context_window} in its context`].filter(Boolean);
  return words.length > 0 && el(`span.usage${used > 0.8 ? ".full" : ""}`, { title: whole.join(", ") }, words.join(" · "));
}

// What it is, as `fairlead ls` says it: the program's name too if an agent runs in a terminal.
export const kindOf = (row) => visible([row.kind, row.agent].filter((word, at, all) => word && all.indexOf(word) === at).join(" "));

const SOURCES = { protocol: "the agent itself", hook: "its hook", osc: "its terminal's signals", screen: "its screen", process: "its processes" };

export function evidenceWords({ source, says, words }) {
  const more = words && words !== says ? `: ${oneLine(words, 90)}` : "";
  return `${says}, by ${SOURCES[source] ?? visible(source)}${more}`;
}

export function verdict(row) {
  if (!row.verdict?.confidence) return null;
  const { confidence, stale, summary } = row.verdict;
  return el(`span.verdict.${confidence}${stale ? ".stale" : ""}`, { title: oneLine(summary ?? "", 300) }, verdictWord(confidence), stale ? " (old)" : "");
}
