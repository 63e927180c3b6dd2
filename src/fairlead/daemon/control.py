"""Builds the control room: the loop with its gates, rules and actuators, its door, and health.

The daemon has one. It hears what happens in sessions from the feed, and of verifiers through `escalated`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from ..agent.consent.commands import take_apart
from ..agent.secrets import environment_for_commands, is_secret_file
from ..control import gates
from ..control.actuators import Actuators, offered, shell, write_log
from ..control.gates import Gates, TakenCommand
from ..control.health import Check, Checker, HealthChecks, Lag, disk, runtime_dir
from ..control.loop import Control
from ..control.notices import TROUBLE_PAUSE, Notifier, Send, check_urls, send_with_apprise
from ..control.protocols import Cleaner
from ..control.rules import Reflexes, SignalRule, Then, rules_from
from ..control.sessions import ControlSessions
from ..control.signals import Priority, Signal
from ..control.store import ControlStore
from ..control.telling import Appeals, Ring, TellingOptions, quiet_hours
from ..doors.passepartout import PassepartoutDoor
from ..doors.peer_proof import Programs
from ..doors.rpc.ops.control import ControlOps
from ..formats.guess import meant
from ..sessions import feed
from ..sessions.directory import Directory
from ..sessions.inbox import Inbox
from ..sessions.questions import Answer, Question
from ..system.console_address import console_address
from ..system.database import DatabaseFault
from ..system.desktop import has_desktop, show_on_desktop
from ..system.extras import adding, is_missing
from ..system.settings import SettingError, Settings
from ..wire import passepartout

log = logging.getLogger("fairlead.control")

OPEN_WAIT = 1.0
"""Seconds that a start waits for what another daemon left: the file may be locked."""
ACTUATORS = ("CLI", "TUI", "SESSION", "SHELL", "NOTIFY", "LOG")
"""The actuators that rules can name without another package."""


class ControlRoom:
    """The control room of a daemon."""

    def __init__(
        self,
        settings: Settings,
        store: ControlStore,
        inbox: Inbox,
        cleaner: Cleaner,
        directory: Directory,
        happening: feed.Feed,
        *,
        is_watched: Callable[[str], bool],
        ring: Ring,
        has_terminals: Callable[[str], bool],
        programs: Programs = dict,
        key_variables: Iterable[str] = (),
        checkers: Mapping[str, Checker] | None = None,
        send: Send = send_with_apprise,
    ) -> None:
        self._settings = settings
        home = os.path.expanduser("~")
        self.actuators = Actuators()
        self.lag = Lag()
        self.store = store
        self._urls = _texts(settings, "notify", "urls")
        try:
            self._notifier = Notifier(self.store, self._urls, self._not_sent, send=send)
        except ValueError as error:
            raise settings.located(error) from None
        rules = _rules(settings)
        reflexes = Reflexes(rules, settings.refresh)
        self.sessions = ControlSessions(directory, inbox, settings.text("control", "session"), home)
        happening.listen(self._happened)
        self.appeals = Appeals(
            self._notifier,
            inbox,
            directory.states,
            cleaner,
            _telling(settings),
            name_of=self.sessions.name_of,
            is_watched=is_watched,
            ring=ring,
            desktop=show_on_desktop,
            has_terminals=has_terminals,
            has_desktop=has_desktop,
            console=lambda: console_address(settings),
        )
        happening.listen(self.appeals.happened)
        self.control = Control(
            actuators=self.actuators,
            gates=self._gates(cleaner, home),
            reflexes=reflexes,
            store=self.store,
            sessions=self.sessions,
            inbox=inbox,
            cleaner=cleaner,
            tell=self._tell,
        )
        self._inbox = inbox
        inbox.listen(self)
        environment = environment_for_commands(os.environ, key_variables)
        self.actuators.register_actuator("LOG", write_log, quick=True)
        self.actuators.register_actuator("NOTIFY", self._notifier.notify, quick=True)
        self.actuators.register_actuator("SHELL", shell(environment, home))
        own: dict[str, Checker] = {
            "runtime directory": lambda: runtime_dir(settings),
            "disk space": lambda: disk(settings),
            "event loop": self.lag.check,
            "passepartout": self._check_door,
            "notifications": self._check_notices,
            "configuration": self._check_config,
            "approvals": self._check_questions,
        }
        self.health = HealthChecks(own | dict(checkers or {}))
        self.door = PassepartoutDoor(settings, self.control, self._healthy, programs)
        self.ops = ControlOps(self.control, self.health)
        self._heartbeat = settings.number("control", "heartbeat")
        self._timer: asyncio.TimerHandle | None = None
        self._loading: list[asyncio.Task[None]] = []
        self._is_open = False

        def changing(fresh: Settings) -> Callable[[], None]:
            """The configuration changed: addresses and rules hold at once."""
            urls, rules = checked(fresh)
            options = _telling(fresh)

            def take() -> None:
                self._urls = urls
                self.appeals.options = options
                self._notifier.set_urls(urls)
                reflexes.replace(rules)

            return take

        settings.joined(changing)

    def _gates(self, cleaner: Cleaner, home: str) -> Gates:
        protected = [*_texts(self._settings, "control", "protected"), f"{self._settings.state_dir}/**"]
        return Gates(
            [
                gates.protocol(lambda: self.actuators.names),
                gates.secrets(cleaner.text),
                gates.paths(
                    is_secret_file, [*protected, f"{self._settings.runtime_dir}/**"], home, taken_apart
                ),
                gates.commands(taken_apart),
                gates.network(taken_apart, _texts(self._settings, "control", "hosts")),
            ]
        )

    # --- life ---------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Take over what another daemon left, and let clients in."""
        taking = asyncio.get_running_loop().create_task(self._take_over())
        self._loading.append(taking)
        await asyncio.wait([taking], timeout=OPEN_WAIT)
        if not taking.done():
            self._inbox.reconcile()
        self._is_open = True
        self.lag.open()
        self.health.open()
        if self._settings.flag("passepartout", "enabled"):
            await self.door.open()
        self.control.hear(Signal("daemon-started", text="the daemon has started"))
        self._beat()
        self._loading.append(asyncio.get_running_loop().create_task(self._load_actuators()))

    async def _take_over(self) -> None:
        """Read what another daemon left, when the file can be read; clients are told if that is late."""
        told = ""
        while True:
            try:
                found = await self.store.thread.run(self.store.open)
                break
            except DatabaseFault as error:
                if str(error) != told:
                    log.warning("what waits for consent can't be read: %s", error)
                told = str(error)
                await asyncio.sleep(TROUBLE_PAUSE)
        for lost in found:
            log.warning("%s", lost)
        self._notifier.open()
        self.control.ask_again()
        self._inbox.reconcile()
        self.appeals.open()

    async def _load_actuators(self) -> None:
        """Those of other packages, which nobody waits for."""
        for fault in await asyncio.to_thread(self.actuators.load_entry_points):
            log.warning("%s", fault)

    async def close(self) -> None:
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
        for task in self._loading:
            task.cancel()
        self.health.close()
        self.lag.close()
        self.appeals.close()
        await self.door.close()
        await self.control.close()
        await self._notifier.close()
        await self.store.aclose()

    def _beat(self) -> None:
        if self._heartbeat:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._heartbeat, self._beat_now)

    def _beat_now(self) -> None:
        status = self.health.report.status
        self.control.hear(
            Signal("heartbeat", text=status, priority=Priority.HEARTBEAT, fields={"status": status})
        )
        self._beat()

    # --- what other rooms say -----------------------------------------------------------------------------

    def _happened(self, event: feed.FeedEvent) -> None:
        """Something happened in a session."""
        if not self._is_open:
            return
        self.sessions.heard(event)
        id, depth = event.session, 0
        match event:
            case feed.TurnEnded(turn=turn):
                depth = self.control.depth_of_turn(id)
                words = {"outcome": turn.outcome, "prompt": turn.prompt, "turn": str(turn.number)}
                sensor, text = "session-finished", f"turn {turn.number} of {id}: {turn.outcome}"
            case feed.Failed(reason=reason):
                sensor, text, words = "session-failed", reason, {}
            case feed.Exited(code=code):
                sensor, text = "session-exited", f"{id}: exited {'' if code is None else code}".strip()
                words = {"name": id} | ({} if code is None else {"exit_code": str(code)})
            case feed.Signalled(what=what, details=details):
                shown = {key: str(value) for key, value in details.items() if value is not None}
                sensor, words = f"terminal-{what}", {"name": id} | shown
                text = words.get("body") or f"{id}: {what}"
            case _:
                return
        self.control.hear(Signal(sensor, text=text, session=id, depth=depth, fields=words))

    def escalated(self, session: str, turn: int, reason: str) -> None:
        """A verifier wants a person to look."""
        if self._is_open:
            words = {"turn": str(turn), "reason": reason}
            self.control.hear(Signal("verifier-escalated", text=reason, session=session, fields=words))

    def _tell(self, message: passepartout.Message) -> None:
        self.door.tell(message)

    def _not_sent(self, why: str) -> None:
        self.control.hear(
            Signal("tool-error", text=why, priority=Priority.FEEDBACK, fields={"actuator": "notify"}, depth=1)
        )

    # --- consent --------------------------------------------------------------------------------------------

    def asked(self, question: Question) -> None:
        """Something waits for a person. What waited before this daemon is shown to each client that comes."""
        if self._is_open and question.is_consent:
            self.control.asked(question)

    def closed(self, question: Question, answer: Answer) -> None:
        if self._is_open and question.is_consent:
            self.control.closed(question, answer)

    def warned(self, question: Question, why: str) -> None:
        if self._is_open:
            self.control.warned(question, why)

    # --- health -------------------------------------------------------------------------------------------

    def _healthy(self) -> tuple[passepartout.Health, bool]:
        report = self.health.report
        return passepartout.Health[report.status.upper()], report.checked_at > 0

    def _check_door(self) -> Check:
        if not self._settings.flag("passepartout", "enabled"):
            return Check("passepartout", "healthy", "switched off by [passepartout] enabled")
        if self.door.fault:
            fix = "set [passepartout] port, or end the program that has it: ss -ltnp"
            return Check("passepartout", "degraded", self.door.fault, fix)
        return Check("passepartout", "healthy", f"port {self.door.port}, {self.door.clients} clients")

    def _check_config(self) -> Check:
        self._settings.refresh()
        if fault := self._settings.fault:
            fix = "correct that line; until then the daemon keeps its previous settings"
            return Check("configuration", "degraded", fault, fix)
        path = self._settings.config_path
        return Check(
            "configuration", "healthy", f"{path} is valid" if os.path.exists(path) else "all defaults"
        )

    def _check_questions(self) -> Check:
        questions = self._inbox.consents
        lost = [each for each in questions if each.lost]
        detail = f"{(len(questions) - len(lost)) or 'none'} pending"
        if not lost:
            return Check("approvals", "healthy", detail)
        fix = (
            f"`fairlead approvals` lists them; `fairlead approvals dismiss {lost[0].id}` dismisses the first"
        )
        return Check("approvals", "degraded", f"{detail}, {len(lost)} lost: {lost[0].lost}", fix)

    async def _check_notices(self) -> Check:
        name = "notifications"
        if not self._urls:
            return Check(name, "healthy", "none are configured")
        if is_missing("apprise"):
            return Check(name, "degraded", "Apprise is not installed", adding("notify"))
        counts = await self.store.thread.run(self.store.counts)
        detail = ", ".join(
            f"{counts.get(state, 0)} {state}" for state in ("queued", "sent", "failed", "lost")
        )
        failure = await self.store.thread.run(self.store.last_failure)
        if failure or counts.get("queued", 0) > 10:
            why = f"{detail}; the last one was not sent: {failure}" if failure else detail
            return Check(name, "degraded", why, "are the addresses in [notify] urls right?")
        return Check(name, "healthy", detail)


