// How this browser tells a person of questions: by web push, also while no page is open; or, where that is not
// possible, by the page itself while it is open in the background. Says which of them it is, and ends it.

import { get, post } from "./api.js";
import { board } from "./board.js";
import { button, el, fill } from "./dom.js";
import { attempt, mayNotify, note } from "./notices.js";
import { recall, remember } from "./remembered.js";
import { visible } from "./words.js";

const WAIT = 10_000;
const WAY = "notify"; // what is remembered: push, page, off

export const notifyWay = () => (mayNotify() ? recall(WAY) : "off");

// Why this browser shows no notifications at all; empty if it may.
function bar() {
  if (!isSecureContext) return "Browsers allow notifications only over https, or at localhost of this machine.";
  if (!("Notification" in window)) return "This browser has no notifications; an iPhone has them once the console is on its home screen.";
  if (Notification.permission === "denied") return "This browser does not allow notifications from here; its settings for this site do.";
  return "";
}

// The bytes of a key in base64url.
function bytesOf(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (each) => each.charCodeAt(0));
}

const isSame = (one, other) => one?.byteLength === other.byteLength && new Uint8Array(one).every((byte, at) => byte === other[at]);

function within(milliseconds, promise, why) {
  return Promise.race([promise, new Promise((_, reject) => setTimeout(() => reject(new Error(why)), milliseconds))]);
}

// Why the browser has no push; empty if it has.
function lack() {
  if (!isSecureContext) return "browsers allow push only over https, or at localhost of this machine";
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) return "this browser has no web push";
  return "";
}

// Subscribe, or keep the subscription that there is. Throws with the reason if that can't be.
async function subscribe() {
  const missing = lack();
  if (missing) throw new Error(missing);
  const about = await get("/api/push");
  if (!about.possible) throw new Error(about.why);
  const key = bytesOf(about.key);
  const registration = await within(WAIT, navigator.serviceWorker.ready, "the page's service worker does not start");
  let subscription = await registration.pushManager.getSubscription();
  if (subscription && !isSame(subscription.options?.applicationServerKey, key)) {
    await subscription.unsubscribe();
    subscription = null;
  }
  if (subscription && about.subscribed) return;
  subscription ??= await within(
    3 * WAIT,
    registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }),
    "the browser's push service does not answer",
  );
  await post("/api/push/subscribe", { ...subscription.toJSON(), key: about.key });
}

async function unsubscribe() {
  const registration = await navigator.serviceWorker?.getRegistration();
  await (await registration?.pushManager?.getSubscription())?.unsubscribe().catch(() => {});
  await post("/api/push/unsubscribe");
}

// Begin to tell; returns why it is not by push.
async function begin() {
  if ((await Notification.requestPermission()) !== "granted") throw new Error(bar() || "Notifications were not allowed.");
  try {
    await subscribe();
    remember(WAY, "push");
    remember("no-push", "");
  } catch (refused) {
    remember(WAY, "page");
    remember("no-push", refused.message);
  }
}

async function end() {
  if (recall(WAY) === "push") await attempt(unsubscribe);
  remember(WAY, "off");
}

// A browser that came in again has a new cookie, and its subscription belongs to that from now on.
export async function renewPush() {
  if (board.me.role === "watcher" || notifyWay() !== "push") return;
  try {
    await subscribe();
  } catch (refused) {
    if (refused.isAway || refused.isOut) return;
    remember(WAY, "page");
    remember("no-push", refused.message);
  }
}

// The button in the bar: it begins, or says how it is.
export function notifyButton(redraw) {
  if (board.me.role === "watcher") return null;
  if (bar()) return button("Notify me", () => note(bar()), { class: "quiet" });
  if (notifyWay() === "off") {
    const start = async () => {
      await attempt(begin);
      redraw();
      if (notifyWay() !== "off") explain(redraw);
    };
    return button("Notify me", start, { class: "quiet", title: "Be told of questions while you look elsewhere" });
  }
  const title = notifyWay() === "push" ? "This browser is told of questions by push" : "This page tells of questions while it is open";
  return button("Notified", () => explain(redraw), { class: "quiet", title });
}

// Which way it is, and how to end it.
function explain(redraw) {
  const words = el("div", wordsOf(notifyWay()));
  const stop = async () => {
    await end();
    dialog.close();
    redraw();
  };
  const again = async () => {
    await attempt(begin);
    fill(words, wordsOf(notifyWay()));
    redraw();
  };
  const dialog = el(
    "dialog.notified",
    { "aria-label": "Notifications", onclose: () => dialog.remove() },
    el("form", { method: "dialog" },
      el("h2", "Notifications"),
      words,
      el("div.dialog-buttons", button("Stop", stop, { class: "danger" }), notifyWay() === "page" && button("Try push", again), el("button.primary", { type: "submit" }, "Close")),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}

function wordsOf(way) {
  if (way === "push") {
    return [
      el("p", "By push: this browser is told of questions that nobody has looked at, also while no page of the console is open."),
      el("p.dim", "A message says who asks and leads to the question. It comes after the time of [notify] after_seconds, and not in quiet_hours."),
    ];
  }
  const why = recall("no-push");
  return [
    el("p", "By this page: it shows questions while it is open in the background. When it is closed, nothing is shown."),
    why && el("p.dim", `Push, which needs no open page, is not possible: ${visible(why)}.`),
  ];
}

const known = new Set();

// Take away notifications of questions that this page knew and that wait no more. One that it does not know may be
// newer than what it has fetched.
export async function clearNotices() {
  for (const token of board.questions.keys()) known.add(token);
  if (!board.isLoaded || board.link !== "here") return;
  const over = [...known].filter((token) => !board.questions.has(token));
  if (!over.length) return;
  for (const token of over) known.delete(token);
  const registration = await navigator.serviceWorker?.getRegistration();
  for (const each of (await registration?.getNotifications()) ?? []) {
    if (over.includes(each.tag) || (each.tag === "several" && !board.questions.size)) each.close();
  }
}
