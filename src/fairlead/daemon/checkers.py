"""Builds what checks a turn: commands, a model with read-only tools, or a panel of several.

A checker is called with the stop event of a turn and gives a report. It works in the builder's project, in
the process of whoever verifies; the rooms `agent` and `verify` meet here.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ..agent.consent.policy import Policy
from ..agent.journal import Journal
from ..agent.messages import Assistant, ToolResult, text_of
from ..agent.models import Model, ModelError, ModelInfo, ToolSpec
from ..agent.models.catalog import Catalog
from ..agent.models.keys import KeyFiles
from ..agent.secrets import Redactor, environment_for_commands, is_secret_file, secret_values
from ..agent.session import AgentSession, Decision
from ..agent.tools import Guarded, Result, Tool, ToolContext, Touch, standard_tools
from ..agent.tools.terminals import LocalTerminals
from ..system.settings import SettingError, Settings
from ..system.tree import Changes, Tree, TreeFault, Watch
from ..verify.checks import command, panel
from ..verify.checks.command import Commands
from ..verify.checks.panel import Quorum
from ..verify.checks.persona import Persona, stop_prompt
from ..verify.checks.sandbox import ReadOnly
from ..verify.project.places import Secrets
from ..verify.report import (
    Confidence,
    Report,
    ReportError,
    Section,
    capped,
    lowered,
    not_verified,
    parse_report,
)
from ..wire.verifier import Event

MAX_LOOKS = 500
"""How often a project is looked at before what was kept of it is forgotten."""
TURN_SECONDS = 1800.0
"""How long a model may take for one turn."""
AGAIN = (
    "Your answer has no report that can be read: {why}. Give the report again, whole, and nothing else: the "
    "heading `## Report`, below it STATUS: and CONFIDENCE:, then the sections."
)


class Target(msgspec.Struct, frozen=True):
    """The session that is checked."""

    session_id: str
    socket: str
    project: str
    file: str = ""
    """Its session file."""
    model: str = ""
    """`provider/id` of what builds there, if that is known."""
    line: int | None = None
    """The last line of the turns that it has had, if that is known."""
    is_ours: bool = False
    """Whether our daemon has it, which keeps its reports."""


class Checker(Protocol):
    """Checks turns."""

    name: str
    notes: Sequence[str]
    """What people must know before it begins."""

    async def began(self, start: Event | None) -> None:
        """A turn begins; without one, look at the project before the first."""

    async def check(self, stop: Event) -> Report: ...

    def close(self) -> None: ...


class CheckerEnvironment:
    """What checkers need from the settings."""

    def __init__(self, settings: Settings) -> None:
        try:
            self.catalog = Catalog(settings.config, entered=KeyFiles(f"{settings.state_dir}/keys"))
        except SettingError as error:
            raise settings.located(error) from None
        keys = self.catalog.key_variables()
        self.redactor = Redactor(secret_values(os.environ, keys) | self.catalog.keys())
        self.environment = environment_for_commands(os.environ, keys)
        self.journals = f"{settings.state_dir}/verifiers"
        self._hidden = (Path(settings.state_dir), Path(settings.config_path))

    def reader(self, project: Path, target: Target) -> ReadOnly:
        """Runs commands for a model that checks this session."""
        return ReadOnly(
            project,
            self.environment,
            hidden=self._hidden,
            shown=_readable_paths(target),
            is_secret=lambda path: is_secret_file(path.relative_to(project)),
        )


class _Watching:
    """Remembers how a project was when the turn began. It looks through one watch, which is quick again."""

    def __init__(self, project: str) -> None:
        self._project = Path(project)
        self.notes: Sequence[str] = ()
        self._since: tuple[int | None, Tree] | None = None
        self._watch: Watch | None = None
        self._looks = 0

    async def began(self, start: Event | None) -> None:
        self._since = None
        try:
            tree = await asyncio.to_thread(self._take, start)
        except (TreeFault, OSError):
            return
        if start is not None and tree is not None:
            self._since = start.turn_index, tree

    def since(self, stop: Event) -> Tree | None:
        """How the project was when this turn began, if we saw that."""
        if self._since is None or self._since[0] != stop.turn_index:
            return None
        return self._since[1]

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _take(self, start: Event | None) -> Tree | None:
        self._looks += 1
        if self._looks % MAX_LOOKS == 0:
            last = self.watch.last
            self.close()
            self.watch.last = last
        return self.watch.take_at(start.timestamp / 1000) if start is not None else self.watch.take()

    @property
    def watch(self) -> Watch:
        if self._watch is None:
            self._watch = Watch(self._project)
        return self._watch


class CommandChecker(_Watching):
    """Runs commands."""

    def __init__(self, commands: Commands, target: Target, places: CheckerEnvironment) -> None:
        super().__init__(target.project)
        self.name = commands.name
        self._commands = commands
        self._target = target
        self._places = places

    async def check(self, stop: Event) -> Report:
        report = await command.verify(
            self._commands,
            Path(self._target.project),
            self._places.environment,
            turn=stop.turn_index or 0,
            session_id=self._target.session_id,
            lines=_lines(stop),
            since=self.since(stop),
            watch=await asyncio.to_thread(lambda: self.watch),
        )
        clean = self._places.redactor.value(msgspec.to_builtins(report))
        return msgspec.convert(clean, Report)


class PanelChecker:
    """Asks several, at the same time, and joins what they say."""

    def __init__(self, members: Sequence[Checker], quorum: Quorum) -> None:
        panel.needed(quorum, len(members))
        self.name = "panel"
        self.notes: Sequence[str] = [note for each in members for note in each.notes]
        self._members = members
        self._quorum = quorum

    async def began(self, start: Event | None) -> None:
        await asyncio.gather(*(each.began(start) for each in self._members))

    def close(self) -> None:
        for each in self._members:
            each.close()

    async def check(self, stop: Event) -> Report:
        reports = await asyncio.gather(*(each.check(stop) for each in self._members))
        return panel.join(reports, self._quorum)


# --- models -----------------------------------------------------------------------------------------------


class ModelChecker(_Watching):
    """Lets a model judge, as a persona, with tools that only read."""

    def __init__(self, persona: Persona, info: ModelInfo, target: Target, places: CheckerEnvironment) -> None:
        super().__init__(target.project)
        self.name = persona.name
        self.notes = [persona.note] if persona.note else []
        self._persona = persona
        self._info = info
        self._target = target
        self._places = places

    async def check(self, stop: Event) -> Report:
        begun, now = time.monotonic(), time.time()
        project = Path(os.path.realpath(self._target.project))
        reader = self._places.reader(project, self._target)
        before = await asyncio.to_thread(self._tree)
        path = f"{self._places.journals}/{self._target.session_id}/{int(now * 1000)}_{self.name}.jsonl"
        journal = Journal.create(path, id=os.path.basename(path).removesuffix(".jsonl"), cwd=str(project))
        session = AgentSession(
            journal,
            _OneModel(self._places.catalog, self._info),
            self._tools(reader),
            _Reading(Policy(project, readable=_readable_paths(self._target)), await reader.secrets()),
            lambda event: None,
            system=self._persona.system_prompt(
                session_id=self._target.session_id,
                session_file=self._target.file,
                socket_path=self._target.socket,
            ),
            environment=reader.environment,
        )
        try:
            async with asyncio.timeout(TURN_SECONDS):
                report = await self._asked(session, stop)
        except TimeoutError:
            report = self._not_verified(stop, f"the model took longer than {TURN_SECONDS:g} seconds")
        finally:
            session.abort()
            session.close()
        since = self.since(stop)
        after = await asyncio.to_thread(self._tree)
        changes = await asyncio.to_thread(self._changes, since, before)
        whole = msgspec.structs.replace(
            report,
            kind="model",
            verifier=self.name,
            model=f"{self._info.provider}/{self._info.id}",
            cost=session.usage.cost.total,
            duration=time.monotonic() - begun,
            session_id=self._target.session_id,
            project=self._target.project,
            lines=_lines(stop),
            tree=before.hash if before is not None else "",
            diff_stat=str(changes) if changes is not None else "",
            commands=tuple(reader.commands),
            tool_calls=sum(map(_is_answer, session.messages)),
            refused=tuple(reader.refused),
            sections=(*report.sections, *self._about_persona(), *await reader.notes()),
            time=now,
        )
        whole = capped(whole)
        if why := command.spoilt(before, after):
            whole = lowered(whole, Confidence.PARTIAL, why, is_unsure=True)
        if since is None or changes is None:
            whole = lowered(whole, Confidence.VERIFIED, "what the turn changed is not known")
        elif not changes:
            whole = lowered(whole, Confidence.VERIFIED, command.NOTHING_CHANGED)
            note = Section("What did the turn change?", "Nothing: the files are as they were before.")
            whole = msgspec.structs.replace(whole, sections=(*whole.sections, note))
        elif why := command.weakened(changes):
            whole = lowered(whole, Confidence.VERIFIED, why)
            note = Section("What did the turn change?", f"{why[0].upper()}{why[1:]}.")
            whole = msgspec.structs.replace(whole, sections=(*whole.sections, note))
        return whole

    def _about_persona(self) -> tuple[Section, ...]:
        note = self._persona.note
        return (Section("Who judged?", f"{note[0].upper()}{note[1:]}."),) if note else ()

    async def _asked(self, session: AgentSession, stop: Event) -> Report:
        session.prompt(stop_prompt(stop))
        for last_try in (False, True):
            await session.idle()
            last = next((each for each in reversed(session.messages) if isinstance(each, Assistant)), None)
            if last is None or last.stop_reason in ("error", "aborted"):
                why = last.error_message if last is not None else None
                return self._not_verified(stop, why or "the model gave no answer")
            try:
                return parse_report(text_of(last), stop.turn_index or 0, self._target.session_id)
            except ReportError as error:
                if last_try:
                    return self._not_verified(stop, str(error))
                session.prompt(AGAIN.format(why=error))
        raise AssertionError("not reached")

    def _not_verified(self, stop: Event, why: str) -> Report:
        return not_verified(why, turn=stop.turn_index or 0, session_id=self._target.session_id)

    def _tree(self) -> Tree | None:
        try:
            return self.watch.take()
        except (TreeFault, OSError):
            return None

    def _changes(self, since: Tree | None, tree: Tree | None) -> Changes | None:
        try:
            return self.watch.changes(since, tree) if tree is not None else None
        except (TreeFault, OSError):
            return None

    def _tools(self, reader: ReadOnly) -> dict[str, Tool]:
        places = self._places
        tools = standard_tools(LocalTerminals(), Path(places.journals), places.redactor)
        for name in ("edit", "write"):
            tools[name] = _Refusing(tools[name], reader)
        tools["bash"] = Guarded(_ReadOnlyBash(reader), places.redactor)
        wanted = self._persona.tools
        return {name: tool for name, tool in tools.items() if not wanted or name in wanted}


class _OneModel:
    """A catalogue of which one model is used."""

    def __init__(self, catalog: Catalog, info: ModelInfo) -> None:
        self._catalog = catalog
        self._info = info

    def find(self, provider: str, id: str) -> ModelInfo | None:
        return self._info if (provider, id) == (self._info.provider, self._info.id) else None

    def models(self) -> list[ModelInfo]:
        return [self._info]

    def default(self) -> ModelInfo:
        return self._info

    def model(self, info: ModelInfo) -> Model:
        return self._catalog.model(info)


class _Reading:
    """The policy of a verifier: what may be read is read; nobody is there to be asked."""

    def __init__(self, policy: Policy, secrets: Secrets) -> None:
        self._policy = policy
        self._covered = {policy.project / name for name in secrets.names}

    def judge(self, tool: str, touch: Touch) -> Decision:
        if touch.effect != "read":  # its tools see to it
            return Decision("allow")
        if hidden := next(filter(self.is_hidden, touch.paths), None):
            return Decision("deny", f"{hidden.name} may hold secrets")
        verdict = self._policy.judge(tool, touch)
        if verdict.decision == "allow":
            return Decision("allow")
        return Decision("deny", f"a verifier can't ask a person, and {verdict.reason}")

    def is_hidden(self, path: Path) -> bool:
        return path in self._covered or ".git" in path.parts or self._policy.is_hidden(path)

    def remembering(self, tool: str, touch: Touch, then: str) -> _Reading:
        return self


class _Refusing:
    """A tool that would change files, and does not."""

    def __init__(self, tool: Tool, reader: ReadOnly) -> None:
        self.spec = tool.spec
        self._reader = reader

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        return Touch("write", f"{self.spec.name} {arguments.get('path', '')}")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        return Result(self._reader.refuses(str(arguments.get("path", "")), self.spec.name), is_error=True)


class _ReadOnlyBash:
    """Runs commands that can't change anything."""

    spec = ToolSpec(
        "bash",
        "Run a shell command in the project. Nothing can be changed: the project is read-only, and there is "
        "no network. Without a sandbox only simple commands that read are run.",
        {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "What the shell runs."}},
            "required": ["command"],
            "additionalProperties": False,
        },
    )

    def __init__(self, reader: ReadOnly) -> None:
        self._reader = reader

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        given = arguments.get("command")
        if not isinstance(given, str) or not given.strip():
            raise ValueError("command must be a text")
        return Touch("run", f"run {given[:100]}", command=given)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        outcome = await self._reader.run(arguments["command"])
        text = outcome.text if not outcome.ended else f"{outcome.text}\n[{outcome.ended}]"
        details = {"exit_code": outcome.code, "refused": outcome.refused or None}
        return Result(text, details, is_error=bool(outcome.refused) or outcome.code != 0)


