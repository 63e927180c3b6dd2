// How numbers, times, paths and foreign texts are written for people.

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

// A text in which nothing hides: characters that move, overwrite or disappear have their code instead.
export function visible(text) {
  return String(text ?? "").replaceAll("\r\n", "\n").replace(CONTROLS, (found) => {
    const code = found.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

export const oneLine = (text, limit = 200) => cut(visible(text).replace(/\s+/g, " ").trim(), limit);

export const cut = (text, limit) => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text);

export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

// How long ago or how long: 5s, 12m, 3h05m, 4d.
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m`;
  if (whole < 36_000) return `${Math.floor(whole / 3600)}h${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}m`;
  if (whole < 172_800) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86_400)}d`;
}

export const now = () => Date.now() / 1000;

export const since = (moment) => (moment ? span(now() - moment) : "");

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

const precise = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

// The time of day, with the day unless it is today's.
export function moment(seconds, isPrecise = false) {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const time = (isPrecise ? precise : clock).format(date);
  return isToday ? time : `${day.format(date)} ${time}`;
}

export function tokens(count) {
  if (!count) return "0";
  if (count < 1000) return String(count);
  if (count < 999_500) return `${(count / 1000).toFixed(count < 9950 ? 1 : 0)}k`;
  return `${(count / 1e6).toFixed(1)}M`;
}

export function money(dollars) {
  if (!(dollars > 0)) return "";
  return dollars < 0.0005 ? "<$0.001" : `$${dollars.toFixed(dollars < 0.1 ? 3 : 2)}`;
}

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${Math.round(count / 1000)} kB`;
  return count < 1e9 ? `${Math.round(count / 1e6)} MB` : `${(count / 1e9).toFixed(1)} GB`;
}

let home = "";

export function setHome(path) {
  home = path ?? "";
}

// A directory, with ~ for one's own.
export function place(path) {
  const shown = visible(path);
  if (!home || home === "/") return shown;
  if (shown === home) return "~";
  return shown.startsWith(`${home}/`) ? `~${shown.slice(home.length)}` : shown;
}

export const homePath = () => home;

// The same the other way: what a person entered, as a path.
export const fullPath = (text) => text.trim().replace(/^~(?=\/|$)/, home || "~").replace(/(.)\/+$/, "$1");

// The ladder of confidence as people read it.
const LADDER = { perfect: "PERFECT", verified: "VERIFIED", partial: "PARTIAL", feedback: "FAILED", failed: "ERROR" };

export const verdictWord = (confidence) => LADDER[confidence] ?? String(confidence ?? "").toUpperCase();
