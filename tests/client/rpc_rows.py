"""Tables of what `fairlead rpc` is asked, and which frames come out.

One process and one daemon serve a whole table. A row begins with a session of its own and may have several
steps; every frame is compared whole. What a model says is on a cassette, so a turn is the same in each run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire.rpc import fields
from tests.agent.openai_server import OpenAiServer, failure
from tests.agent.playing import cassette, says
from tests.client.frontends import (
    DATA,
    EVENT,
    ID,
    KIND,
    OP,
    PATIENCE,
    REQUIRED,
    Frontend,
    Names,
    filled,
    strictly,
)
from tests.hosting import Hosting

# --- frames that are wanted ---------------------------------------------------------------------------------

Frame = dict[Any, Any]
Wanted = Callable[[str, str], Frame]
"""A frame, by the id and the op of the request that it answers or belongs to."""


def ok(data: str, *, id: str | None = None, op: str | None = None) -> Wanted:
    """A response, to the step's request or to an earlier one."""

    def frame(own_id: str, own_op: str) -> Frame:
        kind, answered = Keyword("response"), edn.loads(data)
        return {ID: id or own_id, KIND: kind, OP: op or own_op, Keyword("ok"): True, DATA: answered}

    return frame


def error(code: str, message: str, data: str | None = None) -> Wanted:
    def frame(id: str, op: str) -> Frame:
        shown = {Keyword("error-code"): code, Keyword("error-message"): message}
        more = {} if data is None else {DATA: edn.loads(data)}
        return {KIND: Keyword("error"), ID: id, OP: op, **shown, **more}

    return frame


def event(topic: str, data: str | Frame, *, asked: bool = False) -> Wanted:
    """An event; one that was `asked` for carries the id of the request."""

    def frame(id: str, op: str) -> Frame:
        shown = {KIND: EVENT, EVENT: topic, DATA: edn.loads(data) if isinstance(data, str) else data}
        return shown | {ID: id} if asked else shown

    return frame


class Look(NamedTuple):
    """How a session looks to clients."""

    id: str = "S1"
    title: str = "(session S1)"
    phase: str = "idle"
    name: str | None = None
    model: str = "replay"
    provider: str = "offline"
    reasoning: bool = True
    level: str = "off"
    used: str = "?/1.0M"
    waiting: int = 0
    approvals: int = 0
    retry: int = 0
    interrupting: bool = False
    interrupted: bool = False
    parent: str | None = None

    @property
    def is_streaming(self) -> bool:
        return self.phase in ("streaming", "retrying")

    @property
    def label(self) -> str:
        return f"({self.provider}) {self.model}" + (f" • thinking {self.level}" if self.reasoning else "")

    def updated(self) -> Frame:
        level = self.level if self.reasoning else "off"
        effort = {"xhigh": "high"}.get(level, level) if self.reasoning else None
        return fields(
            session_id=self.id,
            session_file=f"/sessions/{self.id}.jsonl",
            session_name=self.name,
            session_display_name=self.title,
            phase=self.phase,
            is_streaming=self.is_streaming,
            is_compacting=self.phase == "compacting",
            pending_message_count=self.waiting,
            retry_attempt=self.retry,
            interrupt_pending=self.interrupting,
            was_interrupted=self.interrupted,
            pending_approvals=self.approvals,
            model_provider=self.provider,
            model_id=self.model,
            model_reasoning=self.reasoning,
            thinking_level=level,
            effective_reasoning_effort=effort,
            header_model_label=self.label,
            status_session_line=f"session: {self.title} • {self.phase}",
            extension_command_names=[],
            prompt_templates=[],
        )

    def footer(self) -> Frame:
        return fields(
            session_id=self.id,
            path_line="/project" + (f" • {self.name}" if self.name else ""),
            stats_line=f"{self.used} {self.label}",
            usage_parts=self.used.split(" "),
            model_text=self.label,
            status_line=f"{self.approvals} waiting for consent" if self.approvals else None,
        )

    def row(self, active: str) -> Frame:
        state = {"idle": "waiting", "streaming": "running"}.get(self.phase, self.phase)
        return fields(
            id=self.id,
            item_kind="session",
            name=self.name,
            display_name=self.title,
            worktree_path="/project",
            runtime_state=state,
            is_streaming=self.is_streaming,
            is_active=self.id == active,
            parent_session_id=self.parent,
            created_at="now",
            updated_at="now",
        )


def context(active: str, looks: Sequence[Look]) -> Frame:
    """All sessions of a row, and their tree."""
    known = {look.id for look in looks}
    lines = []
    for look in looks:
        is_current, state = look.id == active, look.row(active)[Keyword("runtime-state")]
        mark = " ← current" if is_current else ""
        text = f"{look.title} [{look.id}] — then / now — /project{mark} [{state}]"
        line = fields(
            text=("  " if look.parent in known else "") + text, runtime_state=state, is_current=is_current
        )
        action = fields(type="command", command=f"/tree {look.id}")
        lines.append(line if is_current else line | fields(action=action))
    widget = fields(
        placement="left", extension_id="psi-session", widget_id="session-tree", content_lines=lines
    )
    rows = [look.row(active) for look in looks]
    return fields(active_session_id=active, sessions=rows, session_tree_widget=widget)


