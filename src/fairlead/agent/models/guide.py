"""`offline/guide`: a model without a model. It does what plain words ask for, with the tools it is offered.

A request is one step or several, joined by "then" or by lines: "read README.md then run: pytest -q". The
guide calls the tools for one step after the other, looks at what came back since the last user message, and
ends with a short summary that says plainly that it is offline. It needs no network and no clock, and the same
conversation always gets the same answer.

Steps below a line "when sent back:" are for later: they are done when a verifier sends the work back. There
may be several such lines; each is for one time.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ...formats.shown import ASIDE, counted
from ..context import CHARS_A_TOKEN, tokens
from ..messages import Assistant, Message, ToolResult, Usage, User, text_of
from . import (
    Finished,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    TextDelta,
    ToolCallBegan,
    ToolCallDelta,
    ToolCallMade,
    ToolSpec,
)

INFO = ModelInfo("offline", "guide", "Offline guide", window=1_000_000, max_output=16_384, images=False)

MAX_STEPS = 50
"""How many steps of one request are done."""
MAX_REQUEST = 200_000
"""How many characters a request may have."""
SHOWN_LINES = 12
"""How many lines of a result the summary shows."""
SHOWN_CHARS = 800
SUMMED_REQUESTS = 40
"""How many earlier requests a summary of the conversation names."""
DELTA_CHARS = 24
"""About how long one piece of streamed text is."""

OFFLINE = "I am the offline guide: no language model is connected, so I only follow plain requests."
HELP = f"""{OFFLINE} I can:
- `list src` or `ls`
- `read README.md` or `read README.md lines 10-20`
- `search for TODO in src` or `grep "def main" src`
- `find *.py in src`
- `run: pytest -q`
- ``edit notes.txt: replace `old` with `new` ``
- `write notes.txt: some text`
- `summarize`, which lists the requests so far
- `when sent back:` on a line of its own, followed by what to do if verification fails
Join several with "then" or put each on its own line. Choose another model for real conversation:
- `/login anthropic` (or openai, google) stores a key, and `/model` then chooses one of its models
- `fairlead config` says where to add a server of your own, such as one that runs on this machine
- `fairlead agent --with claude` (or codex, gemini, opencode) starts an agent that you have installed"""


AGAIN = "Steps below a line `when sent back:` in your request would be done now."
_SENT_BACK = re.compile(r"^[ \t]*when sent back:[ \t]*$", re.IGNORECASE | re.MULTILINE)


class GuideStep(Struct, frozen=True):
    """One thing that was asked for: a tool, what to give it in our own words, and how to name it."""

    tool: str
    values: dict[str, Any]
    title: str


class Guide:
    """The model `offline/guide`."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer. It never fails."""
        text, calls = await asyncio.to_thread(_decide, request)  # of a long conversation it takes a while
        output = _tokens(text)
        for piece in _pieces(text):
            yield TextDelta(piece)
            await asyncio.sleep(0)
        for call in calls:
            arguments = msgspec.json.encode(call.arguments).decode()
            output += _tokens(arguments)
            yield ToolCallBegan(call.id, call.name)
            middle = len(arguments) // 2
            for piece in (arguments[:middle], arguments[middle:]):
                yield ToolCallDelta(call.id, piece)
                await asyncio.sleep(0)
            yield call
        taken = await asyncio.to_thread(_taken, request)
        usage = Usage(input=taken, output=output, total_tokens=taken + output)
        yield Finished("toolUse" if calls else "stop", usage)


def _taken(request: ModelRequest) -> int:
    return _tokens(request.system) + sum(tokens(message) for message in request.messages)


