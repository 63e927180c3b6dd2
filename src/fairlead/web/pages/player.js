// Plays a session's recording as it was printed. Jumps start at the last picture before them that was kept; the file
// is fetched in blocks, and pictures are few, so a recording of any length takes no more memory.

import { op } from "./api.js";
import { Cast } from "./cast.js";
import { button, el, fill } from "./dom.js";
import { Tracked, keyframe } from "./keyframe.js";
import { recall, remember } from "./remembered.js";
import { FONT, drawOnGraphics, theme } from "./screen_look.js";
import { install } from "./strict_styles.js";
import { moment, oneLine, visible } from "./words.js";
import { Terminal } from "./vendor/xterm/xterm.mjs";
import { FitAddon } from "./vendor/addon-fit/addon-fit.mjs";
import { UnicodeGraphemesAddon } from "./vendor/addon-unicode-graphemes/addon-unicode-graphemes.mjs";

install();

const [SMALLEST, USUAL] = [5, 13];
const SPEEDS = [0.5, 1, 2, 4, 8, 16];
const LONGEST_PAUSE = 1; // seconds that a pause lasts if pauses are cut
const STEP = 5; // seconds of the arrow keys
const AT_ONCE = 256 * 1024; // characters that are drawn before the page has its turn
const BETWEEN_PICTURES = 1024 * 1024; // bytes of the file, at least
const MOST_PICTURES = 48;
const MOST_KEPT = 24 * 1024 * 1024; // characters of all pictures
const MOST_TURNS = 200;
const SCROLLBACK = 1000;
const SHOW_PROGRESS = 300; // milliseconds after which a jump says how far it is

