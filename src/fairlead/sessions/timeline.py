"""What happened in a session, turn by turn: tools, questions, checks, what was said, and how long it took.

A turn's lines are read from the session's file, in Pi's format or in Claude Code's. What is not in there,
such as when a terminal's turns began, what verifiers said and who answered, is joined to it. Only
`read_turns` does I/O, in a thread of whoever calls it. Everything is bounded: turns, steps, texts and bytes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from ..formats.shown import one_line
from ..system.opening import open_file
from .questions import AskedQuestion
from .session import Session, Turn

MAX_TURNS, TURNS = 200, 20
"""How many turns are told at the most, and if nobody says how many: the last ones."""
MAX_STEPS = 200
"""How many steps of a turn are told: the first and the last ones,"""
MAX_ALL_STEPS = 1000
"""and of all turns together: those of the last turns."""
MAX_BYTES = 256 * 1024 * 1024
"""How much of a session's file is looked at."""
MAX_LINE = 8 * 1024 * 1024
"""How long a line may be of which more than its time is known."""
MAX_TEXT = 160
"""How many characters a text has."""
MAX_REASON = 1000
"""How many characters of the reason for which work was sent back."""
NOT_RIGHT = " and found that it is not right yet: "
"""What corrections say before their reason."""
MAX_CALLS = 20_000
"""How many calls of a turn are followed to their results."""
MAX_TOOLS = 500
"""How many tools are remembered that only a hook has told of."""
_SHOWN = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "prompt", "text", "description")
"""The arguments of tools that say most about a call, the best first."""

StepKind = Literal["tool", "question", "check", "correction", "steer", "summary"]


class TurnStep(Struct, omit_defaults=True):
    """Something that happened in a turn."""

    what: StepKind
    at: float
    """When it began, in seconds since 1970; 0 if that is not known."""
    title: str = ""
    """The tool, who asks, or the verifier."""
    text: str = ""
    """The call, what was asked, what was said, in one line."""
    ended: float = 0.0
    """When it ended; 0 if it has not, or nobody knows."""
    outcome: str = ""
    """`failed` for a tool, the answer to a question, the confidence of a check; empty while it goes on."""
    by: str = ""
    """Who answered."""
    cost: float = 0.0


class TimedTurn(Struct, omit_defaults=True):
    """A turn, and what happened in it."""

    number: int
    prompt: str = ""
    began: float = 0.0
    ended: float = 0.0
    """When its last run ended; 0 while it goes on, or if nobody knows."""
    outcome: str = ""
    """How its last run ended; `working` while it goes on."""
    fault: str = ""
    prompt_id: str = ""
    queued: float = 0.0
    """When the prompt was written down, if it had to wait."""
    written: float = 0.0
    """When the prompt was put where an agent in a terminal reads,"""
    accepted: float = 0.0
    """and when that has taken it."""
    corrections: int = 0
    input_tokens: int = 0
    """Those that were read from a cache are among them."""
    output_tokens: int = 0
    cost: float = 0.0
    model: str = ""
    steps: list[TurnStep] = []
    left_out: int = 0
    """How many steps there were that are not told."""


class HookedTool(Struct, omit_defaults=True):
    """A tool that an agent in a terminal ran, as its hooks told."""

    turn: int
    at: float
    title: str
    call: str = ""
    ended: float = 0.0
    what: Literal["tool", "correction"] = "tool"
    """A correction is noted here too: `title` is why the work was sent back."""


class TimedPrompt(Struct, frozen=True):
    """How far a prompt has got that was put into a terminal."""

    id: str
    turn: int
    """The turn that it began; 0 if none is known."""
    written: float
    accepted: float


class HooksTold(NamedTuple):
    """What hooks and receipts have told of a session."""

    live: Session | None
    """The session, if its turns are known."""
    prompts: Sequence[TimedPrompt]
    """The prompts that began turns,"""
    tools: Sequence[HookedTool]
    """and the last tools."""