@lru_cache(maxsize=4)  # several gates look at the same one
def taken_apart(command: str) -> TakenCommand:
    """A command line as gates see it."""
    taken = take_apart(command)
    texts = dict.fromkeys(
        reading.text for part in taken.parts for reading in part.readings if reading.is_sure
    )
    return TakenCommand(tuple(texts), taken.is_understood)


def checked(settings: Settings) -> tuple[list[str], tuple[SignalRule, ...]]:
    """The addresses and rules of a configuration. Raises SettingError, also for what only a start reads."""
    urls = _texts(settings, "notify", "urls")
    try:
        check_urls(urls)
    except ValueError as error:
        raise settings.located(error) from None
    for key in ("protected", "hosts"):
        _texts(settings, "control", key)
    _telling(settings)
    return urls, _rules(settings)


def _telling(settings: Settings) -> TellingOptions:
    """What people are told, where, and when. Raises SettingError."""
    try:
        quiet = quiet_hours(settings.text("notify", "quiet_hours"))
    except ValueError as error:
        raise settings.located(error) from None
    return TellingOptions(
        after=settings.number("notify", "after_seconds"),
        done=settings.flag("notify", "done"),
        terminals=settings.flag("notify", "terminals"),
        desktop=settings.flag("notify", "desktop"),
        quiet=quiet,
    )


def _rules(settings: Settings) -> tuple[SignalRule, ...]:
    try:
        rules = tuple(rules_from(settings.section("control").get("rules", [])))
    except ValueError as error:
        raise settings.located(error) from None
    for number, rule in enumerate(rules, 1):
        if why := _no_action(rule.then):
            raise settings.located(SettingError(f"[[control.rules]], number {number}: {why}"))
    return rules


def _no_action(then: Then) -> str:
    """Why there is nothing that a rule could do so; empty if there is."""
    if then.name == "CONTROL":
        return "no rule may answer for a person"
    if then.verb and (then.name, then.verb) != ("SESSION", "type") and then.name in ACTUATORS:
        return f"there is no verb {then.verb!r} of {then.name.lower()}; session has type"
    if then.name in ACTUATORS or then.name in offered():
        return ""
    known = [name.lower() for name in (*ACTUATORS, *offered())]
    hint = meant(then.name.lower(), known) or f"; there are {', '.join(known)}"
    return f"there is no actuator {then.name.lower()}{hint}"


def _texts(settings: Settings, section: str, key: str) -> list[str]:
    """A setting that is a list of texts."""
    found = settings.section(section).get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise settings.located(SettingError(f"[{section}] {key} must be a list of texts"))
    return found
