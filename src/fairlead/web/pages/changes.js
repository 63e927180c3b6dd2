// What a session has changed in its directory since it began there: commits, files, and the patch.

import { op } from "./api.js";
import { board } from "./board.js";
import { fileDiff, filesOf } from "./diff.js";
import { button, el, fill } from "./dom.js";
import { counted, place, visible } from "./words.js";

export function changesPane(row) {
  const node = el("section.changes", { "aria-label": `Changes of ${visible(row.name)}` }, el("p.empty", "…"));
  let turn = 0;

  async function load() {
    const mine = (turn += 1);
    const open = new Set([...node.querySelectorAll("details.file:not([open]) .file-path")].map((each) => each.textContent));
    try {
      const found = await op("session_diff", { session_id: row.id });
      if (mine !== turn) return;
      fill(node, shown(found, load));
      for (const each of node.querySelectorAll("details.file")) if (open.has(each.querySelector(".file-path").textContent)) each.open = false;
    } catch (refused) {
      if (mine === turn) fill(node, el("p.empty", visible(refused.message)), el("p", button("Look again", load, { class: "quiet" })));
    }
  }

  function heard({ detail: { topic, data } }) {
    if (data.session_id === row.id && topic === "sessions/turn-ended") load();
  }

  board.addEventListener("feed", heard);
  return {
    node,
    begin: load,
    close() {
      turn += 1;
      board.removeEventListener("feed", heard);
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
    el("span.dim", `since ${base}${found.base ? ` ${found.base.slice(0, 10)}` : ""}`),
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
    !found.total && el("p.empty", "Nothing has changed."),
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
