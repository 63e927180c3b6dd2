// What a person does with a session's work from the page: put files back as they were before its last turns, take that
// back, and merge its worktree. Everything that will happen is listed first; the button is there once the end of the
// list has been seen, and what has changed since it was shown is shown again instead of done.

import { op } from "./api.js";
import { button, el, fill } from "./dom.js";
import { note } from "./notices.js";
import { counted, place, visible } from "./words.js";

const SIGNS = { restore: "~", remove: "−", create: "+" };
const WORDS = { restore: "is put back", remove: "is removed", create: "is made again" };

// A dialog whose list is `look()`'s, {rows, notes, refusal, ask, mark}; `act()` does it. `options` are made by the
// caller, and look again when they change.
class Preview {
  #list = el("div.preview-list", { tabindex: "0", role: "region", "aria-label": "What will happen" });
  #fault = el("p.warning", { role: "alert" });
  #button;
  #dialog;
  #mark = "";
  #turn = 0;
  #observer = new IntersectionObserver((entries) => this.#seen(entries), { root: this.#list });

  constructor(title, options, { look, act }) {
    this.look = look;
    this.act = act;
    this.#button = el("button.primary", { type: "submit", disabled: true }, "…");
    const form = el(
      "form",
      { method: "dialog", onsubmit: (event) => (event.preventDefault(), this.#do()) },
      el("h2", title),
      options,
      this.#list,
      this.#fault,
      el("div.dialog-buttons", button("Cancel", () => this.#dialog.close()), this.#button),
    );
    this.#dialog = el("dialog.preview", { "aria-label": title, onclose: () => (this.#observer.disconnect(), this.#dialog.remove()) }, form);
    document.body.append(this.#dialog);
    this.#dialog.showModal();
    this.show();
  }

  // Look what would be done, and show all of it.
  async show(why = "") {
    const turn = (this.#turn += 1);
    this.#button.disabled = true;
    fill(this.#fault, why);
    try {
      const found = await this.look();
      if (turn === this.#turn) this.#draw(found);
    } catch (refused) {
      if (turn !== this.#turn) return;
      fill(this.#list);
      fill(this.#button, "…");
      fill(this.#fault, visible(refused.message));
    }
  }

  #draw(found) {
    this.#mark = found.mark;
    this.#observer.disconnect();
    const end = el("p.preview-end");
    fill(this.#list, el("ul.rows", found.rows), found.notes.map((each) => el("p.dim", visible(each))), end);
    fill(this.#button, found.ask);
    this.#list.scrollTop = 0;
    if (found.refusal) fill(this.#fault, `It would be refused: ${visible(found.refusal)}`);
    else if (found.rows.length) this.#observer.observe(end);
  }

  #seen(entries) {
    if (entries.some((each) => each.isIntersecting)) this.#button.disabled = false;
  }

  async #do() {
    if (this.#button.disabled) return;
    this.#button.disabled = true;
    try {
      if ((await this.look()).mark !== this.#mark) return this.show("It has changed meanwhile: look again.");
      note(await this.act());
      this.#dialog.close();
    } catch (refused) {
      fill(this.#fault, visible(refused.message));
    }
  }
}

// --- undo ---------------------------------------------------------------------------------------------------

export function undoDialog(row, done) {
  const turns = el("input", { type: "number", min: "1", max: "100", value: "1", onchange: () => preview.show() });
  const redo = el("input", { type: "checkbox", onchange: () => ((turns.disabled = redo.checked), preview.show()) });
  const force = el("input", { type: "checkbox", onchange: () => preview.show() });
  const options = el(
    "div.preview-options",
    el("label.field", el("span", "Turns"), turns),
    el("label.check", redo, "take the last undo back"),
    el("label.check", force, "also what somebody changed since"),
  );
  const given = () => ({ session_id: row.id, turns: Math.max(1, Math.min(100, Number(turns.value) || 1)), redo: redo.checked });
  const preview = new Preview("Put files back", options, {
    async look() {
      const told = await op("session_undo", { ...given(), dry_run: true });
      const files = counted(told.files.length, "file");
      return {
        rows: told.files.map((each) => undoRow(each, told.top)),
        notes: [
          told.left.length > 0 && `ignored by git before, and left: ${told.left.join(", ")}`,
          told.unrecorded.length > 0 && `changed, not recorded, and left: ${told.unrecorded.join(", ")}`,
          ...told.notes,
          told.others.length > 0 && `worked there meanwhile: ${told.others.join(", ")}`,
        ].filter(Boolean),
        refusal: force.checked ? "" : told.refusal,
        ask: redo.checked ? `Take back, ${files}` : `Put back ${files} of ${counted(told.turns.length, "turn")}`,
        mark: JSON.stringify([told.turns, told.files, told.left, told.unrecorded, told.top]),
      };
    },
    async act() {
      const told = await op("session_undo", { ...given(), force: force.checked });
      done();
      return `${counted(told.files.length, "file")} in ${place(told.top)}: done.`;
    },
  });
}

function undoRow(each, top) {
  return el(
    "li",
    el("span.sign", { "aria-hidden": "true" }, SIGNS[each.action] ?? "·"),
    el("code", { title: visible(`${top}/${each.path}`) }, visible(each.path)),
    el("span.dim", WORDS[each.action] ?? visible(each.action)),
    each.changed_since && el("span.warning", "changed since"),
  );
}

// --- merge --------------------------------------------------------------------------------------------------

export function mergeDialog(row, done) {
  const into = el("input.mono", { value: row.worktree.into ?? "", autocomplete: "off", spellcheck: "false", onchange: () => preview.show() });
  const message = el("input", { autocomplete: "off", placeholder: "what is not committed is committed with this", onchange: () => preview.show() });
  const options = el("div.preview-options", el("label.field", el("span", "Into the branch"), into), el("label.field", el("span", "Message"), message));
  const preview = new Preview(`Merge ${visible(row.worktree.branch)}`, options, {
    async look() {
      const [lost, diff] = await Promise.all([op("worktree_losses", { name: row.id }), op("session_diff", { session_id: row.id, brief: true })]);
      if (lost.worktree.path !== row.worktree.path) throw new Error("this session has another worktree now");
      const needs = lost.changed.length > 0 && !message.value.trim();
      const [open, shown] = [new Set(lost.changed), new Set(diff.files.map((each) => each.path))];
      const more = diff.total - diff.files.length;
      return {
        rows: [
          diff.commits.map((each) => el("li", el("span.sign", "●"), el("code", visible(each.id.slice(0, 10))), visible(each.subject))),
          diff.files.map((each) => el("li", el("span.sign", "~"), el("code", visible(each.path)), el("span.dim", visible(each.status)), open.has(each.path) && el("span.warning", "not committed"))),
          lost.changed.filter((each) => !shown.has(each)).map((each) => el("li", el("span.sign", "+"), el("code", visible(each)), el("span.warning", "not committed"))),
        ].flat(),
        notes: [more > 0 && `and ${counted(more, "file")} more`, `${diff.insertions} lines come, ${diff.deletions} go`].filter(Boolean),
        refusal: needs ? "there are changes that are not committed; give a message" : "",
        ask: `Merge into ${visible(into.value || row.worktree.into)}`,
        mark: JSON.stringify([lost.changed, lost.commits, diff.files, diff.commits, into.value, message.value]),
      };
    },
    async act() {
      const text = message.value.trim();
      const made = await op("worktree_merge", { name: row.id, ...(into.value.trim() ? { into: into.value.trim() } : {}), ...(text ? { message: text } : {}) });
      done();
      return made.merged ? `Merged into ${made.into}: ${counted(made.files, "file")} changed.` : `Nothing to merge: ${made.into} has all of it.`;
    },
  });
}