def _tokens(text: str) -> int:
    return -(-len(text) // CHARS_A_TOKEN)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end where words end."""
    start = 0
    while start < len(text):
        end = min(start + DELTA_CHARS, len(text))
        if end < len(text) and (space := text.rfind(" ", start, end)) > start:
            end = space + 1
        yield text[start:end]
        start = end


# --- what to do next --------------------------------------------------------------------------------------


def _decide(request: ModelRequest) -> tuple[str, list[ToolCallMade]]:
    asked, since = _turn(request.messages)
    if asked is None:
        return HELP, []
    words = _wanted(asked, request.messages)
    if not words and asked.origin == "correction":
        return f"The work was sent back, and I can't fix it myself. {AGAIN} {OFFLINE}", []
    if _wants_summary(words, request):
        return _summary(request.messages), []
    if len(words) > MAX_REQUEST:
        return f"That is {len(words)} characters; I follow requests of at most {MAX_REQUEST}. {OFFLINE}", []
    rounds, unknown = plan(words)
    if not rounds:
        return (HELP if unknown is None else f'I don\'t know how to do "{_short(unknown)}". {HELP}'), []

    results = {result.tool_call_id: result for result in since if isinstance(result, ToolResult)}
    made = [message.calls for message in since if isinstance(message, Assistant) and message.calls]
    done = [
        (step, results.get(call.id)) for steps, calls in zip(rounds, made) for step, call in zip(steps, calls)
    ]
    failed = any(result is None or result.is_error for _, result in done)
    if failed or len(made) >= len(rounds):
        left = [step for steps in rounds[len(made) :] for step in steps]
        return _report(done, left, unknown), []

    steps = rounds[len(made)]
    offered = {tool.name: tool for tool in request.tools}
    if missing := next((step for step in steps if step.tool not in offered), None):
        lack = f"To {missing.title} I would need the tool `{missing.tool}`, which I was not given."
        return f"{_report(done, [], None, closing=False)}{lack}\n\n{OFFLINE}", []
    titles = " and ".join(step.title for step in steps)
    seed = hashlib.blake2s(msgspec.json.encode(request.messages[-1]), digest_size=6)
    seed.update(str(len(request.messages)).encode())
    calls = [
        ToolCallMade(f"guide-{seed.hexdigest()}-{number}", step.tool, _fit(step, offered[step.tool]))
        for number, step in enumerate(steps)
    ]
    return f"I will {titles}.\n", calls


def _wanted(asked: User, messages: Sequence[Message]) -> str:
    """What there is to do: what was asked, or, if that is a correction, what was said for that case.

    Prompts that came together, before anything was answered, are one request.
    """
    if asked.origin != "correction":
        together: list[str] = []
        for message in reversed(messages[: _last_asked(messages) + 1]):
            if not isinstance(message, User) or message.origin == "correction":
                break
            if message is not asked and message.prompt is msgspec.UNSET:  # what a person's command printed
                break
            together.append(_SENT_BACK.split(text_of(message).split(f"\n{ASIDE}\n")[0])[0])
        return "\n".join(reversed(together))
    times = 0
    for message in reversed(messages):
        if isinstance(message, User):
            if message.origin != "correction":
                later = _SENT_BACK.split(text_of(message))[1:]
                return later[times - 1].strip() if times <= len(later) else ""
            times += 1
    return ""


def _turn(messages: Sequence[Message]) -> tuple[User | None, Sequence[Message]]:
    """The last user message and what came after it."""
    at = _last_asked(messages)
    found = messages[at] if at >= 0 else None
    return (found, messages[at + 1 :]) if isinstance(found, User) else (None, ())


def _last_asked(messages: Sequence[Message]) -> int:
    """Where the last user message is; -1 without one."""
    return next((at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], User)), -1)


def _report(
    done: list[tuple[GuideStep, ToolResult | None]],
    left: list[GuideStep],
    unknown: str | None,
    closing: bool = True,
) -> str:
    lines = []
    for step, result in done:
        if result is None:
            lines.append(f"Could not {step.title}: no result arrived.")
        elif result.is_error:
            lines.append(f"Could not {step.title}: {_excerpt(text_of(result))}")
        else:
            lines.append(f"Done: {step.title}.\n{_excerpt(text_of(result))}")
    if left:
        lines.append("I stopped there and did not " + ", ".join(step.title for step in left) + ".")
    elif unknown is not None:
        lines.append(
            f'I stopped there: I don\'t know how to do "{_short(unknown)}". `help` says what I can do.'
        )
    if closing:
        lines.append(f"{OFFLINE} `help` lists them.")
    return "\n\n".join(lines) + ("" if closing or not lines else "\n\n")


