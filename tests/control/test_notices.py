"""Notifications are queued durably and sent at most once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fairlead.control import notices as notices_module
from fairlead.control import store as store_module
from fairlead.control.actuators import GiveUp
from fairlead.control.notices import Notifier, send_with_apprise
from fairlead.control.signals import Action, Context, Signal
from fairlead.control.store import ControlStore, Full

CONTEXT = Context(Signal("x"))
WAIT = 20.0


class Sending:
    """A store with its notifier, and a service that answers as told."""

    def __init__(self, path: Path, *urls: str, answers: Callable[[str], bool] = lambda url: True) -> None:
        self.store = ControlStore(str(path / "control.db"))
        self.lost = self.store.open()
        self.sent: list[tuple[str, str, str]] = []
        self.failed: list[str] = []
        self._answers = answers
        self.notifier = Notifier(
            self.store, urls or ("a://",), self.failed.append, send=self._send, first_pause=0.01
        )

    def _send(self, url: str, title: str, body: str) -> bool:
        self.sent.append((url, title, body))
        return self._answers(url)

    async def until(self, holds: Callable[[], bool]) -> None:
        self.notifier.open()
        async with asyncio.timeout(WAIT):
            while not holds():
                await asyncio.sleep(0.005)
        await self.notifier.close()
        self.store.close()


def test_each_receiver_gets_it_once_and_a_refusal_is_tried_again(tmp_path: Path) -> None:
    async def work() -> None:
        refusals = iter([False, False, True])
        sending = Sending(
            tmp_path, "good://", "moody://", answers=lambda url: url == "good://" or next(refusals)
        )
        await sending.notifier.notify(Action("NOTIFY", "text", title="title"), CONTEXT)
        await sending.until(lambda: sending.store.counts() == {"sent": 2})
        assert sending.sent.count(("good://", "title", "text")) == 1
        assert sending.sent.count(("moody://", "title", "text")) == 3
        assert sending.failed == []

    asyncio.run(work())


def test_what_is_refused_again_and_again_is_given_up_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices_module, "LONGEST_PAUSE", 0.01)

    async def work() -> None:
        sending = Sending(tmp_path, answers=lambda url: False)
        await sending.notifier.notify(Action("NOTIFY", "text"), CONTEXT)
        await sending.until(lambda: bool(sending.failed))
        assert len(sending.sent) == notices_module.MAX_TRIES
        assert sending.failed == ["a notification was not sent: the service refused it 5 times"]

    asyncio.run(work())


def test_a_sender_that_raises_may_have_sent_it_so_it_is_not_sent_again(tmp_path: Path) -> None:
    def raises(url: str) -> bool:
        raise TypeError("odd")

    async def work() -> None:
        sending = Sending(tmp_path, answers=raises)
        await sending.notifier.notify(Action("NOTIFY", "text"), CONTEXT)
        await sending.until(lambda: bool(sending.failed))
        assert len(sending.sent) == 1
        assert "TypeError: odd" in sending.failed[0]

    asyncio.run(work())


def test_nobody_to_notify_a_full_queue_and_a_removed_address_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_QUEUED", 2)

    async def work() -> None:
        sending = Sending(tmp_path)
        nobody = Notifier(sending.store, (), sending.failed.append)
        with pytest.raises(GiveUp, match=r"\[notify\] urls"):
            await nobody.notify(Action("NOTIFY", "x"), CONTEXT)
        for _ in range(2):
            await sending.notifier.notify(Action("NOTIFY", "x"), CONTEXT)
        with pytest.raises(GiveUp, match="2 notifications are already queued"):
            await sending.notifier.notify(Action("NOTIFY", "x"), CONTEXT)
        sending.store.close()
        other = Sending(tmp_path, "b://")
        await other.until(lambda: len(other.failed) == 2)
        assert "no longer in [notify] urls" in other.failed[0]
        with pytest.raises(ValueError, match="at most 32 addresses"):
            Notifier(sending.store, ["x"] * 33, sending.failed.append)

    asyncio.run(work())


def test_a_flood_ends_and_no_text_controls_what_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices_module, "MAX_A_MINUTE", 2)

    async def work() -> None:
        sending = Sending(tmp_path)
        for _ in range(2):
            action = Action("NOTIFY", "a\x1b]52;c;QQ==\x07\n\u202eb\x9b1m", title="t\x1b[1m")
            await sending.notifier.notify(action, CONTEXT)
        with pytest.raises(GiveUp, match="2 notifications were sent within a minute"):
            await sending.notifier.notify(Action("NOTIFY", "x"), CONTEXT)
        await sending.until(lambda: len(sending.sent) == 2)
        assert sending.sent == 2 * [("a://", "t·[1m", "a·]52;c;QQ==·\n·b·1m")]

    asyncio.run(work())


def test_addresses_are_not_written_down(tmp_path: Path) -> None:
    async def work() -> None:
        sending = Sending(tmp_path, "tgram://very-secret-token/chat")
        await sending.notifier.notify(Action("NOTIFY", "x"), CONTEXT)
        await sending.until(lambda: bool(sending.sent))

    asyncio.run(work())
    assert not [path for path in tmp_path.iterdir() if b"very-secret" in path.read_bytes()]


KILLED = """
import asyncio, os, signal, sys
from fairlead.control.notices import Notifier
from fairlead.control.signals import Action, Context, Signal
from fairlead.control.store import ControlStore

