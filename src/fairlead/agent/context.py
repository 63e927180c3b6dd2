"""What of a journal a model is shown, and how much that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from ..formats.shown import name_fault
from ..sessions.session import RESTARTED
from .journal import (
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Journal,
    ModelChange,
    Said,
    SessionInfoEntry,
    ThinkingLevelChange,
)
from .messages import Assistant, Image, Message, Text, ToolCall, ToolResult, Usage, User, text_of

CHARS_A_TOKEN = 4
"""A rough measure: what a token is differs from model to model."""
IMAGE_TOKENS = 1200
SUMMARIZE = (
    "You sum up a conversation between a person and a coding agent, so that the agent can go on without it. "
    "Say what is wanted, what was done and found, which files matter, what is decided and what is left to do."
)
"""What a model is told that sums up a conversation."""
SUMMARY_TITLE = "Previous conversation summary:"


def conversation(branch: Sequence[Entry]) -> list[Message]:
    """The messages that a model is asked with: after a compaction its summary and what was kept."""
    for index in range(len(branch) - 1, -1, -1):
        if isinstance(body := branch[index].body, Compaction):
            kept = body.first_kept_entry_id
            start = next((at for at, each in enumerate(branch) if each.id == kept), index + 1)
            summary = User((Text(f"{SUMMARY_TITLE}\n\n{body.summary}"),))
            return [summary, *_messages_of(branch[start:])]
    return list(_messages_of(branch))


def _messages_of(entries: Iterable[Entry]) -> Iterator[Message]:
    """What a model is shown of some entries."""
    for entry in entries:
        body = entry.body
        if isinstance(body, Said):
            yield body.message
        elif isinstance(body, CustomMessage):
            yield User((Text(body.content),) if isinstance(body.content, str) else body.content)
        elif isinstance(body, BranchSummary):
            yield User((Text(body.summary),))


class Past(NamedTuple):
    """What a session needs to know of its whole journal."""

    usage: Usage
    call_ids: set[str]
    name: str | None
    states: list[ModelChange | ThinkingLevelChange | Custom]
    """What was set in the conversation, in its order."""
    course: Course
    queued: dict[str, str]
    """The texts of prompts that waited to be said when the last program ended, by their ids."""
    lost: list[str]
    """The texts of those that an earlier program's end has dropped, if nothing was said since then."""


def past_of(journal: Journal) -> Past:
    """Read a journal's past. Of a long one that takes a while: call it in a thread."""
    usage, ids, name, queued, lost = Usage(), set[str](), None, dict[str, str](), list[str]()
    for entry in journal.entries:
        body = entry.body
        if isinstance(body, Said) and isinstance(body.message, Assistant):
            usage += body.message.usage
            ids.update(call.id for call in body.message.calls)
        elif isinstance(body, Said) and isinstance(body.message, User):
            queued.pop(str(body.message.prompt), None)
            lost.clear()
        elif isinstance(body, Custom):
            dropped = take_queued(body, journal.header.id, queued)
            lost += [dropped.text] if dropped and dropped.reason == RESTARTED else ()
        elif isinstance(body, SessionInfoEntry):
            name = "" if name_fault(body.name) else body.name
    bodies = [entry.body for entry in journal.branch]
    kinds = ModelChange | ThinkingLevelChange | Custom
    course = Course(journal)
    course.catch_up()
    states = [body for body in bodies if isinstance(body, kinds)]
    return Past(usage, ids, name, states, course, queued, lost)


class Unsent(NamedTuple):
    """A prompt that was accepted and never said."""

    text: str
    reason: str


def take_queued(body: Custom, session: str, queued: dict[str, str]) -> Unsent | None:
    """Take in an entry about a prompt that waits, or no longer does: returns one that was dropped. A fork has
    those of its parent too."""
    match body.data:
        case {"id": str(id), "session": str(asked), "text": str(text)} if body.custom_type == QUEUED:
            if asked == session:
                queued[id] = text
        case {"id": str(id), **more} if body.custom_type == DROPPED and id in queued:
            return Unsent(queued.pop(id), str(more.get("reason") or "dropped"))
    return None


def unanswered(branch: Sequence[Entry]) -> list[ToolCall]:
    """The calls since somebody said something that have no result."""
    answered: set[str] = set()
    found: list[ToolCall] = []
    for entry in reversed(branch):
        if not isinstance(entry.body, Said):
            continue
        message = entry.body.message
        if isinstance(message, ToolResult):
            answered.add(message.tool_call_id)
        elif isinstance(message, Assistant):
            found[:0] = [call for call in message.calls if call.id not in answered]
        else:
            break
    return found