export function playerPane(row) {
  const cast = new Cast(`/api/recordings/${encodeURIComponent(row.id)}`);
  const screen = el("div.terminal-screen");
  const cover = el("div.terminal-cover", { role: "status", hidden: true });
  const play = button("Play", toggle, { class: "primary", disabled: true });
  const slider = el("input.player-slider", { type: "range", min: "0", max: "0", step: "0.1", value: "0", "aria-label": "Time in the recording", oninput: () => seek(Number(slider.value)) });
  const ticks = el("div.player-ticks", { "aria-hidden": "true" });
  const clock = el("span.player-clock", "0:00");
  const speed = el("select", { "aria-label": "Speed", onchange: () => setSpeed(Number(speed.value)) }, SPEEDS.map((each) => el("option", { value: each, selected: each === 1 }, `${each}×`)));
  const cuts = el("input", { type: "checkbox", checked: recall("cut-pauses", "on") === "on", onchange: () => (remember("cut-pauses", cuts.checked ? "on" : "off"), again()) });
  const marks = el("select", { "aria-label": "Go to", hidden: true, onchange: () => marks.value && (seek(Number(marks.value)), (marks.value = "")) });
  const bar = el(
    "div.terminal-bar.player-bar",
    play,
    clock,
    el("div.player-track", slider, ticks),
    speed,
    el("label.check", cuts, "cut pauses"),
    marks,
    el("a.button.quiet", { href: `/api/recordings/${encodeURIComponent(row.id)}`, download: `${row.name}.cast` }, "Download"),
  );
  const room = el("div.terminal-room", screen, cover);
  const node = el("section.terminal.player", { "aria-label": `Recording of ${visible(row.name)}`, tabindex: "0", onkeydown: keys }, room, bar);

  const terminal = new Terminal({ allowProposedApi: true, disableStdin: true, fontFamily: FONT, fontSize: USUAL, linkHandler: { activate() {} }, minimumContrastRatio: 4.5, scrollback: SCROLLBACK, theme: theme() });
  const fit = new FitAddon();
  const tracked = new Tracked(terminal);
  const closing = new AbortController();
  let reader = null;
  let ahead = null; // the event that comes next, if it was read
  let time = 0;
  let isPlaying = false;
  let isWanted = false; // to be played as soon as it can be
  let isBroken = false;
  let pace = 1;
  let pictures = []; // {time, at, cols, rows, text}, the oldest first
  let turn = 0; // of playing or jumping: a new one ends the others
  let jumping = null; // where to, while it goes on

  async function begin() {
    terminal.loadAddon(fit);
    terminal.open(screen);
    try {
      terminal.loadAddon(new UnicodeGraphemesAddon());
    } catch {
      // widths as xterm.js has them by itself
    }
    drawOnGraphics(terminal);
    observer.observe(room);
    const now = document.activeElement;
    if (!now || now === document.body || now.closest("#main, nav.tabs") || now.id === "main") node.focus({ preventScroll: true });
    say("…");
    try {
      await cast.open(closing.signal);
      rewind();
      say("");
      measured();
      showMarks();
      await seek(0);
      play.disabled = isBroken;
      if (isWanted && !isBroken) start();
    } catch (fault) {
      failed(fault);
    }
  }

  function failed(fault) {
    if (closing.signal.aborted) return;
    isBroken = true;
    play.disabled = true;
    stop();
    say(`This can't be played: ${visible(fault.message)}`);
  }

  function say(words) {
    cover.hidden = !words;
    fill(cover, words);
  }

  // --- size -------------------------------------------------------------------------------------------------

  const observer = new ResizeObserver(() => adjust());

  // All of the recorded size is seen, as far as letters can be small.
  function adjust() {
    if (!screen.isConnected || !screen.clientWidth) return;
    const found = fit.proposeDimensions();
    if (!found || !Number.isFinite(found.cols)) return;
    const now = terminal.options.fontSize;
    const fits = Math.min((now * (found.cols + 0.5)) / terminal.cols, (now * (found.rows + 0.5)) / terminal.rows);
    const chosen = Math.max(SMALLEST, Math.min(USUAL, Math.floor(fits * 2) / 2));
    if (chosen !== now) terminal.options.fontSize = chosen;
  }

  function sized(cols, rows) {
    if (terminal.cols === cols && terminal.rows === rows) return;
    terminal.resize(cols, rows);
    adjust();
  }

  // --- drawing ----------------------------------------------------------------------------------------------

  const written = (text) => new Promise((done) => terminal.write(text, done));

  function rewind() {
    terminal.reset();
    tracked.reset();
    sized(cast.header.cols, cast.header.rows);
    reader = cast.reader();
    [ahead, time] = [null, 0];
  }

  async function peek() {
    ahead ??= await reader.next(closing.signal);
    return ahead;
  }

  // Draw all events up to a moment, and no more at once than the page can take. True if that was all, false if it
  // is to be asked again.
  async function draw(until) {
    let text = "";
    for (;;) {
      const event = await peek();
      if (!event || event.time > until) break;
      ahead = null;
      time = event.time;
      cast.duration = Math.max(cast.duration, time);
      if (event.kind === "o") text += event.data;
      const size = event.kind === "r" && event.data.match(/^(\d{1,4})x(\d{1,4})$/);
      if (size) {
        await written(text);
        text = "";
        sized(within(size[1]), within(size[2]));
      }
      const isDue = event.at - (pictures.at(-1)?.at ?? cast.begin) > spacing();
      if (isDue || text.length > AT_ONCE) {
        await written(text);
        if (isDue) picture(event.at);
        return false;
      }
    }
    if (text) await written(text);
    return true;
  }

  const spacing = () => Math.max(BETWEEN_PICTURES, cast.size / MOST_PICTURES);
  const within = (text) => Math.min(1000, Math.max(2, Number(text)));

  function picture(at) {
    pictures.push({ time, at, cols: terminal.cols, rows: terminal.rows, text: keyframe(terminal, tracked) });
    while (pictures.length > 2 * MOST_PICTURES || pictures.reduce((sum, each) => sum + each.text.length, 0) > MOST_KEPT) pictures = pictures.filter((_, number) => number % 2 === 1);
  }

  // --- jumping ----------------------------------------------------------------------------------------------

  function seek(to) {
    const goal = Math.max(0, Math.min(cast.duration, to));
    return jump(goal).then(() => isPlaying && jumping === null && run());
  }

  async function jump(goal) {
    const mine = (turn += 1);
    jumping = goal;
    show();
    await last; // what is being drawn now ends first
    if (mine !== turn) return;
    last = go(goal, mine).catch(failed);
    await last;
    if (mine !== turn || isBroken) return;
    jumping = null;
    say("");
    show();
  }

  let last = Promise.resolve();

  async function go(goal, mine) {
    const known = pictures.findLast((each) => each.time <= goal);
    if (goal < time || (known && known.at > reader.at)) {
      if (known) {
        terminal.reset();
        tracked.reset();
        sized(known.cols, known.rows);
        await written(known.text);
        reader = cast.reader(known.at, known.time);
        [ahead, time] = [null, known.time];
      } else {
        rewind();
      }
    }
    const [from, began] = [time, performance.now()];
    while (mine === turn && !closing.signal.aborted && !(await draw(goal))) {
      if (performance.now() - began > SHOW_PROGRESS) say(`Reading … ${Math.floor((100 * (time - from)) / Math.max(0.001, goal - from))} %`);
      await new Promise((done) => setTimeout(done));
    }
    if (mine === turn) time = Math.max(time, goal);
  }

  // --- playing ----------------------------------------------------------------------------------------------

  function toggle() {
    if (isPlaying) stop();
    else start();
  }

  async function start() {
    isPlaying = true;
    showPlaying();
    if (time >= cast.duration - 0.05) {
      await cast.measure(closing.signal).catch(() => {});
      measured();
      if (time >= cast.duration - 0.05) return seek(0);
    }
    if (isPlaying && jumping === null) run();
  }

  function stop() {
    isPlaying = false;
    if (jumping === null) turn += 1;
    showPlaying();
  }

  // The clock begins anew: after a jump, or when the pace has changed.
  function again() {
    if (isPlaying && jumping === null) run();
  }

  async function run() {
    const mine = (turn += 1);
    let [from, at] = [performance.now(), time];
    const playing = () => mine === turn && isPlaying && !closing.signal.aborted;
    const step = async () => {
      while (playing()) {
        const now = at + ((performance.now() - from) / 1000) * pace;
        const event = await peek();
        if (!event) break;
        if (cuts.checked && event.time - time > LONGEST_PAUSE && event.time - now > LONGEST_PAUSE * pace) {
          [from, at] = [performance.now(), event.time - LONGEST_PAUSE * pace];
          time = Math.max(time, at);
        }
        await draw(Math.max(time, at + ((performance.now() - from) / 1000) * pace));
        time = Math.max(time, Math.min(cast.duration, at + ((performance.now() - from) / 1000) * pace));
        show();
        await new Promise((done) => requestAnimationFrame(done));
      }
      if (playing()) ended();
    };
    await last;
    if (!playing()) return;
    last = step().catch(failed);
  }

  function ended() {
    time = cast.duration;
    isPlaying = false;
    showPlaying();
    show();
  }

  function setSpeed(value) {
    pace = value;
    speed.value = String(value);
    again();
  }

  // The next event, while nothing is played.
  async function next() {
    if (isPlaying || jumping !== null) return;
    const found = last.then(peek).catch(failed);
    last = found;
    const event = await found;
    if (event) seek(event.time);
  }

  // --- what is shown of it ----------------------------------------------------------------------------------

  function measured() {
    slider.max = String(cast.duration);
    show();
  }

  function show() {
    const at = jumping ?? time;
    if (Number(slider.max) < cast.duration) slider.max = String(cast.duration);
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", `${clockOf(at)} of ${clockOf(cast.duration)}`);
    clock.textContent = `${clockOf(at)} / ${clockOf(cast.duration)}`;
  }

  function showPlaying() {
    play.textContent = isPlaying ? "Pause" : "Play";
  }

  // Turns and questions that lie in the recording.
  async function showMarks() {
    const found = await op("timeline", { session_id: row.id, limit: MOST_TURNS }).catch(() => ({ turns: [] }));
    const shown = [];
    for (const each of found.turns) {
      if (each.began) shown.push([each.began, "turn", `turn ${each.number}: ${oneLine(each.prompt ?? "", 60)}`]);
      for (const step of each.steps ?? []) {
        if (step.at && (step.what === "question" || step.what === "check")) shown.push([step.at, step.what, `${step.what}: ${oneLine(step.text || step.title || "", 60)}`]);
      }
    }
    const inside = shown.map(([at, ...rest]) => [at - cast.header.timestamp, ...rest]).filter(([at]) => at >= 0 && at <= cast.duration).sort(([a], [b]) => a - b);
    if (!inside.length || closing.signal.aborted) return;
    fill(marks, el("option", { value: "" }, "Go to…"), inside.map(([at, , words]) => el("option", { value: at }, `${clockOf(at)} ${words}`)));
    marks.hidden = false;
    fill(ticks, inside.map(([at, kind]) => placed(el(`i.tick-${kind}`), at / Math.max(0.001, cast.duration))));
    clock.title = moment(cast.header.timestamp);
  }

  function placed(mark, share) {
    mark.style.left = `${(100 * share).toFixed(2)}%`;
    return mark;
  }

  // --- keys, as those of `fairlead play` ----------------------------------------------------------------------

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isBroken || event.target.closest("select, input[type=checkbox], a, button:not(.primary)")) return;
    const { key } = event;
    if (play.disabled) {
      if (key !== " ") return;
      isWanted = !isWanted;
    } else if (key === " ") toggle();
    else if (key === "ArrowLeft" || key === "<") seek((jumping ?? time) - STEP);
    else if (key === "ArrowRight" || key === ">") seek((jumping ?? time) + STEP);
    else if (/^[0-9]$/.test(key)) seek((cast.duration * Number(key)) / 10);
    else if (key === "+" || key === "-") setSpeed(SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(pace) + (key === "+" ? 1 : -1)))]);
    else if (key === ".") next();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function recolour() {
    terminal.options.theme = theme();
  }

  addEventListener("theme", recolour);
  return {
    node,
    begin,
    close() {
      removeEventListener("theme", recolour);
      closing.abort();
      turn += 1;
      observer.disconnect();
      terminal.dispose();
      pictures = [];
    },
  };
}

function clockOf(seconds) {
  const whole = Math.floor(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}