def chosen_model(catalog: Catalog, wanted: str, *, differs_from: str = "") -> ModelInfo:
    """The model that verifies: `provider/id`, else the default one. Raises ModelError.

    `differs_from` is the builder's, if the verifier's must be another.
    """
    provider, _, id = wanted.partition("/")
    info = catalog.find(provider, id) if wanted else catalog.default()
    if info is None:
        raise ModelError("refused", f"unknown model: {wanted}; `fairlead agent --list-models` lists them")
    if differs_from and f"{info.provider}/{info.id}" == differs_from:
        raise ModelError("refused", f"the verifier's model must differ from the builder's, {differs_from}")
    return info


def _lines(stop: Event) -> tuple[int, int] | None:
    first, last = stop.session_file_start_line, stop.session_file_end_line
    return (first, last) if first is not None and last is not None else None


def _readable_paths(target: Target) -> tuple[Path, ...]:
    """The session's file. A hook may name any file as it, so one with secrets is none."""
    path = Path(os.path.realpath(target.file)) if target.file else None
    return (path,) if path is not None and path.suffix == ".jsonl" and not is_secret_file(path) else ()


def _is_answer(message: object) -> bool:
    """Whether a message is what a tool found out: not that it was refused, or called wrongly."""
    if not isinstance(message, ToolResult):
        return False
    has_code = isinstance(message.details, dict) and message.details.get("exit_code") is not None
    return not message.is_error or has_code
