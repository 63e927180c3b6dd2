"""Rows of other hosts: what makes no sense, lies about its name or comes too often is not taken."""

import pytest

from fairlead.fleet import limits
from fairlead.fleet.rows import HostRow, Hosts, SessionRow, encoded_row


def row(name: str, sessions: int = 0) -> bytes:
    rows = [SessionRow(f"id{each}", "x" * 100, "terminal") for each in range(sessions)]
    return encoded_row(HostRow(name, "1", 0.0, sessions=rows, session_count=sessions))


def test_a_host_is_known_by_the_subject_it_may_speak_on() -> None:
    hosts = Hosts("own")
    hosts.take("fl.roses.row", row("roses"), live=True)
    hosts.take("$KV.FLEET.host.tulips=red", row("tulips.red"), live=False)
    hosts.take("fl.own.row", row("own"), live=True)
    assert sorted(hosts.known) == ["roses", "tulips.red"]
    assert hosts.known["roses"].skew is not None
    assert hosts.known["tulips.red"].skew is None  # it may have lain there


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", row("another"), b"x" * (limits.MAX_ROW + 1)])
def test_what_makes_no_sense_is_not_taken(data: bytes) -> None:
    hosts = Hosts("own")
    hosts.take("fl.roses.row", data, live=True)
    assert hosts.known == {}
    assert hosts.refused == 1


def test_a_flood_of_rows_is_not_read_and_others_are() -> None:
    hosts = Hosts("own")
    for _ in range(limits.ROWS_AT_ONCE * 20):
        hosts.take("fl.roses.row", row("roses"), live=True)
    assert hosts.refused > limits.ROWS_AT_ONCE * 15
    hosts.take("fl.tulips.row", row("tulips"), live=True)
    assert "tulips" in hosts.known


def test_a_row_with_very_many_sessions_is_cut_and_says_how_many_there_are() -> None:
    hosts = Hosts("own")
    data = row("roses", 20_000)
    assert len(data) <= limits.MAX_ROW
    hosts.take("fl.roses.row", data, live=True)
    assert hosts.listed()[0]["sessions"] == 20_000
