"""People are told once what nobody has seen: at terminals, on the desktop, and at addresses."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fairlead.agent.secrets import Redactor
from fairlead.client.sdk import connect
from fairlead.control.notices import Notifier
from fairlead.control.store import ControlStore
from fairlead.control.telling import Appeals, QuietHours, TellingOptions, quiet_hours
from fairlead.sessions.feed import Feed
from fairlead.sessions.inbox import Inbox
from fairlead.sessions.questions import Answer, Question
from fairlead.sessions.state import Evidence, States
from fairlead.system.settings import Settings
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

ASKS = "run: touch made"
AFTER = 0.4


class Service:
    """A receiver of notifications, and a desktop."""

    def __init__(self, directory: Path) -> None:
        self.sent: list[dict[str, Any]] = []
        sent = self.sent

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"json://127.0.0.1:{self._server.server_port}"
        self._shown = directory / "shown"
        program = directory / "bin" / "notify-send"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nprintf "%s\\0" "$3" "$4" >> {self._shown}\n')
        program.chmod(0o755)
        self.path = f"{program.parent}:{os.environ['PATH']}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def shown(self) -> list[str]:
        """Titles and texts on the desktop."""
        return self._shown.read_text().split("\0")[:-1] if self._shown.exists() else []

    @property
    def bodies(self) -> list[str]:
        return [each["message"] for each in self.sent]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.close()


def started(service: Service, **settings: str) -> Hosting:
    hosting = Hosting(
        {"PATH": service.path, "DISPLAY": ":7", "FAIRLEAD_NOTIFY_AFTER_SECONDS": str(AFTER), **settings}
    )
    config = Path(hosting.environment["HOME"], ".config/fairlead/config.toml")
    config.parent.mkdir(parents=True)
    config.write_text(f'[notify]\nurls = ["{service.url}"]\n')
    hosting.run("ls")
    return hosting


@pytest.fixture
def hosting(service: Service) -> Iterator[Hosting]:
    hosting = started(service)
    yield hosting
    hosting.close()


def asking(hosting: Hosting, name: str, cwd: Path) -> str:
    """An agent session that waits for consent. Returns the question's token."""
    id = hosting.ask("open_session", name=name, cwd=str(cwd))["session_id"]
    hosting.ask("prompt", session_id=id, message=ASKS)

    def tokens() -> list[str]:
        return [each["token"] for each in hosting.ask("approvals")["approvals"] if each["session_id"] == id]

    hosting.until(lambda: bool(tokens()))
    return tokens()[0]


def state_of(hosting: Hosting, name: str) -> str:
    state: str = hosting.ask("session_state", name=name)["session"]["activity"]["state"]
    return state


def test_a_question_goes_everywhere_once_with_all_that_decides_and_how_to_answer(
    hosting: Hosting, service: Service, tmp_path: Path
) -> None:
    hosting.start("elsewhere", "echo here; cat")
    with Person(hosting, "attach", "elsewhere", cols=120) as person:
        person.until("here")
        token = asking(hosting, "garden", tmp_path)
        person.until("garden asks: ")
        hosting.until(lambda: bool(service.sent) and bool(service.shown))
        while b"\x07\x1b]9;fairlead: garden asks: " not in person.seen:  # it comes after the line
            assert select.select([person.ours], [], [], hosting.patience)[0]
            person.read()
        (sent,) = service.sent
        assert sent["title"] == "garden asks"
        for text in (sent["message"], service.shown[1]):
            assert "touch made" in text
            assert str(tmp_path) in text
            assert f"fairlead approvals allow {token}" in text
        assert service.shown[0] == "garden asks"
        hosting.kill_daemon()
        hosting.until(lambda: len(hosting.ask("approvals")["approvals"]) == 1)
        later = asking(hosting, "weeds", tmp_path)  # what comes later is told, and the first not again
        hosting.until(lambda: len(service.sent) == 2 and len(service.shown) == 4)
        assert later in service.bodies[1]
    hosting.run("approvals", "allow", token)


