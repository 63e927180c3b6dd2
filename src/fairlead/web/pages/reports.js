// What verifiers have found: confidence over time, and each report with what it rests on.

import { op } from "./api.js";
import { board } from "./board.js";
import { chart } from "./chart.js";
import { button, el, fill, keep } from "./dom.js";
import { markdown } from "./markdown.js";
import { counted, moment, money, oneLine, place, span, verdictWord, visible } from "./words.js";

const LIMIT = 200;

export function reportsView() {
  const by = el("select", { "aria-label": "Whose reports", onchange: draw }, el("option", { value: "" }, "all projects"));
  const body = el("div");
  const node = el("div.reports", el("header.view-head", el("h1", "Reports"), el("span.grow"), by), body);
  let reports = [];
  let named = "";

  async function load() {
    try {
      ({ reports } = await op("verify_reports", { limit: LIMIT }));
    } catch (refused) {
      fill(body, el("p.empty", visible(refused.message)));
      return;
    }
    drawChoices();
    draw();
  }

  // Names come with the sessions, which may be known later than the reports.
  function renamed() {
    const names = reports.map((each) => nameOf(each.session_id)).join("\n");
    if (names === named) return;
    drawChoices();
    draw();
  }

  function drawChoices() {
    named = reports.map((each) => nameOf(each.session_id)).join("\n");
    const chosen = by.value;
    const projects = [...new Set(reports.map((each) => each.project))].filter(Boolean).sort();
    const sessions = [...new Set(reports.map((each) => each.session_id))];
    fill(
      by,
      el("option", { value: "" }, "all projects"),
      el("optgroup", { label: "Project" }, projects.map((each) => el("option", { value: `p${each}` }, place(each)))),
      el("optgroup", { label: "Session" }, sessions.map((each) => el("option", { value: `s${each}` }, nameOf(each)))),
    );
    by.value = chosen;
  }

  function draw() {
    const [kind, key] = [by.value[0], by.value.slice(1)];
    drawReports(body, reports.filter((each) => !kind || (kind === "p" ? each.project : each.session_id) === key), choose);
  }

  function choose(value) {
    by.value = value;
    draw();
    by.focus();
  }

  const unfollow = followed(load);
  board.addEventListener("sessions", renamed);
  return {
    node,
    begin: load,
    close() {
      board.removeEventListener("sessions", renamed);
      unfollow();
    },
  };
}

export function reportsPane({ id, name }) {
  const node = el("section.reports", { "aria-label": "Reports" }, el("p.empty", "…"));

  async function load() {
    try {
      const { reports } = await op("verify_reports", { session_id: id, limit: LIMIT });
      drawReports(node, reports, null, name);
    } catch (refused) {
      fill(node, el("p.empty", visible(refused.message)));
    }
  }

  return { node, begin: load, close: followed(load) };
}

// Calls `load` when there is another report; returns what ends that.
function followed(load) {
  const heard = ({ detail: { topic } }) => (topic === "sessions/judged" || topic === "verify/report") && load();
  board.addEventListener("feed", heard);
  return () => board.removeEventListener("feed", heard);
}

function nameOf(id) {
  return visible(board.sessions.get(id)?.name ?? id.slice(0, 8));
}

// How each project and each of its sessions stands by its last report; a press shows only its reports.
function standing(newest, choose) {
  const projects = new Map();
  for (const each of newest) {
    const sessions = projects.get(each.project) ?? projects.set(each.project, new Map()).get(each.project);
    sessions.set(each.session_id, [...(sessions.get(each.session_id) ?? []), each]);
  }
  return el(
    "ul.standing",
    { "aria-label": "How projects stand" },
    [...projects].map(([project, sessions]) =>
      el(
        "li",
        button(place(project || "no project"), () => choose(`p${project}`), { class: "quiet standing-project" }),
        [...sessions].map(([id, [last, ...older]]) =>
          el(
            "span.standing-session",
            button(nameOf(id), () => choose(`s${id}`), { class: "quiet" }),
            el(`span.verdict.${last.confidence}${last.stale ? ".stale" : ""}`, { title: oneLine(last.summary, 200) }, verdictWord(last.confidence)),
            el("span.dim", `${moment(last.time)}${older.length ? `, ${counted(older.length, "earlier report")}` : ""}`),
          ),
        ),
      ),
    ),
  );
}