def shown(look: Look, *all_of_them: Look, active: str | None = None, asked: bool = True) -> list[Wanted]:
    """A session as it is now, which is the active one, and all sessions in the order they are listed."""
    return [
        event("session/updated", look.updated(), asked=asked),
        event("footer/updated", look.footer(), asked=asked),
        event("context/updated", context(active or look.id, all_of_them or (look,)), asked=asked),
    ]


def told(look: Look, *all_of_them: Look, active: str | None = None) -> list[Wanted]:
    """The same, as every client is told it."""
    return shown(look, *all_of_them, active=active, asked=False)


class Step(NamedTuple):
    """A request, and all frames that come until something else is asked."""

    op: str
    params: str
    wanted: tuple[Wanted, ...]
    answers: Sequence[list[dict[str, Any]]] = ()
    """What the model says from now on."""
    is_answered: bool = True


class Row(NamedTuple):
    steps: tuple[Step, ...]
    topics: str


def step(op: str, params: str, *wanted: Wanted, answers: Any = (), is_answered: bool = True) -> Step:
    return Step(op, params, wanted, answers, is_answered)


def row(name: str, *steps: Step, topics: str = " ".join(REQUIRED)) -> Any:
    return pytest.param(Row(steps, topics), id=name)


def strings(words: str) -> str:
    return "[" + " ".join(f'"{word}"' for word in words.split()) + "]"


class Table:
    """The process that serves all rows."""

    def __init__(self, hosting: Hosting, front: Frontend, tape: Path) -> None:
        self.hosting = hosting
        self.front = front
        self.tape = tape

    def begin(self, topics: str = " ".join(REQUIRED)) -> Names:
        """A new session in focus, which is S1."""
        front = self.front
        (front.directory / "out.txt").unlink(missing_ok=True)
        front.ask("unsubscribe")
        front.ask("subscribe", f"{{:topics {strings(topics)}}}")
        names = Names(front)
        names.shown(front.ask("new_session"))
        return names

    def play(self, row: Row) -> None:
        names = self.begin(row.topics)
        try:
            for number, each in enumerate(row.steps, 1):
                self.play_step(names, each, f"r{number}")
        except BaseException:
            self._silence(names.real('{:session-id "<S1>"}'))
            raise

    def _silence(self, session: str) -> None:
        """End what still runs, as the next row is to hear nothing of it."""
        deadline = time.monotonic() + PATIENCE
        self.front.ask("abort", session)
        while self.front.ask("get_state", session)[DATA][Keyword("state")][Keyword("phase")] != "idle":
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def play_step(self, names: Names, step: Step, id: str) -> None:
        if step.answers:
            cassette(self.tape, *step.answers)
        request = f'{{:id "{id}" :kind :request :op "{step.op}" :params {step.params}}}'
        frames = self.front.exchange(names.real(request), len(step.wanted), id if step.is_answered else None)
        got = [names.shown(frame) for frame in frames]
        wanted = [make(id, step.op) for make in step.wanted]
        differences = [
            f"wanted {_shown(should)}\n   got {_shown(frame)}"
            for should, frame in zip_longest(filled(wanted, got), got)
            if strictly(should) != strictly(frame)
        ]
        assert not differences, "\n".join([request, *differences])


def _shown(frame: Frame | None) -> str:
    return "nothing" if frame is None else edn.dumps(dict(sorted(frame.items(), key=str)))


CONFIG = """
[agent]
model = "offline/replay"
cassette = "{tape}"
cassette_timing = true

[providers.busy]
base_url = "{url}"

[[models]]
provider = "busy"
id = "signal"
name = "Engaged"
window = 1000000
"""


@contextmanager
def serving(directory: Path) -> Iterator[Table]:
    """A daemon, a process in front of it, and a server that is always busy."""
    project, tape = directory / "project", directory / "tape.jsonl"
    project.mkdir()
    (project / "notes.txt").write_text("buy milk\n")
    hosting = Hosting()
    config = Path(hosting.environment["HOME"], ".config/fairlead/config.toml")
    config.parent.mkdir(parents=True)
    with OpenAiServer(lambda request: failure(503, "too much to do")) as server:
        config.write_text(CONFIG.format(tape=tape, url=server.url))
        front = Frontend(hosting, project)
        try:
            front.handshake()
            table = Table(hosting, front, tape)
            table.begin()  # so that the session of the first subscription is seen, whatever row comes first
            yield table
        finally:
            front.end()
            hosting.close()


# --- what many rows want ------------------------------------------------------------------------------------


def usage(input: int = 10, output: int = 5, total: int = 15) -> str:
    return (
        f"{{:input-tokens {input} :output-tokens {output} :cache-read-tokens 0 :cache-write-tokens 0"
        f" :total-tokens {total} :cost 0.0}}"
    )


