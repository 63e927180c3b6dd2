// Tells a person of a question while the page is in the background, where the browser may and has no push, and says in
// the page what was done. A notification leads to its question.

import { el } from "./dom.js";
import { recall } from "./remembered.js";
import { oneLine, visible } from "./words.js";

const SHOWN_FOR = 5000;

export const mayNotify = () => "Notification" in window && Notification.permission === "granted" && ["push", "page"].includes(recall("notify"));

export async function announce(question) {
  if (!document.hidden || !mayNotify() || recall("notify") === "push") return; // push says it once
  const title = `${visible(question.session_name || "Fairlead")}: ${oneLine(question.title, 60)}`;
  const options = {
    body: oneLine(question.summary, 300),
    tag: question.token,
    data: { go: `#/inbox/${encodeURIComponent(question.token)}` },
  };
  const registration = await navigator.serviceWorker?.getRegistration();
  if (registration) await registration.showNotification(title, options);
  else new Notification(title, options).onclick = () => (location.hash = options.data.go);
}

// A line at the lower edge for a few seconds.
export function note(text, kind = "") {
  const line = el(`p.note${kind ? `.${kind}` : ""}`, visible(text));
  document.getElementById("notes").append(line);
  setTimeout(() => line.remove(), SHOWN_FOR);
}

// Do something that may be refused, and say so if it is.
export async function attempt(doing) {
  try {
    return await doing();
  } catch (refused) {
    note(refused.message, "warning");
    return undefined;
  }
}