store = ControlStore(sys.argv[1])
store.open()

def send(url, title, body):
    with open(sys.argv[2], "a") as file:
        file.write(body + "\\n")
    if body == "1":
        os.kill(os.getpid(), signal.SIGKILL)  # after it was sent, before that is written down
    return True

async def main():
    notifier = Notifier(store, ["x://"], print, send=send)
    for number in range(3):
        if len(sys.argv) == 3:
            await notifier.notify(Action("NOTIFY", str(number)), Context(Signal("x")))
    notifier.open()
    while store.counts().get("queued", 0) or store.counts().get("sending", 0):
        await asyncio.sleep(0.01)

asyncio.run(main())
"""


def test_a_kill_between_sending_and_writing_it_down_does_not_send_it_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "control.db"), str(tmp_path / "sent")]
    killed = subprocess.run(command, check=False, env=os.environ, timeout=WAIT)
    assert killed.returncode == -signal.SIGKILL
    store = ControlStore(str(tmp_path / "control.db"))
    assert store.counts() == {"queued": 1, "sending": 1, "sent": 1}
    (lost,) = store.open()
    assert "('1') was sent or is lost" in lost
    store.close()
    subprocess.run([*command, "again"], check=True, env=os.environ, timeout=WAIT)
    assert (tmp_path / "sent").read_text().split() == ["0", "1", "2"]


def test_agents_have_20_actions_waiting_and_leave_room_for_others(tmp_path: Path) -> None:
    action = Action("SHELL", "rm x")
    with closing(ControlStore(str(tmp_path / "control.db"))) as store:
        tokens = [store.ask(action, "why", (), f"agent s{number}").token for number in range(20)]
        store.ask(action, "why", (), "tui")
    with closing(ControlStore(str(tmp_path / "control.db"))) as store:  # also after a restart
        store.open()
        with pytest.raises(Full, match="20 actions that agents asked for are already waiting for consent"):
            store.ask(action, "why", (), "agent s21")
        store.ask(action, "why", (), "tui")
        assert len(store.asked()) == 22
        assert store.settle(tokens[0], False, "me") is not None
        store.ask(action, "why", (), "agent s21")


def test_too_many_questions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_WAITING", 1)
    store = ControlStore(str(tmp_path / "control.db"))
    asked = store.ask(Action("SHELL", "rm \udcff\0"), "why", (), "tui")
    with pytest.raises(Full, match="1 actions are already waiting for consent"):
        store.ask(Action("SHELL", "rm y"), "why", (), "tui")
    assert [each.token for each in store.asked()] == [asked.token]
    assert store.settle("'; DROP TABLE approvals; --", True, "x") is None
    assert store.settle(asked.token, False, "me") is not None
    assert store.settle(asked.token, True, "me") is None
    store.close()


def test_without_apprise_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(GiveUp, match=r"fairlead\[notify\]"):
        send_with_apprise("json://127.0.0.1", "", "x")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Apprise's
def test_an_address_of_no_service_is_named_without_its_secrets_and_others_get_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        store = ControlStore(str(tmp_path / "control.db"))
        store.open()
        notifier = Notifier(store, ["json://localhost:1", "nope://user:secret@x"], print)
        with pytest.raises(GiveUp, match=r"^Apprise does not recognize .* urls, number 2 \(nope:…\)$"):
            await notifier.notify(Action("NOTIFY", "text"), CONTEXT)
        assert store.counts() == {"queued": 2}
        store.close()

    asyncio.run(work())
    assert "secret" not in caplog.text


def test_the_last_failure_is_told_until_one_is_sent(tmp_path: Path) -> None:
    async def work() -> None:
        sending = Sending(tmp_path, answers=lambda url: len(sending.sent) > 1 or 1 / 0 > 0)
        for count in (1, 2):
            await sending.notifier.notify(Action("NOTIFY", "text"), CONTEXT)
            sending.notifier.open()
            async with asyncio.timeout(WAIT):
                while sum(sending.store.counts().get(state, 0) for state in ("sent", "failed")) < count:
                    await asyncio.sleep(0.005)
            assert sending.store.last_failure() == (
                "ZeroDivisionError: division by zero" if count == 1 else ""
            )
        await sending.notifier.close()
        sending.store.close()

    asyncio.run(work())
