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
  "markdown.js",
  "miniature.js",
  "notices.js",
  "pictures.js",
  "player.js",
  "prompt_box.js",
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

// A notification leads to its question, in the console that is open or in a new one.
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const go = event.notification.data?.go ?? "#/inbox";
  event.waitUntil(
    self.clients.matchAll({ type: "window", includeUncontrolled: true }).then((windows) => {
      if (!windows.length) return self.clients.openWindow(`/${go}`);
      windows[0].postMessage({ go });
      return windows[0].focus();
    }),
  );
});
