// The turns of a session, the newest first: what was asked, what was done, what was judged, and what it cost.

import { op } from "./api.js";
import { board } from "./board.js";
import { el, fill } from "./dom.js";
import { counted, moment, money, oneLine, span, tokens, visible } from "./words.js";

const TURNS = 50;
const STEPS_OPEN = 12;
const AGAIN = new Set(["sessions/turn-began", "sessions/turn-ended", "sessions/judged", "sessions/correction"]);
const MARKS = { tool: "●", question: "?", correction: "↳", check: "✓", steer: ">", summary: "≡" };

export function timelinePane(row) {
  const node = el("section.timeline", { "aria-label": `Timeline of ${visible(row.name)}` }, el("p.empty", "…"));

  async function load() {
    try {
      const found = await op("timeline", { session_id: row.id, limit: TURNS });
      const turns = [...found.turns].reverse();
      fill(node, turns.length ? turns.map(turnOf) : el("p.empty", "No turns yet."), found.total > turns.length && el("p.dim", `${counted(found.total - turns.length, "earlier turn")} not shown`));
    } catch (refused) {
      fill(node, el("p.empty", visible(refused.message)));
    }
  }

  function heard({ detail: { topic, data } }) {
    if (data.session_id === row.id && AGAIN.has(topic)) load();
  }

  board.addEventListener("feed", heard);
  return { node, begin: load, close: () => board.removeEventListener("feed", heard) };
}

function turnOf(turn) {
  const steps = turn.steps ?? [];
  const used = [];
  if (turn.input_tokens) used.push(`${tokens(turn.input_tokens)} tokens in, ${tokens(turn.output_tokens)} out`);
  if (turn.cost) used.push(money(turn.cost));
  if (turn.model) used.push(visible(turn.model));
  const outcome = turn.outcome || (turn.ended ? "" : "runs");
  return el(
    "details.turn",
    { open: steps.length <= STEPS_OPEN },
    el(
      "summary",
      el("time", moment(turn.began)),
      el("span.dim", `#${turn.number}`),
      el("strong", oneLine(turn.prompt || "", 200)),
      el("span.grow"),
      turn.ended && el("span.dim", span(turn.ended - turn.began)),
      el("span.outcome", { data: { outcome } }, visible(outcome)),
    ),
    used.length > 0 && el("p.dim", used.join(" · ")),
    turn.fault && el("p.warning", visible(turn.fault)),
    el("ol.steps", steps.map(stepOf)),
    turn.left_out > 0 && el("p.dim", `${counted(turn.left_out, "step")} not shown`),
  );
}

function stepOf(step) {
  const took = step.ended && step.at ? span(step.ended - step.at) : "";
  const isCheck = step.what === "check" && step.outcome;
  return el(
    "li.step",
    { data: { what: step.what } },
    el("time", step.at ? moment(step.at) : ""),
    el("span.step-mark", { "aria-hidden": "true" }, MARKS[step.what] ?? "·"),
    el("strong", visible(step.title || step.what)),
    el("span.step-text", oneLine(step.text ?? "", 300)),
    el("span.dim", [took, step.by && `by ${visible(step.by)}`].filter(Boolean).join(" ")),
    isCheck ? el(`span.verdict.${RUNGS[step.outcome] ?? "unknown"}`, visible(step.outcome).toUpperCase()) : el("span.outcome", { data: { outcome: step.outcome ?? "" } }, visible(step.outcome ?? "")),
  );
}

// A check has the word that people read; its look is that of the confidence.
const RUNGS = { perfect: "perfect", verified: "verified", partial: "partial", failed: "feedback", error: "failed" };
