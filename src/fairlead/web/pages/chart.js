// Confidence over time, drawn: a dot for each report on the rungs of the ladder, and a line through them.

import { svg } from "./dom.js";
import { moment, oneLine, verdictWord } from "./words.js";

const RUNGS = ["perfect", "verified", "partial", "feedback", "failed"];
const [WIDE, NARROW, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [760, 400, 200, 76, 16, 16, 28];
const MOST = 500;

// `reports` in any order; `press` is called with the one that is chosen.
export function chart(reports, press) {
  const isNarrow = innerWidth < 760;
  const width = isNarrow ? NARROW : WIDE;
  const shown = [...reports].sort((a, b) => a.time - b.time).slice(-MOST);
  const [start, end] = [shown[0]?.time ?? 0, shown.at(-1)?.time ?? 0];
  const x = (time) => LEFT + (end > start ? ((time - start) / (end - start)) * (width - LEFT - RIGHT - 20) + 10 : (width - LEFT - RIGHT) / 2);
  const y = (confidence) => TOP + (Math.max(0, RUNGS.indexOf(confidence)) * (HEIGHT - TOP - BOTTOM)) / (RUNGS.length - 1);
  const picture = svg("svg.chart", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": `Confidence over time, ${shown.length} reports` });
  for (const rung of RUNGS) {
    picture.append(
      svg("line.rung", { x1: LEFT, x2: width - RIGHT, y1: y(rung), y2: y(rung) }),
      svg(`text.label.${rung}`, { x: LEFT - 8, y: y(rung) + 4, "text-anchor": "end" }, verdictWord(rung)),
    );
  }
  const count = shown.length ? (end > start ? (isNarrow ? 3 : 5) : 1) : 0;
  let before = "";
  for (let number = 0; number < count; number += 1) {
    const isLast = number === count - 1;
    const time = start + ((end - start) * number) / Math.max(1, count - 1);
    const words = moment(time, end - start < 600);
    if (words === before) continue;
    before = words;
    picture.append(svg("text.tick", { x: isLast && number ? width - RIGHT : x(time), y: HEIGHT - 8, "text-anchor": isLast && number ? "end" : "middle" }, words));
  }
  const bySession = new Map();
  for (const each of shown) bySession.set(each.session_id, [...(bySession.get(each.session_id) ?? []), each]);
  for (const of of bySession.values()) {
    picture.append(svg("polyline.course", { points: of.map((each) => `${x(each.time).toFixed(1)},${y(each.confidence)}`).join(" ") }));
  }
  for (const each of shown) {
    const chosen = () => press(each);
    const words = `${moment(each.time)} ${verdictWord(each.confidence)}: ${oneLine(each.summary, 160)}`;
    picture.append(
      svg(
        `circle.point.${each.confidence}`,
        {
          cx: x(each.time).toFixed(1),
          cy: y(each.confidence),
          r: 5,
          tabindex: "0",
          role: "button",
          "aria-label": words,
          onclick: chosen,
          onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), chosen()),
        },
        svg("title", words),
      ),
    );
  }
  return picture;
}
