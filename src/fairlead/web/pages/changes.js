// What a session has changed in its directory since it began there: commits, files, and the patch.

import { op } from "./api.js";
import { board } from "./board.js";
import { fileDiff, filesOf } from "./diff.js";
import { button, el, fill, keep } from "./dom.js";
import { counted, place, visible } from "./words.js";

export function changesPane(row) {
  const body = el("div", el("p.empty", "…"));
  const other = el("select", { "aria-label": "Compare with", onchange: load });
  const acts = el("span.changes-acts");
  const bar = el("div.changes-bar", { hidden: !board.isOwner }, el("label.picker", el("span", "Compare with"), other), el("span.grow"), acts);
  const node = el("section.changes", { "aria-label": `Changes of ${visible(row.name)}` }, bar, body);
  let turn = 0;

  async function load() {
    const mine = (turn += 1);
    const closed = new Set([...body.querySelectorAll("details.file:not([open]) .file-path")].map((each) => each.textContent));
    try {
      const found = await op("session_diff", { session_id: row.id, ...(other.value ? { other: other.value } : {}) });
      if (mine !== turn) return;
      fill(body, shown(found, load));
      for (const each of body.querySelectorAll("details.file")) if (closed.has(each.querySelector(".file-path").textContent)) each.open = false;
    } catch (refused) {
      if (mine === turn) fill(body, el("p.empty", visible(refused.message)), el("p", button("Look again", load, { class: "quiet" })));
    }
  }

  // Whom it can be compared with, and what can be done with it, changes as sessions come and go.
  function drawBar() {
    const now = board.sessions.get(row.id) ?? row;
    const others = [...board.sessions.values()].filter((each) => each.id !== row.id && each.project !== now.project).sort((a, b) => a.name.localeCompare(b.name));
    if (!other.matches(":focus")) {
      const chosen = other.value;
      fill(other, el("option", { value: "" }, "its beginning"), others.map((each) => el("option", { value: each.id }, visible(each.name))));
      other.value = others.some((each) => each.id === chosen) ? chosen : "";
      other.closest("label").hidden = !others.length;
    }
    keep(acts, [
      { key: "undo", mark: "", make: () => button("Undo turns…", async () => (await import("./work.js")).undoDialog(row, load), { class: "quiet" }) },
      ...(now.worktree ? [{ key: "merge", mark: JSON.stringify([now.worktree.branch, now.worktree.into]), make: () => button(`Merge into ${visible(now.worktree.into ?? "its branch")}…`, async () => (await import("./work.js")).mergeDialog(now, load), { class: "quiet" }) }] : []),
    ]);
  }

  function heard({ detail: { topic, data } }) {
    if (data.session_id === row.id && topic === "sessions/turn-ended") load();
  }

  board.addEventListener("feed", heard);
  if (board.isOwner) board.addEventListener("sessions", drawBar);
  return {
    node,
    begin() {
      if (board.isOwner) drawBar();
      load();
    },
    close() {
      turn += 1;
      board.removeEventListener("feed", heard);
      board.removeEventListener("sessions", drawBar);
    },
  };
}

function shown(found, again) {
  const files = filesOf(found.patch ?? "");
  const base = { commit: "the commit", worktree: "its worktree was made at", nothing: "nothing was committed" }[found.since] ?? "the beginning";
  const head = el(
    "header.changes-head",
    el("strong", counted(found.total, "file")),
    el("span.counts", el("span.plus", `+${found.insertions}`), el("span.minus", `−${found.deletions}`)),
    el("span.dim", found.other ? `${visible(found.session.name)} → ${visible(found.other.name)}` : `since ${base}${found.base ? ` ${found.base.slice(0, 10)}` : ""}`),
    found.branch && el("span.branch", visible(found.branch)),
    el("span.path", place(found.session?.project ?? "")),
    el("span.grow"),
    button("Look again", again, { class: "quiet" }),
  );
  const commits = (found.commits ?? []).length > 0 && el("ul.commits", found.commits.map((each) => el("li", commitWords(each))));
  const patch = new Map(files.map((each) => [each.path, each]));
  const rest = found.files.filter((each) => !patch.has(each.path));
  return [
    head,
    commits,
    !found.total && el("p.empty", found.other ? "There is no difference." : "Nothing has changed."),
    files.map(fileDiff),
    rest.length > 0 && el("ul.rows", rest.map((each) => el("li", el("code", visible(each.path)), " ", el("span.dim", visible(each.status ?? ""))))),
    found.cut && el("p.warning", "The patch is longer than what is shown here; `fairlead diff` has all of it."),
    (found.left_out ?? []).length > 0 && el("p.dim", `Left out: ${found.left_out.map((each) => visible(typeof each === "string" ? each : each.path ?? JSON.stringify(each))).join(", ")}`),
  ];
}

function commitWords(commit) {
  if (typeof commit === "string") return visible(commit);
  const { id = commit.commit ?? "", subject = commit.title ?? "" } = commit;
  return [el("code", visible(String(id).slice(0, 10))), " ", visible(subject)];
}