function drawReports(node, reports, choose, name = "NAME") {
  const withSession = Boolean(choose);
  if (!reports.length) {
    fill(node, el("div.empty", el("p", "No reports yet."), el("p.dim", `In a terminal of its own, \`fairlead verify ${visible(name)} -- pytest -q\` checks the work after every turn, for as long as it runs there.`)));
    return;
  }
  const key = (report) => String(report.id);
  const newest = [...reports].sort((a, b) => b.time - a.time);
  let list = node.querySelector(".report-list");
  if (!list) fill(node, el("div.chart-place"), (list = el("div.report-list")));
  const show = (report) => {
    const found = [...list.children].find((each) => each.dataset.key === key(report));
    if (!found) return;
    found.open = true;
    found.scrollIntoView({ block: "center" });
    found.querySelector("summary").focus({ preventScroll: true });
  };
  fill(node.querySelector(".chart-place"), chart(reports, show), el("p.dim", counted(reports.length, "report")), choose && standing(newest, choose));
  keep(list, newest.map((each) => ({ key: key(each), mark: `${each.stale}${withSession && nameOf(each.session_id)}`, make: () => reportRow(each, withSession) })));
}

function reportRow(report, withSession) {
  const body = el("div.report-body");
  const row = el(
    "details.report",
    el(
      "summary",
      el("time", moment(report.time)),
      el(`span.verdict.${report.confidence}${report.stale ? ".stale" : ""}`, verdictWord(report.confidence)),
      withSession && el("span.dim", nameOf(report.session_id)),
      el("span.report-summary", oneLine(report.summary, 240)),
    ),
    body,
  );
  let isAsked = false;
  row.addEventListener("toggle", async () => {
    if (!row.open || isAsked) return;
    isAsked = true;
    fill(body, el("p.dim", "…"));
    let whole = report;
    try {
      whole = { ...report, ...(await op("verify_report", { report: report.id })).report };
    } catch {
      isAsked = false; // what is listed is shown; opened again, it is asked for again
    }
    fill(body, bodyOf(whole));
  });
  return row;
}

function bodyOf(report) {
  const facts = [
    ["session", el("a", { href: `#/s/${encodeURIComponent(report.session_id)}` }, nameOf(report.session_id))],
    ["turn", report.turn],
    ["verifier", report.verifier && `${visible(report.verifier)} (${visible(report.kind)})`],
    ["model", report.model && visible(report.model)],
    ["project", report.project && place(report.project)],
    ["took", report.duration ? span(report.duration) : ""],
    ["cost", money(report.cost)],
    ["changed", report.diff_stat && visible(report.diff_stat)],
    ["tool calls", report.tool_calls || ""],
    ["claimed", report.claimed && `${verdictWord(report.claimed)}, lowered: ${visible(report.capped_by)}`],
    ["tree", report.tree && el("code", visible(report.tree.slice(0, 16)))],
  ].filter(([, value]) => value);
  const commands = report.commands ?? [];
  return [
    report.summary && el("p", visible(report.summary)),
    report.stale && el("p.dim", "The session has had a later turn since."),
    commands.length > 0 &&
      el("ul.evidence-commands", commands.map((each) => el(`li.${each.code === 0 ? "ok" : "fault"}`, el("code", visible(each.command)), each.code === null ? " did not end by itself" : ` exit code ${each.code}`, each.seconds ? el("span.dim", ` ${span(each.seconds)}`) : ""))),
    (report.sections ?? []).map((each) => [el("h4", visible(each.title)), markdown(each.text)]),
    (report.refused ?? []).length > 0 && [el("h4", "Not done, as a verifier may only read"), el("ul", report.refused.map((each) => el("li", visible(each))))],
    el("dl.facts", facts.map(([name, value]) => [el("dt", name), el("dd", value)])),
  ];
}
