// A conversation with an agent: what was said, streamed as Markdown, with its calls as rows that fold; and what a
// person can say to it, now, in the middle of a turn or after it. Model, mode and thinking are chosen here.

import { newId, op } from "./api.js";
import { board } from "./board.js";
import { button, el, fill, keep } from "./dom.js";
import { attempt, note } from "./notices.js";
import { Pictures } from "./pictures.js";
import { Slash } from "./slash.js";
import { Stream } from "./stream.js";
import { Transcript } from "./transcript.js";
import { money, tokens, visible } from "./words.js";
import { draft, keepDraft } from "./remembered.js";

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh"];
const NEAR = 80; // pixels from the end within which the page follows what is written

export function chatPane(row) {
  const scroll = el("div.chat-scroll", { tabindex: "0", role: "log", "aria-label": "Conversation" });
  const transcript = new Transcript(row.id, { fork: board.isOwner && row.kind === "agent" ? fork : null });
  scroll.append(transcript.node);
  const controls = el("div.chat-controls");
  const status = el("div.chat-status", { role: "status" });
  const area = el("textarea", { rows: "1", placeholder: "Say something", "aria-label": "Message", oninput: typed, onkeydown: keys, onblur: () => slash.close() });
  const slash = new Slash(row.id, area);
  const pictures = new Pictures(area);
  const buttons = el("div.chat-buttons");
  const composer = el("form.composer", { onsubmit: (event) => (event.preventDefault(), send()) }, slash.node, pictures.node, area, pictures.button, buttons);
  const node = el("section.chat", { "aria-label": `Conversation with ${visible(row.name)}` }, scroll, status, board.mayWrite && composer, controls);
  area.value = draft(row.id);
  let view = null;
  let stream = null;
  let loading = null;
  let held = []; // events that came while the messages were fetched
  const isPhone = matchMedia("(pointer: coarse)");

  function begin() {
    stream = new Stream(row.id, {
      heard,
      isResumed: false, // the messages are fetched again
      hello: load,
      lost: () => say("The console can't be reached.", "warning"),
      refused: (message) => say(message, "warning"),
    });
    document.addEventListener("visibilitychange", looked);
    board.addEventListener("questions", drawButtons);
    grow();
    sizes.observe(scroll);
    sizes.observe(transcript.node);
    scroll.addEventListener("scroll", scrolled, { passive: true });
  }

  let isAtEnd = true;
  let lastTop = 0;

  // Who scrolls up wants to stay there; what grows or shrinks around it is no scrolling.
  function scrolled() {
    const isNear = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;
    if (isNear) isAtEnd = true;
    else if (scroll.scrollTop < lastTop - 1) isAtEnd = false;
    lastTop = scroll.scrollTop;
  }

  const sizes = new ResizeObserver(() => isAtEnd && (scroll.scrollTop = scroll.scrollHeight)); // follows what is written

  function looked() {
    if (document.hidden) stream.pause();
    else stream.hurry();
  }

  function load() {
    loading ??= fetchAll().finally(() => (loading = null));
    return loading;
  }

  async function fetchAll() {
    held = [];
    try {
      const [viewed, said] = await Promise.all([op("get_view", { session_id: row.id }), op("get_messages", { session_id: row.id })]);
      view = viewed.state;
      transcript.fillWith(said.messages, view.answer ?? [], said.first ?? 0);
      say("");
      drawControls();
      drawButtons();
      toEnd();
    } catch (refused) {
      say(refused.message, "warning");
    }
    const missed = held;
    held = null;
    for (const [topic, data] of missed) heard(topic, data, true);
  }

  function heard(topic, data, isLate = false) {
    if (held !== null && loading && !isLate) {
      held.push([topic, data]);
      return;
    }
    if (isLate && /delta$/.test(topic)) return; // the message so far had it
    if (topic === "web/back") load();
    else if (topic === "web/away") say("The daemon is away. The conversation comes back with it.", "warning");
    else if (topic === "session/updated") updated(data);
    else if (topic === "footer/updated") return;
    else if (topic === "ui/notification") note(data.message, data.level);
    else transcript.heard(topic, data);
  }

  function updated(data) {
    view = { ...view, ...data };
    if (!loading) refreshView();
    drawButtons();
  }

  let again = 0;

  // What stands beside the conversation changes seldom; it is fetched at most twice a second.
  function refreshView() {
    clearTimeout(again);
    again = setTimeout(async () => {
      const viewed = await op("get_view", { session_id: row.id }).catch(() => null);
      if (!viewed) return;
      view = viewed.state;
      drawControls();
      drawButtons();
    }, 500);
  }

  function toEnd() {
    isAtEnd = true;
    scroll.scrollTop = scroll.scrollHeight;
  }

  function say(text, kind = "") {
    status.className = `chat-status ${kind}`;
    status.textContent = visible(text);
  }

  // --- what a person says -----------------------------------------------------------------------------------

  const isBusy = () => Boolean(view && view.phase !== "idle");

  function drawButtons() {
    const made = isBusy()
      ? [
          ["steer", "Steer", () => send("steer"), "primary"],
          ["follow", "After the turn", () => send("follow_up"), "quiet"],
          ["interrupt", view.interrupt_pending ? "Interrupting…" : "Interrupt", () => act("interrupt"), "quiet"],
          ["abort", "Abort", () => act("abort"), "quiet danger"],
        ]
      : [["send", "Send", () => send(), "primary"]];
    keep(buttons, made.map(([key, label, press, look]) => ({ key, mark: label, make: () => button(label, press, { class: look }) })));
    const queued = [...(view?.steering_messages ?? []), ...(view?.follow_up_messages ?? [])];
    transcript.showQueued(queued);
    const asks = board.questionsOf(row.id).length > 0;
    transcript.asked(asks);
    const working = { retrying: "Asking the model again…", compacting: "Summarizing…" }[view?.phase] ?? "Working…";
    if (isBusy() && !status.classList.contains("warning")) say(asks ? "Waits for an answer" : working);
    else if (!isBusy() && !status.classList.contains("warning")) say("");
  }

  async function send(how) {
    const text = area.value.trim();
    const images = pictures.given;
    if ((!text && !images.length) || area.disabled) return;
    slash.close();
    const is = how ?? (isBusy() ? "steer" : "prompt");
    const given = { message: text, session_id: row.id, ...(images.length ? { images } : {}) };
    area.disabled = true;
    const sent = await attempt(async () => {
      const command = board.isOwner && !images.length && slash.run(text, view ?? {});
      if (command) {
        const said = await command;
        if (said) transcript.aside(said);
        refreshView();
      } else if (is === "prompt") await op("say", { ...given, prompt_id: newId() });
      else await op(is, given);
      return true;
    });
    area.disabled = false;
    if (sent) {
      area.value = "";
      keepDraft(row.id, "");
      pictures.clear();
    }
    grow();
    area.focus();
    toEnd();
  }

  async function act(what) {
    const answer = await attempt(() => op(what, { session_id: row.id }));
    if (answer?.dropped_steering_text) area.value = [answer.dropped_steering_text, area.value].filter(Boolean).join("\n");
    grow();
  }

  function typed() {
    keepDraft(row.id, area.value);
    grow();
    if (board.isOwner) slash.typed();
  }

  function keys(event) {
    if (!event.isComposing && slash.key(event)) return event.preventDefault();
    if (event.key !== "Enter" || event.isComposing || event.shiftKey || (isPhone.matches && !event.ctrlKey)) return;
    event.preventDefault();
    send(event.altKey && isBusy() ? "follow_up" : undefined);
  }

  function grow() {
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.35)}px`;
  }

  async function fork(entry) {
    if (!confirm("Make a copy of the conversation up to here?")) return;
    await attempt(async () => {
      const made = await op("fork", { entry_id: entry, session_id: row.id });
      await board.load();
      location.hash = `#/s/${encodeURIComponent(made.session_id)}`;
    });
  }

  // --- what can be chosen -----------------------------------------------------------------------------------

  function drawControls() {
    const mark = JSON.stringify([view.options, view.mode, view.modes, view.thinking_level, view.model_reasoning, view.model_id, view.model_provider, view.context_tokens, view.phase]);
    if (controls.dataset.mark === mark || controls.contains(document.activeElement)) return;
    controls.dataset.mark = mark;
    const choices = board.isOwner ? [...(view.options ?? []).map(optionPicker), modelPicker(), modePicker(), thinkingPicker()] : [el("span.dim", visible(view.header_model_label ?? ""))];
    fill(controls, choices, el("span.grow"), gauge());
  }

  function optionPicker(option) {
    return picker(option.name || option.id, option.value, option.choices.map((each) => [each.value, each.name || each.value]), (value) =>
      op("set_option", { option: option.id, value, session_id: row.id }),
    );
  }

  let models = null;

  // The models of our own agent; others have theirs among their options.
  function modelPicker() {
    if (row.kind !== "agent" || (view.options ?? []).some((each) => each.category === "model")) return null;
    if (models === null) {
      models = [];
      op("get_available_models", { session_id: row.id }).then((found) => {
        models = found.models;
        delete controls.dataset.mark;
        drawControls();
      }, () => {});
    }
    const now = `${view.model_provider}/${view.model_id}`;
    const known = models.map((each) => `${each.provider}/${each.id}`);
    if (!known.length || (known.length === 1 && known[0] === now)) return null;
    const choices = [...(known.includes(now) ? [] : [now]), ...known].map((each) => [each, each]);
    return picker("Model", now, choices, (value) => {
      const [provider, model_id] = value.split(/\/(.*)/s);
      return op("set_model", { provider, model_id, session_id: row.id });
    });
  }

  function modePicker() {
    if (!view.modes?.length) return null;
    return picker("Mode", view.mode, view.modes.map((each) => [each.id, each.name]), (mode) => op("set_mode", { mode, session_id: row.id }));
  }

  function thinkingPicker() {
    if (!view.model_reasoning || (view.options ?? []).some((each) => each.category === "thought_level")) return null;
    return picker("Thinking", view.thinking_level, LEVELS.map((each) => [each, each]), (level) => op("set_thinking_level", { level, session_id: row.id }));
  }

  function picker(label, value, choices, choose) {
    const select = el(
      "select",
      {
        "aria-label": visible(label),
        onchange: async () => {
          if (!(await attempt(() => choose(select.value).then(() => true)))) select.value = value;
          select.blur();
          refreshView();
        },
      },
      choices.map(([each, name]) => el("option", { value: each, selected: each === value }, visible(name))),
    );
    return el("label.picker", el("span", visible(label)), select);
  }

  function gauge() {
    const { context_tokens: used, context_window: most } = view;
    if (!most) return null;
    const share = Math.min(1, (used ?? 0) / most);
    const meter = el("meter", { min: "0", max: "1", high: "0.8", value: share, "aria-label": "Context used" });
    const cost = transcript.cost;
    return el("span.gauge", { title: `${used ?? 0} of ${most} tokens` }, meter, el("span.gauge-words", `${tokens(used)} / ${tokens(most)}`), cost > 0 && el("span", money(cost)));
  }

  return {
    node,
    begin,
    close() {
      document.removeEventListener("visibilitychange", looked);
      board.removeEventListener("questions", drawButtons);
      clearTimeout(again);
      sizes.disconnect();
      stream?.close();
      transcript.close();
    },
  };
}
