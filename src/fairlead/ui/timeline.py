"""A session's timeline as lines of text: its turns with their tools, questions and checks. Pure functions.

They take what the op `timeline` answers; texts in it are from strangers, and nothing of them controls the
terminal. Without a width nothing is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..formats.columns import fill, padded, width_of
from ..formats.ladder import LADDER
from ..formats.shown import clean, counted
from .plot import PLAIN, Bar, Look, bars, clock, curve, day_of, dollars, duration, short

NARROW = 48
"""Below so many columns, times are without seconds."""
LEAST_TEXT = 14
"""How many columns a text gets at the least before what is behind it goes to a line of its own."""
PLOT_HEIGHT = 6
LEAST_WAIT = 1.0
"""Seconds that a question must have waited so that it is said."""
WITHDRAWN = "withdrawn"
"""What becomes of a question that nobody answered."""

_MARKS = {
    "tool": ("●", "*"),
    "question": ("?", "?"),
    "check": ("✓", "+"),
    "correction": ("↳", "<"),
    "steer": ("›", ">"),
    "summary": ("≡", "="),
}
_BAD_CHECK = ("✗", "x")
_OUTCOMES = {"done": "green", "working": "cyan", "failed": "red", "lost": "red", "interrupted": "red"}
_SAID = {"allow": "allowed", "always": "always allowed", "deny": "denied"}
_WORDS = {
    "correction": "sent back",
    "steer": "said meanwhile",
    "summary": "older messages were summarized",
}


def timeline(
    answer: Mapping[str, Any], now: float, width: int | None = None, look: Look = PLAIN
) -> list[str]:
    """All turns of an answer, the oldest first, with what happened in them."""
    return list(_Drawing(now, width, look).lines(answer))


def plots(answer: Mapping[str, Any], now: float, width: int, look: Look = PLAIN) -> list[str]:
    """Time, tokens and cost by turn, as far as they are known."""
    turns = answer["turns"]
    times = [_time_bar(each, now) for each in turns if each.get("began") and _end(each, now)]
    tokens = [_token_bar(each, is_brief=width < NARROW) for each in turns if _tokens(each)]
    total, costs = 0.0, []
    for each in turns:
        if each.get("began") and (cost := each.get("cost", 0.0)):
            total += cost
            costs.append((_end(each, now) or each["began"], total))
    parts = []
    if times:
        parts.append(bars(times, width, title="Time by turn", value=duration, look=look))
    if tokens:
        parts.append(bars(tokens, width, title="Tokens by turn", look=look))
    if costs:
        parts.append(curve(costs, width, PLOT_HEIGHT, title="Cost so far", value=dollars, look=look))
    lines: list[str] = []
    for part in parts:
        lines += ["", *part] if lines else part
    return lines or [look.fit("no turn has a time, tokens or a cost that is known", width)]


def _time_bar(turn: Mapping[str, Any], now: float) -> Bar:
    colour = _OUTCOMES.get(_outcome(turn), "yellow")
    return Bar(f"#{turn['number']}", _end(turn, now) - turn["began"], colour=colour)


def _token_bar(turn: Mapping[str, Any], *, is_brief: bool) -> Bar:
    read, written = turn.get("input_tokens", 0), turn.get("output_tokens", 0)
    text = short(read + written) if is_brief else f"{short(read)} in, {short(written)} out"
    return Bar(f"#{turn['number']}", read + written, text, "cyan")


class _Drawing:
    """Lines, one after the other."""

    def __init__(self, now: float, width: int | None, look: Look) -> None:
        self._now = now
        self._width = width
        self._look = look
        self._day = ""
        self._has_seconds = width is None or width >= NARROW
        self._indent = " " * (9 if self._has_seconds else 6)

    def lines(self, answer: Mapping[str, Any]) -> Iterator[str]:
        turns: Sequence[Mapping[str, Any]] = answer["turns"]
        yield from self._head(answer["session"], turns, answer["total"])
        for step in answer.get("aside", ()):
            yield from self._step(step)
        for turn in turns:
            yield from self._turn(turn)

    def _head(
        self, session: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], total: int
    ) -> Iterator[str]:
        agent = session.get("agent") or ""
        yield self._look.paint("bold", self._cut(f"{session['name']}  {session['kind']} {agent}".rstrip()))
        facts = [counted(total, "turn") + (f", the last {len(turns)} shown" if total > len(turns) else "")]
        if seconds := sum(_end(each, self._now) - each["began"] for each in turns if each.get("began")):
            facts.append(f"{duration(seconds)} at work")
        waited = sum(_waited(each, self._now) for turn in turns for each in turn.get("steps", ()))
        if waited >= LEAST_WAIT:
            facts.append(f"{duration(waited)} waiting for a person")
        if used := self._use_of(
            sum(each.get("input_tokens", 0) for each in turns),
            sum(each.get("output_tokens", 0) for each in turns),
            sum(each.get("cost", 0.0) for each in turns),
        ):
            facts.append(used)
        yield from self._filled("; ".join(facts))

    def _turn(self, turn: Mapping[str, Any]) -> Iterator[str]:
        began, outcome = turn.get("began", 0.0), _outcome(turn)
        end = _end(turn, self._now)
        length = duration(end - began) if began and end else ""
        sign = f"#{turn['number']}"
        left = f"{sign} {_line(turn.get('prompt', ''))}"
        colour = _OUTCOMES.get(outcome, "yellow")
        yield from self._row(began, left, length, outcome, colour, is_head=True)
        for fact in self._facts(turn):
            yield from (self._look.paint("dim", line) for line in self._filled(fact, self._indent))
        if fault := turn.get("fault"):
            yield self._look.paint("red", self._cut(f"{self._indent}{_line(fault)}"))
        steps, left_out = turn.get("steps", ()), turn.get("left_out", 0)
        for number, step in enumerate(steps):
            if left_out and number == len(steps) // 2:
                yield self._cut(f"{self._indent}({counted(left_out, 'step')} left out)")
            yield from self._step(step)
        if left_out and not steps:
            yield self._cut(f"{self._indent}({counted(left_out, 'step')} left out)")

    def _facts(self, turn: Mapping[str, Any]) -> Iterator[str]:
        began, queued = turn.get("began", 0.0), turn.get("queued", 0.0)
        written, accepted = turn.get("written", 0.0), turn.get("accepted", 0.0)
        said = [f"prompt waited {duration(began - queued)}"] if queued and began > queued else []
        if written:
            said.append(f"typed {clock(written)}")
        if accepted:
            said.append(f"taken {clock(accepted)}")
        if said:
            yield ", ".join(said)
        tokens = turn.get("input_tokens", 0), turn.get("output_tokens", 0)
        if used := self._use_of(*tokens, turn.get("cost", 0.0)):
            yield used + (f", {_line(turn['model'])}" if turn.get("model") else "")

    def _step(self, step: Mapping[str, Any]) -> Iterator[str]:
        what, outcome = step["what"], step.get("outcome", "")
        title, text = _line(step.get("title", "")), _line(step.get("text", ""))
        at, ended = step.get("at", 0.0), step.get("ended", 0.0)
        mark, colour = _MARKS.get(what, _MARKS["tool"]), ""
        length = duration(ended - at) if at and ended else ""
        match what:
            case "question":
                waited = _waited(step, self._now)
                length = f"{'waited' if ended else 'waits'} {duration(waited)}"
                length = "" if ended and waited < LEAST_WAIT else length
                colour = "" if ended else "yellow"
                outcome = _SAID.get(outcome, _line(outcome))
                if by := _line(step.get("by", "")):
                    outcome = (
                        f"{outcome}: {by}" if step.get("outcome") == "withdrawn" else f"{outcome} by {by}"
                    )
            case "check":
                colour = LADDER.get(outcome, "")
                mark = _BAD_CHECK if outcome in ("failed", "error") else mark if outcome else ("…", ".")
                outcome = outcome.upper() or "running"
                outcome += f" {dollars(step['cost'])}" if step.get("cost") else ""
            case "tool":
                colour = "red" if outcome == "failed" else ""
                outcome = "" if outcome == "done" else outcome or "not ended"
            case _:
                title = _WORDS.get(what, what) + (":" if text else "")
        words = f"{mark[self._look.ascii]} {title}  {text}".rstrip()
        yield from self._row(at, f"  {words}", length, outcome, colour)

    # --- lines ----------------------------------------------------------------------------------------------

    def _row(
        self, at: float, left: str, length: str, outcome: str, colour: str, *, is_head: bool = False
    ) -> Iterator[str]:
        if at and (day := day_of(at)) != self._day:
            self._day = day
            sign = "--" if self._look.ascii else "──"
            yield self._look.paint("dim", self._cut(f"{sign} {day} {sign}"))
        time = clock(at, seconds=self._has_seconds) if at else ""
        left = f"{padded(time, len(self._indent) - 1)} {left}"
        right = self._plain(f"{length} {outcome}".strip())
        painted = self._look.paint(colour, right)
        if self._width is None:
            left = self._plain(left)
            yield self._head_of(left, is_head) + (f"  {painted}" if right else "")
            return
        room = self._width - width_of(right) - 2 if right else self._width
        if room < LEAST_TEXT + len(self._indent):
            yield self._head_of(self._cut(left), is_head)
            if right:
                cut = self._look.fit(right, self._width - len(self._indent))
                yield f"{self._indent}{self._look.paint(colour, cut)}"
            return
        cut = self._cut(left, room)
        yield self._head_of(cut, is_head) + (f"{' ' * (room - width_of(cut))}  {painted}" if right else "")

    def _head_of(self, text: str, is_head: bool) -> str:
        return self._look.paint("bold", text) if is_head else text

    def _cut(self, text: str, width: int | None = None) -> str:
        """A text with its indent, in so many columns."""
        width = width or self._width
        if width is None:
            return self._plain(text)
        body = text.lstrip(" ")
        indent = text[: min(len(text) - len(body), width - 1)]
        return indent + self._look.fit(body, width - len(indent))

    def _filled(self, text: str, indent: str = "") -> Iterator[str]:
        """Words of ours in as many lines as they need."""
        if self._width is None:
            yield self._plain(indent + text)
        else:
            for line in fill(text, self._width, indent, indent).split("\n"):
                yield self._cut(line)

    def _plain(self, text: str) -> str:
        text = clean(text).replace("\n", " ")
        if self._look.ascii and not text.isascii():
            text = text.replace("…", "...").encode("ascii", "replace").decode()
        return text

    def _use_of(self, read: int, written: int, cost: float) -> str:
        facts = [f"{short(read)} tokens in, {short(written)} out"] if read or written else []
        return ", ".join([*facts, dollars(cost)] if cost else facts)


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def _outcome(turn: Mapping[str, Any]) -> str:
    return str(turn.get("outcome") or "")


def _end(turn: Mapping[str, Any], now: float) -> float:
    """When a turn ended, or now; at its beginning if nobody knows."""
    began = float(turn.get("began", 0.0))
    end = float(turn.get("ended", 0.0)) or (now if _outcome(turn) == "working" else began)
    return max(began, end)


def _waited(step: Mapping[str, Any], now: float) -> float:
    if step["what"] != "question" or not step.get("at"):
        return 0.0
    return max(0.0, float(step.get("ended") or now) - float(step["at"]))


def _tokens(turn: Mapping[str, Any]) -> int:
    return int(turn.get("input_tokens", 0)) + int(turn.get("output_tokens", 0))