def test_a_link_leads_to_the_question_in_the_console_that_runs(
    hosting: Hosting, service: Service, tmp_path: Path
) -> None:
    def told(name: str) -> tuple[str, str, str]:
        """A question's token, and the last lines of what came by the address and on the desktop."""
        count = len(service.sent) + 1
        token = asking(hosting, name, tmp_path)
        hosting.until(lambda: len(service.sent) == count and len(service.shown) == 2 * count)
        return token, service.bodies[-1].splitlines()[-1], service.shown[-1].splitlines()[-1]

    def is_no_link(line: str) -> bool:
        return "approvals allow" in line and "http" not in line

    def started(*words: str) -> str:
        hosting.run("web", "--no-open", *words)
        base: str = json.loads(hosting.run("web", "--no-open", "--json").stdout)["base"]
        return base

    _, sent, shown = told("before")
    assert is_no_link(sent)
    assert is_no_link(shown)
    base = started()
    token, sent, shown = told("near")
    assert is_no_link(sent)  # a phone has nothing of a link to this machine
    assert shown == f"{base}/#/inbox/{token}"
    hosting.run("web", "--stop")
    assert started("--origin", "https://laptop.example.org") == "https://laptop.example.org"
    token, sent, shown = told("far")
    assert sent == shown == f"https://laptop.example.org/#/inbox/{token}"
    os.kill(int((hosting.directory / "run/fairlead/web.lock").read_text()), signal.SIGKILL)
    assert (hosting.directory / "run/fairlead/web.address").exists()
    _, sent, shown = told("killed")
    assert is_no_link(sent)
    assert is_no_link(shown)


def test_a_link_is_not_cut_from_a_long_text(hosting: Hosting, service: Service, tmp_path: Path) -> None:
    hosting.run("web", "--no-open")
    id = hosting.ask("open_session", name="long", cwd=str(tmp_path))["session_id"]
    hosting.ask("prompt", session_id=id, message=f"run: touch {'x' * 2000}")
    hosting.until(lambda: len(service.shown) == 2)
    (found,) = hosting.ask("approvals")["approvals"]
    assert service.shown[1].endswith(f"/#/inbox/{found['token']}")
    hosting.run("web", "--stop")


def test_what_was_answered_or_seen_in_time_is_not_told_also_not_by_the_next_daemon(
    service: Service, tmp_path: Path
) -> None:
    hosting = started(service, FAIRLEAD_NOTIFY_AFTER_SECONDS="3")
    try:
        answered = asking(hosting, "answered", tmp_path)
        seen = asking(hosting, "seen", tmp_path)
        hosting.run("approvals", "deny", answered)
        with Person(hosting, "approvals", cols=100) as person:
            person.until(seen)
            person.exit_code()
        hosting.kill_daemon()
        last = asking(hosting, "last", tmp_path)
        hosting.until(lambda: bool(service.sent))
        assert [last in body for body in service.bodies] == [True]
    finally:
        hosting.close()


def test_a_program_that_waits_in_a_terminal_is_told_at_others_but_not_where_it_is_watched(
    hosting: Hosting, service: Service
) -> None:
    ask = r"printf '\033]777;notify;claude;needs your permission to use Bash\007'; cat"
    hosting.start("elsewhere", "echo here; cat")
    hosting.start("garden", f"read go; {ask}")
    with (
        Person(hosting, "attach", "elsewhere", cols=120) as other,
        Person(hosting, "attach", "garden", cols=120) as person,
    ):
        other.until("here")
        person.type(b"go\r")  # this is where somebody types
        hosting.until(lambda: state_of(hosting, "garden") == "waits")
        hosting.start("roses", f"echo begins; read go; {ask}")  # which nobody has open
        hosting.wait_text("roses", "begins")
        hosting.run("send", "roses", "go", "-k", "Enter")
        other.until("roses waits: ")
        person.until("roses waits: ")
        assert "garden" not in other.screen.text()
    hosting.until(lambda: bool(service.sent))
    assert ["`fairlead attach roses`" in body for body in service.bodies] == [True]
    assert "permission to use Bash" in service.bodies[0]


def test_a_terminal_that_is_open_and_left_alone_is_not_watched(hosting: Hosting, service: Service) -> None:
    ask = r"printf '\033]777;notify;claude;needs your permission to use Bash\007'; cat"
    hosting.start("elsewhere", "echo here; cat")
    hosting.start("garden", f"echo begins; read go; {ask}")
    with (
        Person(hosting, "attach", "elsewhere", cols=120) as other,
        Person(hosting, "attach", "garden", cols=120) as person,
    ):
        person.until("begins")
        other.until("here")
        long_ago = time.time() - 3600
        os.utime(os.ttyname(person.theirs), (long_ago, long_ago))
        hosting.run("send", "garden", "go", "-k", "Enter")
        other.until("garden waits: ")
        hosting.until(lambda: bool(service.sent))
        assert "garden waits" not in person.screen.text()  # the question itself is there


