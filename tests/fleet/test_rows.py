"""Rows of other hosts: what makes no sense, lies about its name or comes too often is not taken."""

import time

import pytest

from fairlead.fleet import limits, subjects
from fairlead.fleet.authority import Authority
from fairlead.fleet.creds import Creds, read_creds
from fairlead.fleet.rows import HostRow, Hosts, SessionRow, encoded_row
from fairlead.fleet.signing import EVENT, ROW, Verifier, seal


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    directory = tmp_path_factory.mktemp("fleet") / "f"
    made = Authority.new(str(directory), "team", "127.0.0.1:4222", "127.0.0.1:7422", ["127.0.0.1"])
    with made.changing():
        for name in ("roses", "tulips", "tulips.red", "own"):
            made.issue(subjects.MACHINE, name)
    return made


class Field:
    """Hosts, and the credentials with which they sign."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        account, operator = authority.account().public, authority.register.operator
        self.verifier = Verifier(account, "own", operator=operator)
        self.hosts = Hosts("own", self.verifier)
        self._number = time.time()

    def creds(self, name: str) -> Creds:
        return read_creds(self.authority.path("creds", f"machine-{name}.creds"))

    def seal(self, name: str, data: bytes, kind: str = ROW) -> str:
        self._number += 1
        return seal(self.creds(name), kind, repr(self._number), data)

    def take(self, subject: str, data: bytes, *, by: str = "roses", live: bool = True) -> None:
        self.hosts.take(subject, data, self.seal(by, data), live=live)


@pytest.fixture
def field(authority: Authority) -> Field:
    return Field(authority)


def row(name: str, sessions: int = 0) -> bytes:
    rows = [SessionRow(f"id{each}", "x" * 100, "terminal") for each in range(sessions)]
    return encoded_row(HostRow(name, "1", 0.0, sessions=rows, session_count=sessions))


def test_a_host_is_known_by_the_subject_it_may_speak_on(field: Field) -> None:
    hosts = field.hosts
    field.take("fl.roses.row", row("roses"))
    field.take("$KV.FLEET.host.tulips=red", row("tulips.red"), by="tulips.red", live=False)
    field.take("fl.own.row", row("own"), by="own")
    assert sorted(hosts.known) == ["roses", "tulips.red"]
    assert hosts.known["roses"].skew is not None
    assert hosts.known["tulips.red"].skew is None  # it may have lain there


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", row("another"), b"x" * (limits.MAX_ROW + 1)])
def test_what_makes_no_sense_is_not_taken(data: bytes, field: Field) -> None:
    field.take("fl.roses.row", data)
    assert field.hosts.known == {}
    assert field.hosts.refused == 1


def test_a_row_that_its_host_has_not_signed_or_an_older_one_is_not_taken(field: Field) -> None:
    hosts, data, forged = field.hosts, row("roses", 1), row("roses", 7)
    for sealed in (
        None,
        "",
        "{}",
        field.seal("tulips", forged),
        field.seal("roses", data),
        field.seal("roses", forged, EVENT),
    ):
        hosts.take("fl.roses.row", forged, sealed, live=True)
        hosts.take("$KV.FLEET.host.roses", forged, sealed, live=False)
    assert hosts.known == {}
    older, newer = field.seal("roses", forged), field.seal("roses", data)
    for each, sealed in ((data, newer), (data, newer), (forged, older)):
        hosts.take("fl.roses.row", each, sealed, live=True)
    assert hosts.known["roses"].row.session_count == 1
    with field.authority.changing():
        _, account = field.authority.revoke("roses")
    refused = hosts.refused
    field.verifier.learn(account)
    field.take("fl.roses.row", forged)
    assert hosts.refused == refused + 1
    with field.authority.changing():
        field.authority.issue(subjects.MACHINE, "roses")


def test_a_flood_of_rows_is_not_read_and_others_are(field: Field) -> None:
    hosts = field.hosts
    for _ in range(limits.ROWS_AT_ONCE * 20):
        hosts.take("fl.tulips.row", row("tulips"), None, live=True)  # not its own
    for _ in range(limits.ROWS_AT_ONCE * 20):
        field.take("fl.roses.row", row("roses"))
    assert hosts.refused > limits.ROWS_AT_ONCE * 35
    field.take("fl.tulips.row", row("tulips"), by="tulips")
    assert "tulips" in hosts.known


def test_a_row_with_very_many_sessions_is_cut_and_says_how_many_there_are(field: Field) -> None:
    data = row("roses", 20_000)
    assert len(data) + len(field.seal("roses", data)) <= limits.MAX_ROW
    field.take("fl.roses.row", data)
    assert field.hosts.listed()[0]["sessions"] == 20_000
