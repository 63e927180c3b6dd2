// What a person does with a session's work from the page: put files back as they were before its last turns, take that
// back, and merge its worktree. Everything that will happen is listed first; the button is there once the end of the
// list has been seen. What is agreed to is named by the digest of the look: the daemon refuses if anything that it
// covers is different by then, and the new list is shown.

import { op } from "./api.js";
import { button, el, fill } from "./dom.js";
import { note } from "./notices.js";
import { counted, place, visible } from "./words.js";

const SIGNS = { restore: "~", remove: "−", create: "+" };
const TYPED = 300; // milliseconds after the last key in a field
const WORDS = { restore: "is put back", remove: "is removed", create: "is made again" };

// A dialog whose list is `look()`'s, {rows, notes, refusal, ask, act}; `act()` does what was shown, and nothing else.
// `options` are made by the caller, and look again when they change.
class Preview {
  #list = el("div.preview-list", { tabindex: "0", role: "region", "aria-label": "What will happen" });
  #fault = el("p.warning", { role: "alert" });
  #button;
  #dialog;
  #found = null;
  #turn = 0;
  #timer = 0;
  #observer = new IntersectionObserver((entries) => this.#seen(entries), { root: this.#list });

  constructor(title, options, look) {
    this.look = look;
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
    this.#dialog = el("dialog.preview", { "aria-label": title, onclose: () => this.#closed() }, form);
    document.body.append(this.#dialog);
    this.#dialog.showModal();
    this.show();
  }

  // Look again while somebody types, and do nothing until that is shown.
  typed() {
    this.#turn += 1;
    this.#button.disabled = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.show(), TYPED);
  }

  // Look what would be done, and show all of it.
  async show(why = "") {
    const turn = (this.#turn += 1);
    clearTimeout(this.#timer);
    this.#button.disabled = true;
    this.#observer.disconnect();
    fill(this.#fault, why);
    try {
      const found = await this.look();
      if (turn === this.#turn) this.#draw(found, why);
    } catch (refused) {
      if (turn !== this.#turn) return;
      fill(this.#list);
      fill(this.#button, "…");
      fill(this.#fault, visible(refused.message));
    }
  }

  #draw(found, why) {
    this.#found = found;
    const end = el("p.preview-end");
    fill(this.#list, el("ul.rows", found.rows), found.notes.map((each) => el("p.dim", visible(each))), end);
    fill(this.#button, found.ask);
    this.#list.scrollTop = 0;
    if (found.refusal) fill(this.#fault, [why, `It would be refused: ${visible(found.refusal)}`].filter(Boolean).join(" "));
    else if (found.rows.length) this.#observer.observe(end);
  }

  #seen(entries) {
    if (entries.some((each) => each.isIntersecting)) this.#button.disabled = false;
  }

  #closed() {
    clearTimeout(this.#timer);
    this.#turn += 1;
    this.#observer.disconnect();
    this.#dialog.remove();
  }

  async #do() {
    if (this.#button.disabled) return;
    this.#button.disabled = true;
    try {
      note(await this.#found.act());
      this.#dialog.close();
    } catch (refused) {
      this.show(visible(refused.message)); // as it is now: the look was another, or it can't be done
    }
  }
}

// --- undo ---------------------------------------------------------------------------------------------------

export function undoDialog(row, done) {
  const turns = el("input", { type: "number", min: "1", max: "100", value: "1", oninput: () => preview.typed() });
  const redo = el("input", { type: "checkbox", onchange: () => ((turns.disabled = redo.checked), preview.show()) });
  const force = el("input", { type: "checkbox", onchange: () => preview.show() });
  const options = el(
    "div.preview-options",
    el("label.field", el("span", "Turns"), turns),
    el("label.check", redo, "redo: reverse the last undo"),
    el("label.check", force, "also what somebody changed since"),
  );
  const given = () => ({ session_id: row.id, turns: Math.max(1, Math.min(100, Number(turns.value) || 1)), redo: redo.checked });
  const preview = new Preview("Put files back", options, async () => {
    const asked = { ...given(), force: force.checked };
    const told = await op("session_undo", { ...asked, force: false, dry_run: true });
    const files = counted(told.files.length, "file");
    return {
      rows: told.files.map((each) => undoRow(each, told.top)),
      notes: [
        told.left.length > 0 && `ignored by git before, and left: ${told.left.join(", ")}`,
        told.unrecorded.length > 0 && `changed, not recorded, and left: ${told.unrecorded.join(", ")}`,
        ...told.notes,
        told.others.length > 0 && `worked there meanwhile: ${told.others.join(", ")}`,
        asked.force && told.refusal && `done all the same: ${told.refusal}`,
      ].filter(Boolean),
      refusal: asked.force ? "" : told.refusal,
      ask: asked.redo ? `Take back, ${files}` : `Put back ${files} of ${counted(told.turns.length, "turn")}`,
      async act() {
        await op("session_undo", { ...asked, digest: told.digest });
        done();
        return `${files} in ${place(told.top)}: done.`;
      },
    };
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
  const into = el("input.mono", { value: row.worktree.into ?? "", autocomplete: "off", spellcheck: "false", oninput: () => preview.typed() });
  const message = el("input", { autocomplete: "off", placeholder: "what is not committed is committed with this", oninput: () => preview.typed() });
  const options = el("div.preview-options", el("label.field", el("span", "Into the branch"), into), el("label.field", el("span", "Message"), message));
  const preview = new Preview(`Merge ${visible(row.worktree.branch)}`, options, async () => {
    const [branch, text] = [into.value.trim(), message.value.trim()];
    const asked = { name: row.id, ...(branch ? { into: branch } : {}), ...(text ? { message: text } : {}) };
    const would = await op("worktree_merge_preview", asked);
    if (would.worktree.path !== row.worktree.path) throw new Error("this session has another worktree now");
    const open = new Set(would.uncommitted);
    const more = [counted(would.total - would.files.length, "file"), counted(would.ahead - would.commits.length, "commit")];
    const needs = would.uncommitted.length > 0 && !text ? "there are changes that are not committed; give a message" : "";
    const isWhole = would.total === would.files.length && would.ahead === would.commits.length;
    return {
      rows: [
        would.commits.map((each) => el("li", el("span.sign", "●"), el("code", visible(each.id.slice(0, 10))), visible(each.subject))),
        would.files.map((each) => el("li", el("span.sign", "~"), el("code", visible(each.path)), el("span.dim", visible(each.status)), open.has(each.path) && el("span.warning", "not committed"))),
      ].flat(),
      notes: [`${counted(would.insertions, "line")} added, ${would.deletions} removed`],
      refusal: needs || would.refusal || (isWhole ? "" : `there are ${more.join(" and ")} more than can be looked at here; use fairlead worktree merge`),
      ask: `Merge into ${visible(would.into)}`,
      async act() {
        const made = await op("worktree_merge", { ...asked, digest: would.digest });
        done();
        return made.merged ? `Merged into ${made.into}: ${counted(made.files, "file")} changed.` : `Nothing to merge: ${made.into} has all of it.`;
      },
    };
  });
}