class FormerTurns(NamedTuple):
    """The turns of a session that is gone, as hooks told them."""

    id: str
    project: str
    agent: str
    file: str
    began: float
    turns: Sequence[Turn]
    tools: Sequence[HookedTool]


@runtime_checkable
class ToldByHooks(Protocol):
    """A kind whose files don't tell all: what hooks and receipts know of a session's turns."""

    def told_by_hooks(self, id: str) -> HooksTold:
        """What is known of a session. Raises NoSession."""

    def former(self, id: str) -> FormerTurns | None:
        """What is known of the last session of this id that is gone. Reads a file."""


class _Line(Struct, rename="camel"):
    """What matters in a line of a file."""

    type: str = ""
    timestamp: Any = ""
    custom_type: str = ""
    data: Any = None
    message: Any = None
    summary: Any = ""


_decode = msgspec.json.Decoder(_Line).decode
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Reader:
    """Takes in the lines of one turn."""

    def __init__(self, turn: TimedTurn, asked: dict[str, TurnStep], queued: dict[str, float]) -> None:
        self.turn = turn
        self._asked = asked  # questions, by their ids; an answer may be in a later turn
        self._queued = queued
        self._calls: dict[str, TurnStep] = {}
        self._counted: set[str] = set()
        self._is_begun = False
        self.last = 0.0

    def take(self, raw: bytes) -> None:
        if len(raw) > MAX_LINE:
            return
        try:
            line = _decode(raw)
        except _BAD:
            return
        at = _moment(line.timestamp)
        if isinstance(message := line.message, dict):
            at = at or _moment(message.get("timestamp"))
            if line.type == "message":
                self._of_pi(message, at)
            elif line.type in ("user", "assistant"):
                self._of_claude(line.type, message, at)
        elif line.type == "custom" and isinstance(line.data, dict):
            self._noted(line.custom_type, line.data, at)
        elif line.type == "compaction":
            self._add(TurnStep("summary", at, text=_text(line.summary)))
        if at and line.type != "custom":
            self.turn.began = self.turn.began or at
            self.last = max(self.last, at)

    def _of_pi(self, message: dict[str, Any], at: float) -> None:
        content = message.get("content")
        match message.get("role"):
            case "user":
                if self._is_begun:
                    kind: StepKind = "correction" if message.get("origin") == "correction" else "steer"
                    text = _words(content)
                    said = correction_reason(text) if kind == "correction" else _text(text)
                    self._add(TurnStep(kind, at, text=said))
                self._is_begun = True
            case "assistant":
                usage = _map(message.get("usage"))
                cost = _map(usage.get("cost"))
                read = ("input", "cacheRead", "cacheWrite")
                self._use(
                    sum(_count(usage.get(each)) for each in read), usage.get("output"), cost.get("total")
                )
                model = message.get("model")
                self.turn.model = _text(model) if isinstance(model, str) else self.turn.model
                for part in _parts(content, "toolCall"):
                    self._call(part.get("id"), part.get("name"), part.get("arguments"), at)
            case "toolResult":
                self._result(message.get("toolCallId"), bool(message.get("isError")), at)

    def _of_claude(self, role: str, message: dict[str, Any], at: float) -> None:
        content = message.get("content")
        if role == "user":
            for part in _parts(content, "tool_result"):
                self._result(part.get("tool_use_id"), bool(part.get("is_error")), at)
            return
        id = message.get("id")
        if not isinstance(id, str) or id not in self._counted:  # its parts are lines of their own
            usage = _map(message.get("usage"))
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            self._use(sum(_count(usage.get(each)) for each in names), usage.get("output_tokens"), 0.0)
        if isinstance(id, str) and len(self._counted) < MAX_CALLS:
            self._counted.add(id)
        model = message.get("model")
        if isinstance(model, str) and not model.startswith("<"):
            self.turn.model = _text(model)
        for part in _parts(content, "tool_use"):
            self._call(part.get("id"), part.get("name"), part.get("input"), at)

    def _use(self, read: int, written: Any, cost: Any) -> None:
        self.turn.input_tokens += read
        self.turn.output_tokens += _count(written)
        if isinstance(cost, int | float) and math.isfinite(cost):
            self.turn.cost += cost

    def _noted(self, kind: str, data: dict[str, Any], at: float) -> None:
        id = str(data.get("id", ""))
        match kind:
            case "fairlead/approval":
                step = TurnStep("question", at, _text(data.get("tool")), _text(data.get("summary")))
                self._asked[id] = step
                self._add(step)
            case "fairlead/approval-settled" if (answered := self._asked.get(id)) is not None:
                answered.ended = at
                answered.outcome = "allow" if data.get("allowed") is True else "deny"
                answered.by = _text(data.get("by"))
            case "fairlead/prompt-queued" if len(self._queued) < MAX_CALLS:
                self._queued[id] = at

    def _call(self, id: Any, name: Any, arguments: Any, at: float) -> None:
        step = TurnStep("tool", at, _text(name), call_line(arguments))
        if isinstance(id, str) and len(self._calls) < MAX_CALLS:
            self._calls[id] = step
        self._add(step)

    def _result(self, id: Any, is_error: bool, at: float) -> None:
        if isinstance(id, str) and (step := self._calls.pop(id, None)) is not None:
            step.ended = at
            step.outcome = "failed" if is_error else "done"

    def _add(self, step: TurnStep) -> None:
        steps = self.turn.steps
        if len(steps) >= 2 * MAX_STEPS:
            self.turn.left_out += trim(steps, MAX_STEPS)
        steps.append(step)