def last_prompts(branch: Sequence[Entry]) -> list[str]:
    """The ids of the prompts that the last run answers."""
    found: list[str] = []
    for entry in reversed(branch):
        message = entry.body.message if isinstance(entry.body, Said) else None
        if isinstance(message, User):
            if isinstance(message.prompt, str):
                found.append(message.prompt)
            if not message.origin:
                break
    return found[::-1]


Ending = Literal["done", "failed", "aborted", "interrupted", "lost"]
"""How a turn ended; `lost` is one whose program did before it."""
LOST = "interrupted: the daemon ended before the turn did"
"""What the last message of a lost turn says, written by the next daemon."""
ONE_SHOT, KEPT = "fairlead/one-shot", "fairlead/kept"
"""The custom entries of a session that a script opened for one prompt, and that was opened again after it."""
MODE = "fairlead/mode"
"""The custom entry that says which mode a person chose."""
STOPPED = "fairlead/stopped"
"""The custom entry that says how a person stopped a turn, where the last message does not."""
QUEUED, DROPPED = "fairlead/prompt-queued", "fairlead/prompt-dropped"
"""The custom entries of a prompt that waits to be said, and of one that will not be."""


class JournalTurn(NamedTuple):
    """What a person asked for and all that came of it. Lines are those of the journal, both included."""

    number: int
    prompt: str
    first_line: int
    last_line: int
    corrections: int
    """How often a verifier sent it back."""
    outcome: Ending = "lost"
    """How its last run ended, as the journal tells it; `lost` also while it goes on."""
    fault: str = ""
    """Why it failed, if it did."""
    prompt_id: str = ""
    """The id of the prompt, if it has one."""


def _ending(message: Message) -> tuple[Ending, str]:
    """How a run has ended if this is the last message of it, and why if it failed."""
    if not isinstance(message, Assistant):
        return "lost", ""
    match message.stop_reason:
        case "error" if message.error_message == LOST:
            return "lost", ""
        case "error":
            return "failed", message.error_message or "the model failed"
        case "aborted":
            return "aborted", ""
        case "length":
            return "failed", "the model's answer was cut off at its limit of tokens"
    return ("lost" if message.calls else "done"), ""


def _stopped(entry: Entry) -> Ending | None:
    """How a person stopped the turn, if the entry says that."""
    body = entry.body
    if not isinstance(body, Custom) or body.custom_type != STOPPED:
        return None
    return "interrupted" if body.data == "interrupted" else "aborted"


class Course:
    """What is asked of a journal again and again, kept up with it: a look costs as much as there is new."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._counted = 0
        self._counts: Counter[type] = Counter()
        self._restart()

    def _restart(self) -> None:
        self._branch: Sequence[Entry] = ()
        self._said: list[Message] = []
        self._messages_of: list[Message] = []
        self._tokens = 0
        self._turns: list[JournalTurn] = []
        self._last: JournalTurn | None = None  # the last one as it began; what follows has its rest
        self._corrections = 0
        self._ending: Message | Ending = "lost"

    def catch_up(self) -> None:
        """Look at what is new. The first look at a long journal takes a while: have it in a thread."""
        branch = self._journal.branch
        if branch is self._branch:
            return
        at = len(self._branch)
        if at and (len(branch) < at or branch[at - 1] is not self._branch[-1]):  # another branch
            self._restart()
            at = 0
        new = branch[at:]
        for entry in new:
            self._take(entry)
        self._branch = branch
        if not at or any(isinstance(entry.body, Compaction) for entry in new):
            self._messages_of = conversation(branch)
            self._tokens = _tokens_of(self._messages_of)
            return
        for message in _messages_of(new):
            self._messages_of.append(message)
            used = message.usage.total_tokens if isinstance(message, Assistant) else 0
            self._tokens = used or self._tokens + tokens(message)

    def _take(self, entry: Entry) -> None:
        said = entry.body.message if isinstance(entry.body, Said) else None
        if said is not None:
            self._said.append(said)
        if isinstance(said, User) and said.origin is msgspec.UNSET:
            if (last := self._last_turn) is not None:
                self._turns.append(last)
            number = len(self._turns) + 1
            id = said.prompt or ""
            self._last = JournalTurn(number, text_of(said), entry.line, entry.line, 0, prompt_id=id)
            self._corrections, self._ending = 0, "lost"
        elif said is not None:
            self._corrections += isinstance(said, User) and said.origin == "correction"
            self._ending = said
        else:
            self._ending = _stopped(entry) or self._ending
        self._last_line = entry.line

    @property
    def _last_turn(self) -> JournalTurn | None:
        if self._last is None:
            return None
        ending = self._ending
        outcome, fault = (ending, "") if isinstance(ending, str) else _ending(ending)
        return self._last._replace(
            last_line=self._last_line, corrections=self._corrections, outcome=outcome, fault=fault
        )

    @property
    def turns(self) -> list[JournalTurn]:
        """All turns of the conversation, corrections and steering being parts of theirs."""
        self.catch_up()
        return [*self._turns, last] if (last := self._last_turn) is not None else []

    @property
    def said(self) -> list[Message]:
        """The conversation as it was said, compacted or not."""
        self.catch_up()
        return list(self._said)

    @property
    def shown(self) -> list[Message]:
        """The conversation as a model is asked with it."""
        self.catch_up()
        return list(self._messages_of)

    @property
    def tokens(self) -> int:
        """About how many tokens that takes: what the model said last, and what came after it."""
        self.catch_up()
        return self._tokens

    @property
    def counts(self) -> Counter[type]:
        """How many messages of each kind, and calls, all branches have."""
        entries = self._journal.entries
        for index in range(self._counted, len(entries)):
            if isinstance(body := entries[index].body, Said):
                self._counts[type(body.message)] += 1
                if isinstance(body.message, Assistant):
                    self._counts[ToolCall] += len(body.message.calls)
        self._counted = len(entries)
        return self._counts


def end_of_turn(branch: Sequence[Entry], id: str) -> str:
    """The last entry of the turn that a prompt begins, or the last result of an answer's calls; any other is
    its own."""
    at = next((at for at, entry in enumerate(branch) if entry.id == id), None)
    if at is None:
        return id
    later = branch[at + 1 :]
    if calls := _calls_of(branch[at]):
        return next((entry.id for entry in reversed(later) if _result_of(entry) in calls), id)
    if not _is_said_by_person(branch[at]):
        return id
    end = next((number for number, entry in enumerate(later) if _is_said_by_person(entry)), len(later))
    return branch[at + end].id


def _calls_of(entry: Entry) -> set[str]:
    """The ids of an answer's calls."""
    if isinstance(entry.body, Said) and isinstance(entry.body.message, Assistant):
        return {call.id for call in entry.body.message.calls}
    return set()