def test_a_turn_that_ended_is_told_only_if_that_is_wanted(service: Service, tmp_path: Path) -> None:
    hosting = started(service, FAIRLEAD_NOTIFY_DONE="true")
    try:
        id = hosting.ask("open_session", name="garden", cwd=str(tmp_path))["session_id"]
        hosting.ask("prompt", session_id=id, message="hello")
        hosting.until(lambda: bool(service.sent))
        assert service.sent[0]["title"] == "garden is done"
    finally:
        hosting.close()


class Night(QuietHours):
    """Quiet hours that end when a test says so."""

    ends: ClassVar[float] = 0.0

    def end_of(self, moment: float) -> float | None:
        return self.ends if moment < self.ends else None


class Room:
    """What tells people, with the real inbox, states and store; the test is the terminals and the desktop."""

    def __init__(self, path: Path, options: TellingOptions) -> None:
        self.store = ControlStore(str(path / "control.db"))
        self.store.open()
        self.inbox, self.states = Inbox(), States(feed := Feed(), "", lambda id: False)
        self.lines: list[str] = []
        self.shown: list[tuple[str, str]] = []
        self.has_way = True
        self.may_show = asyncio.Event()
        self.may_show.set()
        self.appeals = Appeals(
            Notifier(self.store, (), print),
            self.inbox,
            self.states,
            Redactor(),
            options,
            name_of=lambda id: id,
            is_watched=lambda id: False,
            ring=lambda line, but: self.lines.append(line),
            desktop=self._show,
            has_terminals=lambda but: self.has_way,
            has_desktop=lambda: self.has_way,
        )
        feed.listen(self.appeals.happened)
        self.appeals.open()

    async def _show(self, title: str, body: str) -> None:
        await self.may_show.wait()
        self.shown.append((title, body))

    async def answered(self, question: Question, answer: Answer) -> None: ...

    def ask(self, id: str, ago: float = 0.0) -> None:
        at, what = time.time() - ago, f"touch {id}"
        self.inbox.ask(
            Question(id=id, kind="consent", session=f"s-{id}", title="bash", what=what, asked_at=at), self
        )

    def come(self) -> None:
        """The time of all that waits has come."""
        for key in self.appeals._due:
            self.appeals._due[key] = 1.0
        self.appeals._wake.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not holds():
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        self.appeals.close()
        await self.store.aclose()


def test_quiet_hours_hold_questions_back_for_one_summary_of_those_that_still_wait(tmp_path: Path) -> None:
    async def work() -> None:
        Night.ends = time.time() + 3600
        room = Room(tmp_path, TellingOptions(after=0.01, quiet=Night(0, 0)))
        for ago, id in ((10, "aaaa"), (20, "bbbb"), (30, "cccc")):
            room.ask(id, ago)
        held: set[str] = room.appeals._held  # nothing else shows that time has come
        await room.until(lambda: len(held) == 3)
        await room.inbox.answer("bbbb", "deny", "a person")
        Night.ends = time.time() - 1
        room.come()
        await room.until(lambda: bool(room.shown))
        ((title, body),) = room.shown
        assert title == "2 sessions wait for you"
        assert [word in body for word in ("touch aaaa", "touch bbbb", "touch cccc")] == [True, False, True]
        assert body.index("touch cccc") < body.index("touch aaaa")  # who has waited longest is the first
        assert "`fairlead next`" in body
        room.ask("dddd")
        await room.until(lambda: len(room.shown) == 2)
        assert room.shown[1][0] == "s-dddd asks"
        await room.close()

    asyncio.run(work())