def trim(steps: list[TurnStep], most: int) -> int:
    """Leave out what is in the middle of too many steps; returns how many those were."""
    over = len(steps) - most
    if over <= 0:
        return 0
    half = most // 2
    del steps[half : half + over]
    return over


def read_turns(
    path: str, turns: Sequence[Turn], *, to_end: bool = True
) -> tuple[list[TimedTurn], dict[str, TurnStep]]:
    """Some turns with what their session's file says, and its questions by their ids.

    A file may have lines of the last turn that came after its end was told. May take a while.
    """
    timed = [
        TimedTurn(
            each.number,
            _text(each.prompt),
            float(getattr(each, "began", 0.0)),
            float(getattr(each, "ended", 0.0)),
            each.outcome,
            _text(each.fault),
            str(getattr(each, "prompt_id", ""))[:MAX_TEXT],
            corrections=each.corrections,
        )
        for each in turns
    ]
    asked: dict[str, TurnStep] = {}
    queued: dict[str, float] = {}
    if path and turns:
        firsts = [max(1, each.first_line) for each in turns]
        readers = [_Reader(each, asked, queued) for each in timed]
        _read(path, firsts, readers)
        for turn, reader in zip(timed, readers):
            turn.ended = turn.ended or reader.last
            turn.queued = queued.get(turn.prompt_id, 0.0) if turn.prompt_id else 0.0
    return timed, asked


def _read(path: str, firsts: list[int], readers: Sequence[_Reader]) -> None:
    """Have each reader take the lines from its first one to the next one's."""
    size = 0
    try:
        with open_file(path) as file:
            for number, line in enumerate(file, 1):
                size += len(line)
                if size > MAX_BYTES:
                    return
                if number >= firsts[0]:
                    readers[bisect_right(firsts, number) - 1].take(line)
    except OSError:
        return


# --- joining ------------------------------------------------------------------------------------------------


def join_tools(turns: Sequence[TimedTurn], tools: Iterable[HookedTool]) -> None:
    """Add what hooks told of tools and corrections to those turns in whose lines there are none."""
    has = {(each.number, step.what) for each in turns for step in each.steps}
    by_number = {each.number: each for each in turns}
    for tool in tools:
        turn = by_number.get(tool.turn)
        if turn is None or (tool.turn, tool.what) in has:
            continue
        if tool.what == "correction":
            turn.steps.append(TurnStep("correction", tool.at, text=_text(tool.title)))
        else:
            outcome = "done" if tool.ended else ""
            turn.steps.append(TurnStep("tool", tool.at, _text(tool.title), ended=tool.ended, outcome=outcome))