def _excerpt(text: str) -> str:
    lines = text.strip().splitlines()
    if not lines:
        return "(nothing)"
    shown = "\n".join(lines[:SHOWN_LINES])[:SHOWN_CHARS]
    left = len(lines) - shown.count("\n") - 1
    return shown + (f"\n… and {counted(left, 'more line')}" if left else "")


def _short(text: str, limit: int = 80) -> str:
    line = " ".join(text[: 8 * limit].split())
    return line if len(line) <= limit and len(text) <= 8 * limit else line[: limit - 1] + "…"


def _wants_summary(words: str, request: ModelRequest) -> bool:
    if re.match(r"\W*(?:please\s+)?(?:summar|sum up)", words, re.IGNORECASE):
        return True
    return not request.tools and bool(re.search(r"summar|sum up", request.system, re.IGNORECASE))


def _summary(messages: Sequence[Message]) -> str:
    """What was asked so far, for a person or for a conversation that is made shorter.

    What is to be summed up is the conversation itself, or a transcript of it in the last message.
    """
    *asked, last = [text_of(message) for message in messages if isinstance(message, User)]
    asked += re.findall(r"^User: (.+)", last, re.MULTILINE)
    touched = dict.fromkeys(
        str(part.arguments["path"])
        for message in messages
        if isinstance(message, Assistant)
        for part in message.calls
        if "path" in part.arguments
    )
    lines = [f"{len(asked)} requests so far; the last ones:" if asked else "No requests so far."]
    lines += [f"- {_short(each)}" for each in asked[-SUMMED_REQUESTS:]]
    if touched:
        lines.append("Files and directories: " + ", ".join(list(touched)[-SUMMED_REQUESTS:]))
    return "\n".join([*lines, "", OFFLINE])


# --- a step's values in the words of the tool that is offered ---------------------------------------------

_NAMES = {
    "path": ("path", "file_path", "file", "directory"),
    "pattern": ("pattern", "query", "glob"),
    "command": ("command", "cmd"),
    "content": ("content", "text"),
    "old": ("oldText", "old_text", "old_string", "old"),
    "new": ("newText", "new_text", "new_string", "new"),
    "offset": ("offset",),
    "limit": ("limit",),
    "literal": ("literal",),
}


def _fit(step: GuideStep, tool: ToolSpec) -> dict[str, Any]:
    """The arguments: each value under the first name for it that the tool's schema has."""
    known = tool.parameters.get("properties", {})
    if "edits" in known and "old" in step.values:
        entry = known["edits"].get("items", {}).get("properties", {})
        edit = {_name(key, entry): step.values[key] for key in ("old", "new")}
        return {_name("path", known): step.values["path"], "edits": [edit]}
    optional = ("literal", "offset", "limit")
    return {
        _name(key, known): value
        for key, value in step.values.items()
        if key not in optional or _name(key, known) in known
    }


def _name(key: str, known: dict[str, Any]) -> str:
    return next((name for name in _NAMES[key] if name in known), _NAMES[key][0])


# --- what was asked for -----------------------------------------------------------------------------------

_QUOTED = r"`[^`]*`|\"[^\"]*\"|'[^']*'"
_WORD = rf"(?:{_QUOTED}|\S+)"
_POLITE = re.compile(
    r"^(?:(?:please|now|next|first|finally|and|can you|could you|then)\b[,:]?\s+)+", re.IGNORECASE
)
# One blank, not many: a pattern that is tried at every place must not look far from each.
_THEN = re.compile(r"(?<!;)[,.]?\s(?:and\s+)?then\s+", re.IGNORECASE)
_AND = re.compile(r"\sand\s", re.IGNORECASE)
_READING = ("ls", "read", "grep", "find")


