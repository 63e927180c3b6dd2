"""What `fairlead verify` and `fairlead run` share: the session, the checker, and showing reports."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import math
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ..agent.models import ModelError, guide
from ..daemon.checkers import (
    Checker,
    CheckerEnvironment,
    CommandChecker,
    ModelChecker,
    PanelChecker,
    Target,
    chosen_model,
)
from ..formats.columns import printable
from ..system.bubblewrap import bubblewrap
from ..system.database import DatabaseFault
from ..system.settings import Settings, foreign
from ..verify.checks.command import Commands
from ..verify.checks.panel import PanelError, needed, parse_quorum
from ..verify.checks.persona import PersonaError, load
from ..verify.checks.sandbox import FALLBACK
from ..verify.follow import Follower, Gone, Judged, Left, Occupied
from ..verify.outcome import deeds_of, ending_of, judged_by_deeds, judged_by_outcome, not_checked
from ..verify.report import Confidence, Report, Status, correction, not_verified, render
from ..verify.store import ReportStore
from ..wire import verifier as wire
from .arguments import Failure, UsageError
from .colours import coloured_name

if TYPE_CHECKING:
    from collections.abc import Callable

VERIFIED, FAILED, UNSURE, DENIED = 0, 1, 2, 3
"""Exit codes."""


_NO_TURNS = (
    "{name} has reported no turns yet. An agent in a terminal reports its turns through hooks: "
    "`fairlead hook --install AGENT` adds them to its settings (claude, codex, …), and the agent reads them "
    "when it is restarted"
)


class Wanted(NamedTuple):
    """The checks that were asked for."""

    commands: tuple[str, ...]
    personas: tuple[str, ...]
    model: str
    other_model: bool
    quorum: str
    in_copy: bool
    time_limit: float


# --- the session ------------------------------------------------------------------------------------------


def found(settings: Settings, name: str, *, socket: str = "", project: str = "") -> Target:
    """The session that is meant: one of ours, or a builder whose socket is there. Raises Failure."""
    if not socket:
        from ..client.calls import RequestError
        from ..client.connection import DaemonConnection

        with DaemonConnection(settings) as control:
            try:
                answer = control.ask("verify_target", name=name)
                if answer["kind"] == "terminal" and answer.get("turns") == 0:
                    _say(_NO_TURNS.format(name=name))
                return _of_ours(answer, project)
            except RequestError as error:
                if error.code != "request/not-found":
                    raise
                missing = str(error)
        if why := foreign(settings.verifier_dir):
            raise Failure(f"{missing}; Pi's sessions can't be searched: {why}")
        with contextlib.suppress(ValueError):
            socket = wire.socket_path(name, settings.verifier_dir)
        if not os.path.exists(socket):
            raise Failure(f"{missing}, and nothing is listening on {socket or 'a Pi socket of this name'}")
    id = os.path.basename(socket).removesuffix(".sock")
    return Target(id, socket, os.path.abspath(project or "."), _pi_file(id))


def _of_ours(answer: dict[str, Any], project: str) -> Target:
    return Target(
        answer["session_id"],
        answer["socket"],
        os.path.abspath(project) if project else answer["project"],
        answer["file"] or "",
        answer["model"] or "",
        answer.get("line"),  # a daemon of an older version does not say it
        is_ours=True,
    )


def _pi_file(id: str) -> str:
    """The session file of a real Pi, if it is where Pi keeps them."""
    place = os.environ.get("PI_CODING_AGENT_DIR") or os.path.expanduser("~/.pi/agent")
    files = glob.glob(f"{glob.escape(place)}/sessions/*/*_{glob.escape(id)}.jsonl")
    return files[0] if files else ""


def waker(settings: Settings, target: Target, *, waits: bool = False) -> Callable[[], None] | None:
    """Has the daemon open a session that it knows, but has not loaded since it was started again. Raises Gone
    if it does not know it any more, or was stopped, unless who follows `waits` for the next daemon."""
    if not target.is_ours:
        return None

    from ..client.calls import RequestError
    from ..client.connection import DaemonConnection
    from ..client.launch import Stopped

    def wake() -> None:
        try:
            with DaemonConnection(settings, start=not waits) as control:
                control.ask("verify_target", session_id=target.session_id)
        except Stopped as error:
            raise Gone(str(error)) from None
        except RequestError as error:
            if error.code == "request/not-found":
                raise Left(str(error)) from None
        except ConnectionError:
            pass

    return wake


# --- the checker ------------------------------------------------------------------------------------------


def checker(settings: Settings, target: Target, wanted: Wanted) -> Checker:
    """What checks the turns. Raises Failure or ValueError."""
    places = CheckerEnvironment(settings)
    members: list[Checker] = []
    if wanted.commands:
        name = wanted.commands[0] if len(wanted.commands) == 1 else f"{len(wanted.commands)} commands"
        commands = Commands(
            commands=wanted.commands, name=name, in_copy=wanted.in_copy, time_limit=wanted.time_limit
        )
        members.append(CommandChecker(commands, target, places))
    differs_from = target.model if wanted.other_model else ""
    for name in wanted.personas:
        try:
            configured = os.path.join(os.path.dirname(settings.config_path), "verifiers")
            persona = load(name, _path(target.project), _path(configured))
            info = chosen_model(places.catalog, wanted.model or persona.model, differs_from=differs_from)
            if (info.provider, info.id) == (guide.INFO.provider, guide.INFO.id):
                raise PersonaError(
                    f"the persona {name!r} needs a language model, which the offline guide is not; choose "
                    "one with --model (`verify`) or --verifier-model (`run`)"
                )
        except (PersonaError, ModelError) as error:
            raise Failure(str(error)) from None
        members.append(ModelChecker(persona, info, target, places))
    try:
        quorum = parse_quorum(wanted.quorum)
        if len(members) > 1:
            return PanelChecker(members, quorum)
        needed(quorum, 1)
    except PanelError as error:
        raise UsageError(f"--quorum: {error}") from None
    return members[0]


def checked(settings: Settings, wanted: Wanted, builder: str, project: str, agent: str | None = None) -> None:
    """Refuse wrong personas, models and quorums before a session is made for them. Raises Failure.

    `builder` is the model that builds, as provider/id, or empty for the default one. An `agent` of another
    maker has models of its own, which are not looked at.
    """
    name = builder or f"{agent}/"
    if agent is None:
        try:
            model = chosen_model(CheckerEnvironment(settings).catalog, builder)
        except ModelError as error:
            raise Failure(str(error)) from None
        name = f"{model.provider}/{model.id}"
    checker(settings, Target("", "", project, model=name), wanted).close()


async def warnings(wanted: Wanted, checking: Checker) -> list[str]:
    """What to tell people before checks begin."""
    is_open = bool(wanted.personas) and await bubblewrap() is None
    return [*([f"without a sandbox: {FALLBACK}"] if is_open else []), *checking.notes]


def _path(text: str) -> Any:
    from pathlib import Path

    return Path(text)


class DurableChecker:
    """Has each verification written down before it runs, so that none is lost when this process is killed.

    Reports of our own sessions are kept by the daemon; those of others by us.
    """

    def __init__(self, settings: Settings, target: Target, checker: Checker) -> None:
        self._store = ReportStore(settings.reports_path)
        self._target = target
        self._checker = checker
        self._begun: int | None = None

    async def check(self, stop: wire.Event) -> Report:
        turn = stop.turn_index or 0
        facts: dict[str, Any] = {
            "turn": turn,
            "session_id": self._target.session_id,
            "project": self._target.project,
            "verifier": self._checker.name,
        }
        ending = await asyncio.to_thread(ending_of, stop, self._file())
        if ending.outcome in ("failed", "aborted", "interrupted"):
            return not_checked(ending, **facts)
        with contextlib.suppress(DatabaseFault):
            self._begun = self._store.begin(
                session_id=self._target.session_id,
                project=self._target.project,
                turn=turn,
                verifier=self._checker.name,
            )
        try:
            report = await self._checker.check(stop)
        except Exception as error:  # whatever is wrong with a checker, its turn is not lost
            return not_verified(f"{type(error).__name__}: {error}", **facts)
        report = judged_by_outcome(report, ending.outcome, ending.why)
        return judged_by_deeds(report, await asyncio.to_thread(deeds_of, self._file(), stop))

    def _file(self) -> str:
        """The session's file; a real Pi writes it only when it is asked for something."""
        if self._target.file or self._target.is_ours:
            return self._target.file
        return _pi_file(self._target.session_id)

    def keep(self, report: Report) -> None:
        """The report has reached the builder."""
        if self._begun is None:
            if not self._target.is_ours:
                with contextlib.suppress(DatabaseFault):
                    self._store.add(report)
            return
        with contextlib.suppress(DatabaseFault):
            if self._target.is_ours:
                self._store.dismiss(self._begun)
            else:
                self._store.finish(self._begun, report)
        self._begun = None


