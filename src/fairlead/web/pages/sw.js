// Keeps the pages, so that the console opens while its server is away and says so itself. Nothing of sessions is
// kept: what begins with /api is never touched.

const STATIC = "{{static}}";
const CACHE = `pages ${STATIC}`;
const FILES = [
  "api.js",
  "app.js",
  "board.js",
  "cast.js",
  "changes.js",
  "chart.js",
  "chat.js",
  "content.css",
  "diff.js",
  "dom.js",
  "health.js",
  "icons/icon-192.png",
  "icons/icon.svg",
  "inbox.js",
  "keyframe.js",
  "looked.js",
  "markdown.js",
  "miniature.js",
  "notices.js",
  "pictures.js",
  "player.js",
  "prompt_box.js",
  "push.js",
  "question.js",
  "remembered.js",
  "reports.js",
  "screen_look.js",
  "session.js",
  "session_tabs.js",
  "sessions.js",
  "slash.js",
  "start.js",
  "stream.js",
  "strict_styles.js",
  "style.css",
  "terminal.js",
  "terminal_link.js",
  "theme.js",
  "timeline.js",
  "transcript.js",
  "vendor/addon-fit/addon-fit.mjs",
  "vendor/addon-search/addon-search.mjs",
  "vendor/addon-unicode-graphemes/addon-unicode-graphemes.mjs",
  "vendor/addon-webgl/addon-webgl.mjs",
  "vendor/xterm/xterm.css",
  "vendor/xterm/xterm.mjs",
  "words.js",
  "work.js",
];
const SHELL = "/";

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(CACHE)
      .then((cache) => cache.addAll([SHELL, ...FILES.map((file) => `${STATIC}/${file}`)]))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const address = new URL(event.request.url);
  if (event.request.method !== "GET" || address.origin !== location.origin) return;
  if (address.pathname === SHELL) event.respondWith(fetch(event.request).catch(() => caches.match(SHELL)));
  else if (address.pathname.startsWith("/static/")) {
    event.respondWith(caches.match(event.request).then((found) => found ?? fetch(event.request)));
  }
});

// What the console pushes: a question that nobody has looked at, or that one needs nobody any more. There is no
// button that answers: what is to be allowed is shown whole, in the page.
self.addEventListener("push", (event) => event.waitUntil(pushed(event.data)));

async function pushed(data) {
  const { title, body, tag, go, closes } = read(data);
  if (typeof closes === "string") {
    for (const each of await self.registration.getNotifications({ tag: closes })) each.close();
    return;
  }
  await self.registration.showNotification(text(title, 300) || "A question waits for you", {
    body: text(body, 300),
    tag: text(tag, 100) || "several",
    icon: `${STATIC}/icons/icon-192.png`,
    data: { go: text(go, 400) },
    actions: [{ action: "open", title: "Open" }],
  });
}

function read(data) {
  try {
    return Object(data.json());
  } catch {
    return {};
  }
}

const text = (value, limit) => (typeof value === "string" ? value.slice(0, limit) : "");

// The browser has got another subscription by itself.
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renewed(event)));

async function renewed({ oldSubscription, newSubscription }) {
  const options = oldSubscription?.options;
  const made = newSubscription ?? (options && (await self.registration.pushManager.subscribe(options)));
  if (!made) return;
  const headers = { "content-type": "application/json" };
  await fetch("/api/push/subscribe", { method: "POST", headers, body: JSON.stringify(made.toJSON()) });
}

// A notification leads to its question, in the console that is open or in a new one.
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const go = event.notification.data?.go;
  event.waitUntil(opened(typeof go === "string" && go.startsWith("#/") ? go : "#/inbox"));
});

async function opened(go) {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const pages = windows.filter((each) => new URL(each.url).pathname === SHELL);
  const page = pages.find((each) => each.visibilityState === "visible") ?? pages[0];
  if (!page) return self.clients.openWindow(`/${go}`);
  page.postMessage({ go });
  return page.focus();
}