def plan(words: str) -> tuple[list[list[GuideStep]], str | None]:
    """The steps that a request asks for, in rounds that can run at the same time.

    Stops at the first thing that is not understood, and gives it back too; a request for help is no step.

    >>> plan("list src then run: make")[0][1][0].title
    'run `make`'
    """
    rounds: list[list[GuideStep]] = []
    for piece in _wishes(words):
        steps = _together(piece)
        if not steps:
            return rounds, None if _asks_help(piece) else piece
        if len(rounds) == MAX_STEPS:
            return rounds, piece
        rounds.append(steps)
    return rounds, None


def _wishes(words: str) -> Iterator[str]:
    """Lines, cut at "then"; a text that is to be written takes the lines below it."""
    lines = words.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        line = re.sub(r"^(?:[-*]|\d+[.)])\s+", "", line)
        if not line:
            continue
        *before, last = _cut(line)
        yield from before
        if re.match(rf"(?i)write\s+{_WORD}\s*:?$", _POLITE.sub("", last)) and last.endswith(":"):
            body, at = _body(lines, at)
            last = f"{last}\n{body}"
        yield last


def _body(lines: list[str], at: int) -> tuple[str, int]:
    """The text below a line: a fenced block, else everything. Gives the line after it too."""
    if at < len(lines) and lines[at].startswith("```"):
        for end in range(at + 1, len(lines)):
            if lines[end].startswith("```"):
                return "".join(f"{line}\n" for line in lines[at + 1 : end]), end + 1
        at += 1
    return "".join(f"{line}\n" for line in lines[at:]), len(lines)


def _cut(line: str) -> list[str]:
    """The line, cut at each "then" that stands outside of quotes and before something we know."""
    pieces = []
    start = ticks = seen = 0
    for match in _THEN.finditer(line):
        ticks += line.count("`", seen, match.start())
        seen = match.start()
        if ticks % 2 == 0 and _begins(line, match.end()):
            pieces.append(line[start : match.start()])
            start = match.end()
    return [*pieces, line[start:]]


_VERBS = r"(?:list|ls|read|cat|show|open|search|grep|look for|find|run|bash|edit|replace|write|help|\$)"
_BEGINS = re.compile(rf"(?:(?:please|finally)\s+)?{_VERBS}(?![\w-])", re.IGNORECASE)


def _begins(line: str, at: int) -> bool:
    return _BEGINS.match(line, at) is not None


def _together(piece: str) -> list[GuideStep]:
    """The step, or several reading ones that are joined by "and"."""
    parts = _AND.split(piece)
    if len(parts) > 1 and "`" not in piece and '"' not in piece:
        steps = [_step(part) for part in parts]
        found = [step for step in steps if step is not None and step.tool in _READING]
        if len(found) == len(parts) <= MAX_STEPS:
            return found
    step = _step(piece)
    return [step] if step else []


def _asks_help(piece: str) -> bool:
    return bool(re.match(r"(?i)\W*(?:(?:help|hello|hi|hey|what can you do)\b|$)", piece))


def _step(piece: str) -> GuideStep | None:
    text = _POLITE.sub("", piece.lstrip())
    for pattern, make in _GRAMMAR:
        if match := pattern.fullmatch(text):
            return make(match)
    return None


def _bare(word: str | None) -> str:
    """A name without quotes, and without the full stop or question mark of its sentence."""
    word = (word or "").strip()
    if len(word) > 1 and word[0] == word[-1] and word[0] in "`\"'":
        return word[1:-1]
    word = word.rstrip("?!,")
    return word[:-1] if word.endswith(".") and word.strip("./") and not word.endswith("..") else word


def _where(match: re.Match[str]) -> dict[str, Any]:
    path = _bare(match["path"])
    return {"path": path} if path else {}


def _list(match: re.Match[str]) -> GuideStep:
    values = _where(match)
    return GuideStep("ls", values, f"list `{values.get('path', '.')}`")


