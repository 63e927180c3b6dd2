"""What passes on a control stream is read at both ends."""

import asyncio

import pytest

from fairlead.fleet import limits, subjects
from fairlead.fleet.authority import Authority
from fairlead.fleet.channels import StreamClosed
from fairlead.fleet.creds import Creds, read_creds
from fairlead.fleet.guarding import PROOF, FarEnd, HeldLines, NearEnd, request_of
from fairlead.fleet.signing import Verifier
from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire import rpc
from fairlead.wire.rpc import Request, fields


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Creds:
    directory = tmp_path_factory.mktemp("fleet") / "f"
    made = Authority.new(str(directory), "team", "127.0.0.1:4222", "127.0.0.1:7422", ["127.0.0.1"])
    with made.changing():
        return read_creds(made.issue(subjects.MACHINE, "roses"))


def line(op: str, **params: object) -> bytes:
    return rpc.encode(Request("r1", op, fields(**params)))


def params_of(data: bytes) -> dict[object, object]:
    found = request_of(edn.loads(data))
    assert found is not None
    return found[2]


def far(own: Creds) -> FarEnd:
    return FarEnd(Verifier(own.identity.account, "tulips"), "tulips", own.identity)


def test_keys_are_not_told_and_who_answers_is_told_by_us(own: Creds) -> None:
    hello = rpc.ClientConnection().handshake(
        "fairlead", "1", [rpc.HOSTS, rpc.RECEIPTS], key_names=["SECRET_KEY"], via="the queen"
    )
    sent = asyncio.run(NearEnd("tulips", own).outward(hello))
    assert b"SECRET_KEY" not in sent
    got = asyncio.run(far(own).inward(hello))
    assert b"SECRET_KEY" not in got
    assert b"queen" not in got
    info = params_of(got)[Keyword("client-info")]
    assert isinstance(info, dict)
    assert info[Keyword("via")] == "a person on roses"
    assert info[Keyword("features")] == [rpc.RECEIPTS]  # it asks no other hosts through us


def test_a_consent_is_signed_at_the_near_end_and_not_for_an_agent(own: Creds) -> None:
    asked = line("approval_settle", token="abcd", allowed=True)
    near = NearEnd("tulips", own)
    assert PROOF in params_of(asyncio.run(near.outward(asked)))
    agents = NearEnd("tulips", own)
    hello = rpc.ClientConnection().handshake("fairlead", "1", agent="a1")
    asyncio.run(agents.outward(hello))
    assert PROOF not in params_of(asyncio.run(agents.outward(asked)))


@pytest.mark.parametrize("op", ["approval_settle", "resolve_dialog", "cancel_dialog"])
def test_an_unsigned_consent_never_gets_to_the_daemon(own: Creds, op: str) -> None:
    end = far(own)
    given = {"token": "abcd", "allowed": True} if op == "approval_settle" else {"dialog_id": "abcd"}
    assert asyncio.run(end.inward(line(op, **given))) == b""
    assert b"only if it is signed" in end.replies()


@pytest.mark.parametrize("op", ["daemon_stop", "daemon_restart", "lend_key", "login_complete", "ask_person"])
def test_what_is_for_the_machine_itself_never_gets_to_the_daemon(own: Creds, op: str) -> None:
    end = far(own)
    assert asyncio.run(end.inward(line(op))) == b""
    assert b"only for tulips itself" in end.replies()


def test_nothing_is_passed_on_to_other_hosts(own: Creds) -> None:
    got = asyncio.run(far(own).inward(line("session_list", hosts=True)))
    assert Keyword("hosts") not in params_of(got)


def test_a_line_that_we_can_not_read_is_not_read_by_the_daemon_either(own: Creds) -> None:
    for wrong in (b"{:id 1\n", b"[]\n", b'{:op "approval_settle"}\n', b"\xff\n", b"\n"):
        assert asyncio.run(far(own).inward(wrong)) == b"\n"


def test_a_reply_of_ours_is_never_in_the_middle_of_the_daemons_line(own: Creds) -> None:
    async def tried() -> None:
        end = far(own)
        assert await end.outward(b"{:half") == b"{:half"
        await end.inward(line("daemon_stop"))
        assert end.replies() == b""
        said = await end.outward(b" a line}\n{:next")
        first, second, third = said.split(b"\n")
        assert first == b" a line}"
        assert b"only for tulips" in second
        assert third == b"{:next"

    asyncio.run(tried())


def test_what_waits_of_another_host_is_bounded(own: Creds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LINES_HELD", 1000)
    monkeypatch.setattr(limits, "MAX_REFUSALS", 1000)
    held = HeldLines()
    ends = [
        FarEnd(Verifier(own.identity.account, "tulips"), "tulips", own.identity, None, held) for _ in range(3)
    ]

    async def tried() -> None:
        first, second, third = ends
        await first.inward(b"x" * 600)
        with pytest.raises(StreamClosed, match="long lines"):
            await second.inward(b"x" * 600)
        for each in (first, second):
            each.over()
        assert held.bytes == 0
        await third.outward(b"half a line")  # the client does not read on
        many = line("daemon_stop") * 20
        with pytest.raises(StreamClosed, match="refused"):
            await third.inward(many)

    asyncio.run(tried())