def _result_of(entry: Entry) -> str:
    """The id of the call that an entry has the result of; empty if it has none."""
    if isinstance(entry.body, Said) and isinstance(entry.body.message, ToolResult):
        return entry.body.message.tool_call_id
    return ""


def _is_said_by_person(entry: Entry) -> bool:
    return isinstance(entry.body, Said) and isinstance(entry.body.message, User)


def last_message(branch: Sequence[Entry]) -> Message | None:
    return next((entry.body.message for entry in reversed(branch) if isinstance(entry.body, Said)), None)


def tokens(message: Message) -> int:
    """About how many tokens a message takes."""
    if isinstance(message.content, str):
        return len(message.content) // CHARS_A_TOKEN + 1
    count = 0
    for part in message.content:
        if isinstance(part, Image):
            count += IMAGE_TOKENS
        elif isinstance(part, ToolCall):
            count += (len(part.name) + len(msgspec.json.encode(part.arguments))) // CHARS_A_TOKEN + 1
        else:
            text = part.text if isinstance(part, Text) else part.thinking
            count += len(text) // CHARS_A_TOKEN + 1
    return count


def _tokens_of(shown: Sequence[Message]) -> int:
    later = 0
    for message in reversed(shown):
        if isinstance(message, Assistant) and message.usage.total_tokens:
            return message.usage.total_tokens + later
        later += tokens(message)
    return later


def first_kept(branch: Sequence[Entry], keep: int) -> str | None:
    """The entry from which on about so many tokens are kept; None if there is nothing before it to sum up.

    A result never loses its call, so what is kept begins with what a person or a model said.
    """
    kept = 0
    chosen: int | None = None
    floor = max((at for at, entry in enumerate(branch) if isinstance(entry.body, Compaction)), default=-1)
    for at in range(len(branch) - 1, floor, -1):
        body = branch[at].body
        if not isinstance(body, Said):
            continue
        kept += tokens(body.message)
        if not isinstance(body.message, ToolResult):
            chosen = at
            if kept >= keep:
                break
    if chosen is None or not any(isinstance(each.body, Said) for each in branch[floor + 1 : chosen]):
        return None
    return branch[chosen].id


def transcript(messages: Sequence[Message]) -> str:
    """A conversation as text, to be summed up."""
    lines = []
    for message in messages:
        if isinstance(message, User):
            lines.append(f"User: {text_of(message)}")
        elif isinstance(message, Assistant):
            if text := text_of(message):
                lines.append(f"Assistant: {text}")
            for call in message.calls:
                lines.append(f"Tool call: {call.name} {msgspec.json.encode(call.arguments).decode()}")
        else:
            lines.append(f"Result of {message.tool_name}: {text_of(message)}")
    return "\n\n".join(lines)
