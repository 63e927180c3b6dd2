"""A real nats-server with TLS: who belongs to the fleet comes in, and speaks on their own subjects."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from fairlead.fleet import limits, server, subjects
from fairlead.fleet.authority import FleetFault
from fairlead.fleet.creds import Creds, read_creds
from fairlead.fleet.nkeys import USER, KeyPair
from tests.fleet.fleets import WAIT, Fleet
from tests.hosting import is_alive


def run_alone(fleet: Fleet, creds: Creds, ca: str = "") -> str:
    """What the server says to a credential that tries to connect."""

    async def tried() -> str:
        try:
            word = creds.identity.word
            client = await server.connected(fleet.url, ca or fleet.ca, creds.jwt, creds.key, word)
        except FleetFault as error:
            return str(error)
        await client.close()
        return ""

    return asyncio.run(tried())


def is_refused(fleet: Fleet, creds: Creds) -> bool:
    """True if the server lets nobody in with this. It may close the connection before its reason is read."""
    return run_alone(fleet, creds) != "" and run_alone(fleet, fleet.administrator) == ""


def test_a_machine_may_only_speak_as_itself(fleet: Fleet) -> None:
    async def tried() -> None:
        fleet.creds("machine", "tulips")
        async with fleet.client(fleet.creds("machine", "roses")) as roses:
            for allowed in (
                "fl.roses.feed",
                "fl.ask.tulips.roses.do",
                "fl.roses.ans.tulips.1",
                "$KV.FLEET.host.roses",
            ):
                assert not await roses.refused(allowed), allowed
            for foreign in (
                "fl.tulips.feed",
                "fl.ask.roses.tulips.do",
                "fl.tulips.ans.roses.1",
                "fl.tulips.st.roses.1",
                "$KV.FLEET.host.tulips",
                "$KV.FLEET.account",
                "_INBOX.tulips.x",
                "$JS.API.STREAM.DELETE.FLEET_FEED",
                "$JS.API.STREAM.PURGE.FLEET_FEED",
                "$JS.API.CONSUMER.CREATE.FLEET_FEED",
                "$JS.API.STREAM.CREATE.mine",
                "$SYS.REQ.CLAIMS.UPDATE",
            ):
                assert await roses.refused(foreign), foreign
            for foreign in (
                "fl.ask.tulips.>",
                "fl.>",
                "fl.*.ans.tulips.>",
                "fl.*.st.tulips.>",
                ">",
                "_INBOX.>",
            ):
                assert await roses.may_not_hear(foreign), foreign
            for own in ("fl.ask.roses.>", "fl.*.ans.roses.>", "fl.*.feed", "$KV.FLEET.>"):
                assert not await roses.may_not_hear(own), own

    asyncio.run(tried())


def test_a_user_has_no_feed_and_a_read_only_one_asks_nothing_that_changes(fleet: Fleet) -> None:
    async def tried() -> None:
        async with fleet.client(fleet.creds("user", "mary")) as mary:
            assert not await mary.refused("fl.ask.roses.@mary.do")
            for foreign in ("fl.@mary.feed", "fl.mary.feed", "$KV.FLEET.host.@mary", "fl.ask.roses.mary.do"):
                assert await mary.refused(foreign), foreign
        async with fleet.client(fleet.creds("user", "paul", "--read-only")) as paul:
            assert not await paul.refused("fl.ask.roses.@paul.look")
            assert await paul.refused("fl.ask.roses.@paul.do")

    asyncio.run(tried())


def test_nobody_comes_in_without_a_credential(fleet: Fleet) -> None:
    host, _, port = fleet.url.removeprefix("tls://").rpartition(":")

    async def tried() -> str:
        from nats.aio.client import Client

        client = Client()
        try:
            await client.connect(
                fleet.url, tls=server.tls_context(fleet.ca), allow_reconnect=False, connect_timeout=5
            )
        except Exception as error:
            return str(error)
        await client.close()
        return ""

    assert "uthorization" in asyncio.run(tried())
    with socket.create_connection((host, int(port)), timeout=WAIT) as plain:
        plain.recv(4096)
        plain.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert b"PONG" not in plain.recv(4096)  # TLS is not optional


def test_a_wrong_credential_one_of_another_fleet_and_a_forged_one_are_refused(fleet: Fleet) -> None:
    mine = fleet.creds("machine", "roses")
    other_directory = fleet.hosting.directory / "other"
    fleet.hosting.run("fleet", "init", str(other_directory), "--address", "127.0.0.1")
    made = fleet.hosting.run("fleet", "creds", "machine", "roses", "--json", "--dir", str(other_directory))
    foreign = read_creds(json.loads(made.stdout)["creds"])
    forged = Creds(mine.jwt, KeyPair.new(USER), mine.identity)
    for each in (foreign, forged, Creds("x.y.z", mine.key, mine.identity)):
        assert is_refused(fleet, each)
    assert run_alone(fleet, mine) == ""


def test_a_server_with_a_certificate_of_another_authority_is_not_talked_to(fleet: Fleet) -> None:
    other = fleet.hosting.directory / "other-ca"
    fleet.hosting.run("fleet", "init", str(other), "--address", "127.0.0.1")
    assert "is not trusted" in run_alone(fleet, fleet.creds("machine", "roses"), str(other / "tls/ca.pem"))


def test_another_accounts_messages_are_not_seen(fleet: Fleet) -> None:
    fleet.run("init", "--account", "rivals")
    theirs = fleet.creds("machine", "spy", "--account", "rivals")
    mine = fleet.creds("machine", "roses")

    async def tried() -> None:
        async with fleet.client(theirs) as spy, fleet.client(mine) as roses, fleet.client(mine) as second:
            await spy.nats.subscribe("fl.*.feed", cb=spy.take)
            await second.nats.subscribe("fl.*.feed", cb=second.take)
            await spy.nats.flush()
            await second.nats.flush()
            await roses.nats.publish("fl.roses.feed", b"secret")
            await roses.nats.flush()
            async with asyncio.timeout(WAIT):
                while not second.messages:
                    await asyncio.sleep(0.01)
            await spy.nats.flush()
            assert spy.messages == []
            assert await spy.refused("fl.roses.feed")

    asyncio.run(tried())


def test_a_revoked_credential_is_cut_off_at_once_and_can_not_come_back(fleet: Fleet) -> None:
    creds = fleet.creds("machine", "lost-laptop")

    async def tried() -> None:
        async with fleet.client(creds) as laptop, fleet.client(fleet.creds("machine", "roses")) as roses:
            done = await asyncio.to_thread(fleet.run, "revoke", "lost-laptop")
            assert "the server knows it" in done.stdout
            async with asyncio.timeout(WAIT):
                await laptop.closed.wait()
            assert not await roses.refused("fl.roses.feed")  # others are not touched

    asyncio.run(tried())
    assert is_refused(fleet, creds)
    again = fleet.creds("machine", "lost-laptop", "--out", str(fleet.directory / "new.creds"))
    assert run_alone(fleet, again) == ""
    assert is_refused(fleet, creds)


def test_a_message_that_is_too_big_ends_the_connection_of_who_sends_it(fleet: Fleet) -> None:
    async def tried() -> None:
        async with fleet.client(fleet.creds("machine", "roses")) as roses:
            roses.nats._max_payload = 64 * limits.MIB  # our own check protects nobody
            await roses.nats.publish("fl.roses.st.tulips.1", bytes(limits.MAX_CREDENTIAL_PAYLOAD + 1))
            async with asyncio.timeout(WAIT):
                await roses.closed.wait()

    asyncio.run(tried())


def test_a_host_that_floods_the_feed_pushes_out_only_its_own_events(fleet: Fleet) -> None:
    creds = fleet.creds("machine", "flooder")

    async def tried() -> None:
        async with (
            fleet.client(fleet.administrator) as administrator,
            fleet.client(creds) as flooder,
            fleet.client(fleet.creds("machine", "quiet")) as quiet,
        ):
            await quiet.nats.jetstream().publish("fl.quiet.feed", b"mine")
            for count in range(limits.FEED_MESSAGES_OF_HOST + 500):
                await flooder.nats.publish("fl.flooder.feed", b"%d" % count)
            await flooder.nats.flush(timeout=60)
            last = await flooder.nats.jetstream().publish("fl.flooder.feed", b"last")
            assert last.seq
            found = await administrator.nats.jetstream().stream_info(subjects.FEED_STREAM, "fl.*.feed")
            counts = found.state.subjects or {}
            assert counts["fl.flooder.feed"] == limits.FEED_MESSAGES_OF_HOST
            assert await administrator.kept("fl.quiet.feed") == [b"mine"]
            with pytest.raises(Exception, match="maximum"):
                await flooder.nats.jetstream().publish("fl.flooder.feed", bytes(limits.MAX_EVENT + 1))

    asyncio.run(tried())


def test_a_server_that_dies_is_started_again_with_what_it_had(fleet: Fleet) -> None:
    creds = fleet.creds("machine", "roses")

    async def put() -> None:
        async with fleet.client(creds) as roses:
            await roses.nats.jetstream().publish("fl.roses.feed", b"kept")

    async def kept() -> list[bytes]:
        creds = fleet.administrator
        async with fleet.client(creds) as administrator:
            return await administrator.kept("fl.roses.feed")

    asyncio.run(put())
    before = fleet.server_pid
    os.kill(before, signal.SIGKILL)
    fleet.hosting.until(lambda: fleet.server_pid != before and run_alone(fleet, creds) == "")
    assert asyncio.run(kept())[-1] == b"kept"


def test_a_server_that_can_not_start_says_why_and_ends(fleet: Fleet) -> None:
    second = fleet.hosting.run("fleet", "serve", str(fleet.directory), check=False)
    assert second.returncode == 1
    assert "runs already" in second.stderr
    assert fleet.server_pid
    other = fleet.hosting.directory / "same-port"
    listen = fleet.url.removeprefix("tls://")
    fleet.hosting.run("fleet", "init", str(other), "--address", "127.0.0.1", "--listen", listen)
    taken = fleet.hosting.run("fleet", "serve", str(other), check=False)
    assert taken.returncode == 1
    assert "nats-server ended with" in taken.stderr
    assert Path(fleet.directory, "nats-server.conf").stat().st_mode & 0o077 == 0


def test_a_server_that_leaves_out_tls_gets_no_credential(fleet: Fleet) -> None:
    """As somebody between us and the server could pretend: what comes before TLS is not protected."""
    creds = fleet.creds("machine", "roses")
    heard: list[bytes] = []

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","nonce":"abc","auth_required":true,"headers":true}\r\n')
        heard.append(await reader.read(4096))
        writer.close()

    async def tried() -> None:
        listening = await asyncio.start_server(pretend, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        async with listening:
            with pytest.raises(FleetFault, match="does not want TLS"):
                await server.connected(f"tls://127.0.0.1:{port}", fleet.ca, creds.jwt, creds.key, "roses")

    asyncio.run(tried())
    assert b"".join(heard) == b""


def test_a_server_that_was_left_over_is_replaced(fleet: Fleet) -> None:
    left_over = fleet.server_pid
    fleet.kill_supervisor()
    assert is_alive(left_over)
    fleet.serve()
    assert fleet.server_pid != left_over
    assert not is_alive(left_over)
    assert run_alone(fleet, fleet.administrator) == ""


def test_a_server_whose_own_name_leads_nowhere_here_is_served_and_told(fleet: Fleet) -> None:
    """Its name may be known to the other machines only."""
    named = Fleet(fleet.hosting, "named", address="hub.invalid", listen="0.0.0.0")
    try:
        named.serve()
        named.creds("machine", "roses")
        assert "the server knows it" in named.run("revoke", "roses").stdout
    finally:
        named.close()
