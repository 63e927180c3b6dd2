// How the daemon and this console are, and who is let in: browsers, shared links, and who waits at the door.

import { get, op, post } from "./api.js";
import { board, hostOf } from "./board.js";
import { button, el, fill } from "./dom.js";
import { attempt, note } from "./notices.js";
import { moment, place, since, visible } from "./words.js";

const AGAIN = 10_000;

export function healthView() {
  const checks = el("section", el("p.empty", "…"));
  const visitors = el("section");
  const node = el("div.health", el("h1", "Health"), checks, visitors);
  let timer = 0;

  async function load() {
    clearTimeout(timer);
    await Promise.all([drawChecks(checks), drawVisitors(visitors, load)]);
    timer = setTimeout(() => (document.hidden ? (timer = setTimeout(load, AGAIN)) : load()), AGAIN);
  }

  return { node, begin: load, close: () => clearTimeout(timer) };
}

async function drawChecks(node) {
  try {
    const [health, status] = await Promise.all([op("health"), op("daemon_status")]);
    const bad = health.checks.filter((each) => each.status !== "healthy");
    const good = health.checks.filter((each) => each.status === "healthy");
    const wasOpen = node.querySelector("details")?.open;
    fill(
      node,
      el("p.health-line", el(`i.dot.${bad.length ? "waiting" : "done"}`, { "aria-hidden": "true" }), el("strong", visible(health.status)), el("span.dim", `Fairlead ${visible(status.version)}, process ${status.pid}, up ${since(status.started_at)}, ${status.sessions} in terminals, log ${place(status.log_path)}`)),
      bad.length > 0 && el("ul.checks.bad", bad.map(check)),
      el("details", { open: wasOpen ?? true }, el("summary", `${good.length} checks are healthy`), el("ul.checks", good.map(check))),
    );
  } catch (refused) {
    fill(node, el("p.warning", visible(refused.message)));
  }
}

function check(each) {
  return el(`li.${each.status}`, el("strong", visible(each.name)), el("span", visible(each.detail)), each.fix && el("span.fix", visible(each.fix)));
}

async function drawVisitors(node, again) {
  let found;
  try {
    found = await get("/api/web/sessions");
  } catch (refused) {
    fill(node, el("p.dim", visible(refused.message)));
    return;
  }
  if (node.contains(document.activeElement) && document.activeElement.closest("form")) return;
  const revoke = (id, words) => async () => {
    if (!confirm(`End ${words}?`)) return;
    await attempt(() => post("/api/web/revoke", { id }));
    again();
  };
  const confirmOne = (code, allowed) => async () => {
    await attempt(() => post("/api/web/confirm", { code, allowed }));
    again();
  };
  fill(
    node,
    (found.waiting ?? []).length > 0 && [
      el("h2", "Waits to be let in"),
      el("ul.rows", found.waiting.map((each) => el("li.visitor", el("strong", `Code ${visible(each.code)}`), el("span.dim", `${visible(each.from)} ${visible(each.agent ?? "")}`), button("Let in", confirmOne(each.code, true), { class: "primary" }), button("Refuse", confirmOne(each.code, false), { class: "quiet danger" })))),
    ],
    el("h2", "Browsers and links that are let in"),
    el(
      "ul.rows",
      [...(found.sessions ?? []).map((each) => visitor(each, each.kind, revoke)), ...(found.shares ?? []).map((each) => visitor(each, "link", revoke))],
    ),
    shareForm(again),
  );
}

function visitor(each, kind, revoke) {
  const what = { token: "token", browser: each.device || "browser" }[each.kind] ?? kind;
  const times = [each.since && `since ${moment(each.since)}`, each.until && `until ${moment(each.until)}`, each.last && `last seen ${since(each.last)} ago`].filter(Boolean);
  return el(
    "li.visitor",
    el("strong", visible(what)),
    each.kind === "token" && el("span.chip", visible(each.label || "without a name")),
    el("span.chip", visible(each.role)),
    each.name && el("span.chip", { title: "The shared session" }, visible(each.name)),
    each.own && el("span.chip.own", "this browser"),
    each.used && el("span.dim", "used"),
    el("span.dim", [each.from && visible(each.from), ...times].filter(Boolean).join(", ")),
    button("End", revoke(each.id, each.own ? "the stay of this very browser" : `this ${kind}`), { class: "quiet danger" }),
  );
}

function shareForm(again) {
  const name = el("select", { "aria-label": "Session" }, [...board.sessions.values()].filter((row) => !hostOf(row)).map((row) => el("option", { value: row.name }, visible(row.name))));
  const role = el("select", { "aria-label": "Role" }, el("option", { value: "watcher" }, "may watch"), el("option", { value: "writer" }, "may write and answer"));
  const time = el("select", { "aria-label": "For how long" }, el("option", { value: "3600" }, "for an hour"), el("option", { value: "28800" }, "for 8 hours"), el("option", { value: "86400" }, "for a day"));
  const made = el("p.link-made", { role: "status" });
  async function share(event) {
    event.preventDefault();
    const found = await attempt(() => post("/api/web/share", { name: name.value, role: role.value, seconds: Number(time.value) }));
    if (!found) return;
    const copy = button("Copy", () => attempt(async () => (await navigator.clipboard.writeText(found.link), note("The link is copied."))), { class: "quiet" });
    fill(made, el("code", visible(found.link)), copy, el("span.dim", `works once, within a minute; ends ${moment(found.until)}`));
    copy.focus();
  }
  return el("form.share", { onsubmit: share }, el("h2", "Share one session"), el("div.share-row", name, role, time, el("button", { type: "submit" }, "Make a link")), made);
}
