// The parts of a session, one shown at a time. Each is fetched when it is first wanted.

import { el, fill, keep } from "./dom.js";
import { visible } from "./words.js";

const PANES = {
  terminal: (row) => import("./terminal.js").then((module) => module.terminalPane(row)),
  chat: (row) => import("./chat.js").then((module) => module.chatPane(row)),
  recording: (row) => import("./player.js").then((module) => module.playerPane(row)),
  changes: (row) => import("./changes.js").then((module) => module.changesPane(row)),
  timeline: (row) => import("./timeline.js").then((module) => module.timelinePane(row)),
  reports: (row) => import("./reports.js").then((module) => module.reportsPane(row)),
};
const LABELS = { terminal: "Terminal", chat: "Chat", recording: "Recording", changes: "Changes", timeline: "Timeline", reports: "Reports" };

export class SessionTabs {
  nav = el("nav.tabs", { "aria-label": "Parts of the session" });
  body = el("div.pane");
  #id;
  #shown = "";
  #pane = null;
  #isClosed = false;

  constructor(id) {
    this.#id = id;
  }

  get isOpen() {
    return this.#shown !== "";
  }

  async show(row, wanted) {
    const parts = [...(row.can?.includes("screen") ? ["terminal"] : []), ...(row.can?.includes("chat") ? ["chat"] : []), ...(row.last_recording ? ["recording"] : []), "changes", "timeline", "reports"];
    const part = parts.includes(wanted) ? wanted : parts[0];
    const link = `#/s/${encodeURIComponent(this.#id)}`;
    keep(
      this.nav,
      parts.map((name) => ({
        key: name,
        mark: String(name === part),
        make: () => el("a", { href: `${link}/${name}`, "aria-current": name === part ? "page" : null }, LABELS[name]),
      })),
    );
    if (part === this.#shown) return;
    this.#shown = part;
    this.#pane?.close?.();
    this.#pane = null;
    this.body.className = `pane pane-${part}`;
    try {
      const pane = await PANES[part](row);
      if (this.#shown !== part || this.#isClosed) return pane.close?.();
      this.#pane = pane;
      fill(this.body, pane.node);
      pane.begin?.();
    } catch (fault) {
      fill(this.body, el("p.warning", `This can't be shown: ${visible(fault.message)}`));
    }
  }

  close() {
    this.#isClosed = true;
    this.#pane?.close?.();
  }
}
