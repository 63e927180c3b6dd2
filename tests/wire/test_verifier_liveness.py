"""When the verifier's ends ping, when they give up, and where their sockets are."""

import pytest

from fairlead.wire.verifier import (
    MAX_MISSES,
    MAX_SOCKET_PATH,
    PING_INTERVAL,
    Liveness,
    Ping,
    Pong,
    breadcrumb_path,
    check_session_id,
    socket_path,
)


def pinged(liveness: Liveness) -> str:
    """The nonce of the ping that is due now."""
    ping = liveness.due(liveness.next)
    assert isinstance(ping, Ping)
    return ping.nonce


def test_a_ping_is_due_every_ten_seconds_with_a_nonce_of_its_own() -> None:
    liveness = Liveness(now=100.0)
    nonces = []
    for number in range(1, 6):
        assert liveness.next == 100.0 + number * PING_INTERVAL
        nonces.append(pinged(liveness))
        liveness.heard(Pong(nonce=nonces[-1]))
    assert PING_INTERVAL == 10.0
    assert len(set(nonces)) == 5


def test_the_next_ping_counts_from_when_the_last_was_sent() -> None:
    liveness = Liveness(now=0.0)
    liveness.due(13.5)
    assert liveness.next == 23.5


def test_a_peer_is_gone_after_three_pings_without_a_pong() -> None:
    liveness = Liveness(now=0.0)
    for _ in range(MAX_MISSES):
        pinged(liveness)
    assert MAX_MISSES == 3
    assert liveness.next == 40.0
    assert liveness.due(40.0) is None
    assert liveness.due(50.0) is None


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_late_pong_for_any_of_the_last_pings_forgives_all_misses(answered: int) -> None:
    liveness = Liveness(now=0.0)
    nonces = [pinged(liveness) for _ in range(3)]
    assert liveness.due(40.0) is None
    liveness.heard(Pong(nonce=nonces[answered]))
    for _ in range(3):
        pinged(liveness)
    assert liveness.due(liveness.next) is None


@pytest.mark.parametrize("nonce", ["", "nonsense", "0", "99"])
def test_a_pong_that_answers_no_ping_forgives_nothing(nonce: str) -> None:
    liveness = Liveness(now=0.0)
    liveness.heard(Pong(nonce=nonce))
    for _ in range(3):
        pinged(liveness)
        liveness.heard(Pong(nonce=nonce))
    assert liveness.due(40.0) is None


def test_a_pong_counts_once() -> None:
    liveness = Liveness(now=0.0)
    first = pinged(liveness)
    liveness.heard(Pong(nonce=first))
    for _ in range(3):
        pinged(liveness)
        liveness.heard(Pong(nonce=first))
    assert liveness.due(liveness.next) is None


def test_interval_and_misses_may_be_others() -> None:
    liveness = Liveness(now=0.0, interval=2.0, max_misses=1)
    assert liveness.next == 2.0
    pinged(liveness)
    assert liveness.next == 4.0
    assert liveness.due(4.0) is None


# --- where the sockets are ---------------------------------------------------------------------------------


def test_a_session_has_a_socket_and_a_breadcrumb_that_leads_to_it() -> None:
    assert socket_path("a1b2") == "/tmp/pi-verifier/a1b2.sock"
    assert socket_path("a1b2", "/run/x") == "/run/x/a1b2.sock"
    assert breadcrumb_path("a1b2", "/home/me/project") == "/home/me/project/.pi/state/verifier-a1b2.sock.ref"


@pytest.mark.parametrize("session_id", ["a", "a1b2", "2026-01-31T12:00", "é", "...", "a.b"])
def test_a_session_id_may_be_anything_that_fits_into_a_path(session_id: str) -> None:
    assert check_session_id(session_id) == session_id


@pytest.mark.parametrize("session_id", ["", "a/b", "../a", "a\0", "a b", "a\tb", "a\n", "\u2028", ".", ".."])
def test_a_session_id_that_would_leave_the_directory_is_refused(session_id: str) -> None:
    text = f"a session id is not empty and has no slash, NUL or white space: {session_id!r}"
    for refused in (check_session_id, socket_path, lambda session_id: breadcrumb_path(session_id, "/x")):
        with pytest.raises(ValueError, match="a session id") as raised:
            refused(session_id)
        assert str(raised.value) == text


def test_a_path_that_is_too_long_for_a_socket_is_refused_and_counted_in_bytes() -> None:
    room = MAX_SOCKET_PATH - len("/tmp/pi-verifier/.sock")
    assert MAX_SOCKET_PATH == 100
    assert len(socket_path("x" * room)) == 100
    with pytest.raises(ValueError, match="the socket's path") as raised:
        socket_path("é" + "x" * (room - 1))
    path = "/tmp/pi-verifier/é" + "x" * (room - 1) + ".sock"
    assert str(raised.value) == f"the socket's path has 101 bytes; at most 100 are possible: {path}"