# --- following --------------------------------------------------------------------------------------------


async def watch(
    settings: Settings, target: Target, wanted: Wanted, name: str, *, once: bool, steer: bool, quiet: bool
) -> int:
    """Check turns until the session ends, or one if `once`. `name` is what the person called the session.
    Returns the exit code."""
    checking = checker(settings, target, wanted)
    writing = DurableChecker(settings, target, checking)
    say: Callable[[str], None] = _nothing if quiet else _say
    # one that runs in a session of ours goes on when the daemon is stopped, as its session does
    waits = target.is_ours and not once and bool(os.environ.get("FAIRLEAD_SESSION"))
    follower = Follower(
        target.socket,
        target.session_id,
        writing.check,
        since=0 if once else target.line,
        deliver_as="steer" if steer else None,
        began=checking.began,
        told=say,
        latest=once,
        tells_all=target.is_ours,
        sends_back=not once,
        missed=waker(settings, target, waits=waits),
        patience=math.inf if waits else None,
    )
    await checking.began(None)
    for warning in await warnings(wanted, checking):
        _say(warning)
    say(f"verifying the turns of {name} with {checking.name}")
    try:
        async for judged in follower.judgements():
            writing.keep(judged.report)
            show(judged, quiet=quiet)
            if once:
                return code_of(judged.report)
    except Gone as gone:
        if once and not isinstance(gone, Occupied):
            print(f"fairlead verify: {gone}", file=sys.stderr)
            return UNSURE
        if not isinstance(gone, Left):
            raise Failure(str(gone)) from None
        say(str(gone))
    finally:
        checking.close()
    return 0