def _read(match: re.Match[str]) -> GuideStep:
    values = _where(match)
    if match["first"]:
        first = int(match["first"])
        values["offset"] = first
        values["limit"] = max(int(match["last"] or first) - first + 1, 1)
    return GuideStep("read", values, f"read `{values['path']}`")


def _grep(match: re.Match[str]) -> GuideStep:
    values = {"pattern": _bare(match["what"]), **_where(match)}
    if match["verb"].lower() != "grep":
        values["literal"] = True
    place = f" in `{values['path']}`" if "path" in values else ""
    return GuideStep("grep", values, f"search for `{_short(values['pattern'])}`{place}")


def _find(match: re.Match[str]) -> GuideStep:
    values = {"pattern": _bare(match["what"]), **_where(match)}
    place = f" in `{values['path']}`" if "path" in values else ""
    return GuideStep("find", values, f"find `{_short(values['pattern'])}`{place}")


def _run(match: re.Match[str]) -> GuideStep:
    command = match["command"].strip()
    if len(command) > 2 and command[0] == command[-1] == "`" and command.count("`") == 2:
        command = command[1:-1]
    return GuideStep("bash", {"command": command}, f"run `{_short(command)}`")


def _edit(match: re.Match[str]) -> GuideStep:
    values = {**_where(match), "old": match["old"][1:-1], "new": match["new"][1:-1]}
    return GuideStep("edit", values, f"edit `{values['path']}`")


def _write(match: re.Match[str]) -> GuideStep:
    text = match["text"]
    text = text[1:] if text.startswith("\n") else _unquoted(text.strip())
    return GuideStep("write", {**_where(match), "content": text}, f"write `{_bare(match['path'])}`")


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "`" else text


def _grammar(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_PLACE = rf"(?:\s(?:in|under|inside)\s+(?:the\s+)?(?P<path>{_WORD}))?"
_REPLACE = rf"replace\s+(?P<old>{_QUOTED})\s+(?:with|by)\s+(?P<new>{_QUOTED})"
_GRAMMAR = (
    (_grammar(r"(?:(?:run|bash)\s*:\s*|(?:run|bash)\s+|\$\s*)(?P<command>\S.*)"), _run),
    (_grammar(rf"edit\s+(?P<path>{_QUOTED}|[^\s:]+)\s*:?\s+{_REPLACE}\.?"), _edit),
    (_grammar(rf"{_REPLACE}\s+in\s+(?P<path>{_WORD})"), _edit),
    (_grammar(rf"write\s+(?P<path>{_QUOTED}|[^\s:]+)\s*:(?P<text>.*)"), _write),
    (_grammar(rf"(?:list|ls)(?:\s+(?:the\s+)?files)?(?:\s+in)?(?:\s+(?P<path>{_WORD}))?"), _list),
    (_grammar(rf"show\s+(?:the\s+)?files(?:\s+in)?(?:\s+(?P<path>{_WORD}))?"), _list),
    (
        _grammar(
            rf"(?:read|cat|show|open)\s+(?:the\s+)?(?:file\s+)?(?P<path>{_QUOTED}|\S+?)"
            r"(?:(?:\s+lines?\s+|:)(?P<first>\d{1,9})(?:\s*(?:-|to)\s*(?P<last>\d{1,9}))?)?"
        ),
        _read,
    ),
    (_grammar(rf"(?P<verb>grep)\s+(?P<what>{_WORD})(?:\s+in)?\s+(?P<path>{_WORD})"), _grep),
    (
        _grammar(
            rf"(?P<verb>search\s+for|search|look\s+for|grep(?:\s+for)?)\s+(?P<what>{_QUOTED}|.+?){_PLACE}"
        ),
        _grep,
    ),
    (
        _grammar(rf"find\s+(?:all\s+)?(?:files?\s+)?(?:named\s+|called\s+)?(?P<what>{_WORD}){_PLACE}"),
        _find,
    ),
)