def said(id: str, content: str, text: str, stop: str = "stop", used: str = usage(), why: str = "nil") -> str:
    """A message of the assistant. One without text has none; what went wrong is in it."""
    if why != "nil":
        content += f" {{:type :error :text {why}}}"
    shown = f':text "{text}"' if text else f":text {why}" if why != "nil" else ""
    return (
        f'{{:id "{id}" :role "assistant" :content [{content}] {shown} :stop-reason :{stop}'
        f" :error-message {why} :usage {used}}}"
    )


def says_text(id: str, text: str, **more: str) -> str:
    return said(id, f'{{:type :text :text "{text}"}}', text, **more)


def message(shown: str) -> Wanted:
    return event("assistant/message", edn.loads(shown) | fields(session_id="S1"))


def delta(text: str) -> Wanted:
    return event("assistant/delta", fields(text=text, session_id="S1"))


def footer(look: Look) -> Wanted:
    return event("footer/updated", look.footer())


def phase(title: str, now: str, **more: Any) -> Wanted:
    return event("session/updated", Look(title=title, phase=now, **more).updated())


def of_s1(topic: str, data: str) -> Wanted:
    return event(topic, edn.loads(data) | fields(session_id="S1"))


def result(kind: str, text: str, session: str = "S1") -> Wanted:
    """How a command ended."""
    return event("command-result", fields(type=kind, message=text, session_id=session), asked=True)


NEW = Look()
S2 = Look("S2", "(session S2)")
GUIDE = Look(model="guide", reasoning=False)
ASKED = Look(title="hi", phase="streaming", used="0.0%/1.0M")
ANSWERED = ASKED._replace(used="↑10 ↓5 0.0%/1.0M")
DONE = ANSWERED._replace(phase="idle")
STEPPED = ASKED._replace(used="↑20 ↓10 0.0%/1.0M")
TURN = [
    *told(ASKED),
    delta("hello"),
    delta("hello there"),
    message(says_text("#1", "hello there")),
    *told(ANSWERED),
    *told(DONE),
]
UI = [
    event("ui/widgets-updated", "{:widgets []}"),
    event("ui/widget-specs-updated", "{}"),
    event("ui/status-updated", "{:statuses []}"),
]
ACCEPTED = ok("{:accepted true}")
HANDLED = ok("{:accepted true :handled true}")
ENTERED = ok('{:session-id "S2" :session-file "/sessions/S2.jsonl"}')
USER = '{:id "#2" :role "user" :content [{:type :text :text "hi"}] :text "hi"}'

SAID = f"[{USER}{says_text('#1', 'hello there')}]"
PROMPT = step("prompt", '{:message "hi"}', ACCEPTED, *TURN, answers=[says("hello there")])

HOLD = [
    {"event": "text", "text": "one moment"},
    {"event": "finished", "at": 60.0, "stop_reason": "stop", "usage": {}},
]
HELD = step("prompt", '{:message "hi"}', ACCEPTED, *told(ASKED), delta("one moment"), answers=[HOLD])
"""A turn that runs until it is aborted,"""
STOPPED = [
    of_s1(
        "assistant/message",
        '{:role "assistant" :content [{:type :error :text "Aborted"}] :text "[error] Aborted"'
        ' :stop-reason :aborted :error-message "Aborted"}',
    ),
    *told(ASKED),
    *told(ASKED._replace(phase="idle")),
]
ABORT = step("abort", "{}", ACCEPTED, *STOPPED)
"""and what an abort makes of it."""
NO_KEY = (
    "invalid request parameter :provider: can't enter a key for offline: it needs no key; providers with "
    "keys are"
    " openai, anthropic, google, openrouter, busy"
)


def listed(title: str, *rows: str) -> str:
    """A list as commands show it."""
    return "\n".join([f"── {title} ".ljust(39, "─"), *rows, "─" * 39])


def command(text: str, *wanted: Wanted, then: Sequence[Wanted] | None = None, after: Look = NEW) -> Step:
    """A slash command, and the events before its answer, how the session is at the end."""
    then = shown(after)[:2] if then is None else then
    return step("command", f"{{:text {edn.dumps(text)}}}", *wanted, *then, HANDLED)


def resumed(look: Look, *rows: Look, **more: Any) -> list[Wanted]:
    """What is shown of a session that a client turns to."""
    return [*entered(look, **more), *shown(look, *rows)]


def entered(look: Look, count: int = 0, messages: str = "[]", tools: str = "") -> list[Wanted]:
    """The conversation of a session that a client turns to."""
    head = f'{{:session-id "{look.id}" :session-file "/sessions/{look.id}.jsonl" :message-count {count}}}'
    tools = tools or ":tool-calls {} :tool-order []"
    body = f'{{:session-id "{look.id}" :messages {messages} {tools}}}'
    return [
        event("session/resumed", head, asked=True),
        event("session/rehydrated", body, asked=True),
    ]


def state(look: Look, tokens: int = 0, **changed: Any) -> str:
    """What `get_state` gives."""
    more = fields(
        auto_retry_enabled=True,
        auto_compaction_enabled=False,
        steering_messages=[],
        follow_up_messages=[],
        worktree_path="/project",
        context_tokens=tokens,
        context_window=1_000_000,
    )
    return edn.dumps(fields(state={**look.updated(), **more, **fields(**changed)}))