def test_a_wait_is_told_once_though_its_question_changes_hands_and_a_second_question_again(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        room = Room(tmp_path, TellingOptions(after=0.05))
        seen = Evidence("screen", "waits", time.time(), "Create hello.txt?")
        room.states.found("s-aaaa", "waits", seen, "Create hello.txt?")
        room.ask("aaaa")  # the hook asks the same
        await room.until(lambda: bool(room.lines))
        assert room.lines[0].startswith("s-aaaa asks: touch aaaa; `fairlead approvals allow aaaa`")
        room.inbox.withdraw("aaaa", "nobody answered")  # now the agent's own dialog waits
        room.states.found("s-bbbb", "waits", seen, "Delete it?")
        await room.until(lambda: len(room.lines) == 2)
        assert room.lines[1] == "s-bbbb waits: Delete it?; `fairlead attach s-bbbb`"
        room.states.found("s-aaaa", "waits", seen, "Run make?")  # which is another one
        await room.until(lambda: len(room.lines) == 3)
        assert "Run make?" in room.lines[2]
        reads = Evidence("process", "unknown", time.time(), "cat reads its terminal")
        room.states.found("s-cccc", "unknown", reads)
        assert not [key for key in room.appeals._due if "s-cccc" in key]
        await room.close()

    asyncio.run(work())


def test_many_at_once_are_joined_to_one_on_the_desktop_and_none_is_lost(tmp_path: Path) -> None:
    async def work() -> None:
        room = Room(tmp_path, TellingOptions(after=0.01))
        room.may_show.clear()
        names = [f"a{number:03}" for number in range(30)]
        for name in names:
            room.ask(name)
        await room.until(lambda: len(room.lines) == len(names))
        room.may_show.set()
        await room.until(lambda: len(room.shown) == 2)
        assert room.shown[0][0] == "s-a000 asks"
        title, body = room.shown[1]
        assert title == "29 sessions need you"
        assert body.splitlines()[:20] == [f"s-{name} asks" for name in names[1:21]]
        assert body.splitlines()[20] == "and 9 more"
        room.ask("last")
        await room.until(lambda: len(room.shown) == 3)
        await room.close()

    asyncio.run(work())


def test_what_can_not_be_told_is_told_when_there_is_a_way(tmp_path: Path) -> None:
    async def work() -> None:
        room = Room(tmp_path, TellingOptions(after=0.01))
        room.has_way = False
        room.ask("aaaa")
        due = room.appeals._due
        await room.until(lambda: due["question:aaaa"] > time.time() + 5)  # it is tried again
        assert (room.lines, room.shown) == ([], [])
        room.has_way = True
        room.come()
        await room.until(lambda: bool(room.lines) and bool(room.shown))
        assert not due
        await room.close()

    asyncio.run(work())


def test_a_script_that_is_attached_is_no_person_who_looks(hosting: Hosting, service: Service) -> None:
    ask = r"printf '\033]777;notify;claude;needs your permission to use Bash\007'; cat"
    hosting.start("garden", f"echo begins; read go; {ask}")
    with connect(Settings(hosting.environment)) as host, host.terminal("garden").attach() as attached:
        attached.write(b"go\r")
        hosting.until(lambda: bool(service.sent))
    assert "permission to use Bash" in service.bodies[0]


def test_a_script_that_follows_an_agent_is_no_person_who_looks(
    hosting: Hosting, service: Service, tmp_path: Path
) -> None:
    with connect(Settings(hosting.environment)) as host:
        agent = host.agent("garden", cwd=str(tmp_path))
        with agent.events() as events:
            events.next(timeout=WAIT)
            hosting.ask("prompt", session_id=agent.id, message=ASKS)
            hosting.until(lambda: bool(service.sent))
    assert service.sent[0]["title"] == "garden asks"


def test_bad_quiet_hours_are_blamed_on_where_they_are(tmp_path: Path) -> None:
    hosting = Hosting({"FAIRLEAD_NOTIFY_QUIET_HOURS": "at night"})
    try:
        said = hosting.run("ls", check=False).stderr
        assert 'FAIRLEAD_NOTIFY_QUIET_HOURS must be like "22:00-07:00"' in said
        assert "config.toml" not in said
    finally:
        hosting.close()


def test_quiet_hours_are_within_a_day_or_over_midnight() -> None:
    def at(hour: int, minute: int = 0, day: int = 14) -> float:
        return datetime(2025, 1, day, hour, minute, 30).timestamp()

    night, noon = quiet_hours("22:00-07:00"), quiet_hours("12:00 - 13:30")
    assert night is not None
    assert noon is not None
    seven = datetime(2025, 1, 15, 7).timestamp()
    assert [night.end_of(at(22)), night.end_of(at(3, day=15)), night.end_of(at(6, 59, day=15))] == [seven] * 3
    assert [night.end_of(at(7)), night.end_of(at(12)), night.end_of(at(21, 59))] == [None] * 3
    assert noon.end_of(at(13, 29)) == datetime(2025, 1, 14, 13, 30).timestamp()
    assert noon.end_of(at(13, 30)) is None
    assert quiet_hours("never") is None
    for wrong in ("22-7", "25:00-07:00", "22:00", "always"):
        with pytest.raises(ValueError, match='like "22:00-07:00"'):
            quiet_hours(wrong)