def code_of(report: Report) -> int:
    return {Status.VERIFIED: VERIFIED, Status.FAILED: FAILED, Status.UNSURE: UNSURE}[report.status]


# --- showing ----------------------------------------------------------------------------------------------


def coloured(confidence: Confidence) -> str:
    """A confidence in the word for people, in its colour if this is a terminal."""
    return coloured_name(confidence.word.upper())


def show(judged: Judged, *, quiet: bool = False, to_stderr: bool = False) -> None:
    """One line for a report, and what was sent back."""
    where = sys.stderr if to_stderr else sys.stdout
    report = judged.report
    then = ""
    if report.status is Status.FAILED:
        then = f"; not sent back: {judged.refusal}" if judged.refusal else "; sent back"
    if report.claimed is not None:
        then = f"; claimed {report.claimed.word.upper()}, but {printable(report.capped_by)}{then}"
    line = f"turn {report.turn}  {coloured(report.confidence)}  {printable(report.summary)}{then}"
    print(line, file=where, flush=True)
    if not quiet and report.status is not Status.VERIFIED:
        is_sent = report.status is Status.FAILED and not judged.refusal
        text = correction(report) if is_sent else render(report)
        for line in text.splitlines()[:MAX_SHOWN]:
            print(f"    {printable(line)}", file=where, flush=True)


def printable_lines(text: str) -> str:
    """A text of several lines in which nothing acts on the terminal."""
    return "\n".join(map(printable, text.expandtabs().rstrip("\n").split("\n")))


MAX_SHOWN = 40
"""How many lines of what went back are shown."""


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


def _nothing(line: str) -> None:
    pass
