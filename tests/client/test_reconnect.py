"""A client waits for a daemon that is gone, for a while, and for no other."""

from __future__ import annotations

import pytest

from fairlead.client.calls import Call, nothing
from fairlead.client.launch import HungDaemon, NoDaemon, StartFailed, Stopped
from fairlead.client.reconnect import MAX_REPEATS, RETRY_PAUSE, Reconnect, repeating

GONE = ConnectionResetError("gone")


def test_a_daemon_that_is_gone_is_looked_for_until_the_time_is_over() -> None:
    assert Reconnect().pause(GONE) == RETRY_PAUSE
    with pytest.raises(ConnectionResetError, match="gone"):
        Reconnect(wait=-1.0).pause(GONE)


@pytest.mark.parametrize("error", [StartFailed("no room"), Stopped(), HungDaemon(7, 10.0)])
def test_one_that_was_stopped_can_not_start_or_hangs_is_not_waited_for(error: NoDaemon) -> None:
    with pytest.raises(type(error)):
        Reconnect().pause(error)


def test_what_fails_is_tried_again_until_it_works() -> None:
    failures = [ConnectionResetError(), TimeoutError(), NoDaemon("none yet")]

    def connect() -> str:
        if failures:
            raise failures.pop()
        return "connected"

    assert Reconnect().again(connect) == "connected"


def test_a_call_is_repeated_if_it_changes_nothing() -> None:
    with pytest.raises(ConnectionResetError):
        repeating(Call("terminal_stop", {}, nothing)).pause(GONE)
    looking, waiting = (repeating(Call(op, {}, dict)) for op in ("daemon_status", "terminal_wait"))
    for _ in range(MAX_REPEATS):
        assert looking.pause(GONE) == waiting.pause(GONE) == RETRY_PAUSE
    with pytest.raises(ConnectionResetError):
        looking.pause(GONE)
    assert waiting.pause(GONE) == RETRY_PAUSE