def join_prompts(turns: Sequence[TimedTurn], prompts: Iterable[TimedPrompt]) -> None:
    """Add the receipts of the prompts that began turns in a terminal."""
    by_number = {each.number: each for each in turns}
    for prompt in prompts:
        if (turn := by_number.get(prompt.turn)) is not None:
            turn.prompt_id, turn.written, turn.accepted = prompt.id, prompt.written, prompt.accepted


def join_questions(
    turns: Sequence[TimedTurn],
    known: Mapping[str, TurnStep],
    asked: Iterable[AskedQuestion],
    *,
    is_cut: bool = False,
) -> list[TurnStep]:
    """Add questions to the turns in which they were asked, and answers to those that are known from the file;
    returns those of no turn. With `is_cut` there were earlier turns, and what was asked before the first of
    these is left out as they are."""
    aside = []
    since = next((each.began for each in turns if each.began), 0.0) if is_cut else 0.0
    for question in asked:
        if question.asked_at < since and question.id not in known:
            continue
        answer = question.answer
        step = known.get(question.id)
        if step is None:
            step = TurnStep("question", question.asked_at, _text(question.title), _text(question.what))
            if (turn := turn_at(turns, question.asked_at)) is not None:
                turn.steps.append(step)
            else:
                aside.append(step)
        if answer is not None and not (step.ended and step.by):
            step.ended, step.by = answer.at, _text(answer.by)
            step.outcome = _text(answer.text) if answer.text else answer.option[:MAX_TEXT]
    return aside


def turn_at(turns: Sequence[TimedTurn], moment: float) -> TimedTurn | None:
    """The turn that was the last one at a moment."""
    found = None
    for turn in turns:
        if turn.began and turn.began <= moment:
            found = turn
    return found


def bounded(turns: Sequence[TimedTurn]) -> None:
    """Put the steps of each turn in order, and leave out what is too much, beginning with the first turns."""
    left = MAX_ALL_STEPS
    for turn in reversed(turns):
        turn.steps.sort(key=lambda step: step.at)
        turn.left_out += trim(turn.steps, min(left, MAX_STEPS))
        left -= len(turn.steps)


# --- texts and numbers of strangers -------------------------------------------------------------------------


def call_line(arguments: Any) -> str:
    """What a call of a tool does, in one line: the argument that says most.

    >>> call_line({"timeout": 5, "command": "make test"})
    'make test'
    """
    given = _map(arguments)
    for name in _SHOWN:
        if isinstance(value := given.get(name), str) and value.strip():
            return _text(value)
    return next((_text(each) for each in given.values() if isinstance(each, str) and each.strip()), "")


def correction_reason(text: str) -> str:
    """Why work was sent back, without the words that every correction has. Its beginning counts.

    >>> correction_reason(
    ...     "A verifier checked turn 2 and found that it is not right yet: 1 failed\\n\\nFix it."
    ... )
    '1 failed'
    """
    first = text.partition("\n\n")[0]
    _, is_known, reason = first.partition(NOT_RIGHT)
    found = one_line(reason if is_known else text, MAX_LINE)
    return found if len(found) <= MAX_REASON else f"{found[: MAX_REASON - 1]}…"


def _text(value: Any) -> str:
    return one_line(value, MAX_TEXT) if isinstance(value, str) and value else ""


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in _parts(content, "text"))


def _parts(content: Any, kind: str) -> list[dict[str, Any]]:
    parts = content if isinstance(content, list) else []
    return [each for each in parts if isinstance(each, dict) and each.get("type") == kind]


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0


def _moment(value: Any) -> float:
    """A time as files have it, in seconds since 1970; 0 if it is none."""
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).timestamp() if value else 0.0
        return value / 1000 if isinstance(value, int | float) and 0 < value < 1e15 else 0.0
    except (ValueError, OverflowError, OSError):
        return 0.0
