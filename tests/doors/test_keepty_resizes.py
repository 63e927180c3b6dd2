"""Sizes and the death of daemons: the next one shows what was printed at the size that it was printed for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.wire import keepty
from fairlead.wire.keepty import Role
from tests.doors.peer import Peer
from tests.hosting import Hosting


@pytest.fixture
def hosting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosting]:
    hosting = Hosting()
    monkeypatch.setenv("XDG_RUNTIME_DIR", hosting.environment["XDG_RUNTIME_DIR"])
    yield hosting
    hosting.close()


def test_what_was_printed_before_a_resize_is_rebuilt_at_the_old_size_by_the_next_daemon(
    hosting: Hosting,
) -> None:
    hosting.start("work", r"printf '\033[5;70Hfar\033[1;1Hnear'; read line; stty size; read line")
    hosting.wait_text("work", "near")
    with Peer.greeted("work", Role.WRITER) as writer:
        for cols in (100, 40):
            writer.send(keepty.Resize(cols, 24))
            writer.next(keepty.ResizeAck)
    before = hosting.screen("work")
    assert "far" in before
    hosting.kill_daemon()
    assert hosting.screen("work") == before
    with Peer.greeted("work", Role.WRITER, 40, 24) as writer:
        writer.send(keepty.Resize(90, 20))
        assert writer.next(keepty.ResizeAck) == keepty.ResizeAck(3, 90, 20)
        writer.typed("\n")
        writer.until(b"20 90")
