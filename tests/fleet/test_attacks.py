"""Who belongs to the fleet and wants more than that: each try with its refusal."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import RequestError
from fairlead.fleet import limits, subjects
from fairlead.fleet.creds import Creds
from fairlead.fleet.guarding import PROOF, consent_digest
from fairlead.fleet.jwt import encoded
from fairlead.fleet.member import PROOF_HEADER, ask_digest
from fairlead.fleet.nkeys import OPERATOR, KeyPair
from fairlead.fleet.rows import HostRow, encoded_row
from fairlead.fleet.signing import ASK, CONSENT, EVENT, ROW, SEAL_HEADER, proof, seal
from fairlead.wire.rpc import fields
from tests.fleet.asking import AskedPerson
from tests.fleet.fleets import WAIT, Fleet, Heard
from tests.fleet.machines import Machine


@pytest.fixture(scope="module")
def victim(fleet: Fleet) -> Iterator[Machine]:
    """A machine that is asked for this and that."""
    made = Machine(fleet, "victim")
    try:
        made.start("work", "echo this is the victim; exec cat")
        made.join()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def friend(fleet: Fleet, victim: Machine) -> Iterator[Machine]:
    """Another machine, which sees the victim."""
    made = Machine(fleet, "friend")
    try:
        made.join()
        made.wait_for("victim")
        yield made
    finally:
        made.close()


class Asking:
    """What a client sends by itself, without any of the fleet's own care."""

    def __init__(self, heard: Heard, creds: Creds) -> None:
        self.heard = heard
        self.creds = creds

    async def send(
        self,
        to: str,
        what: str,
        params: dict[str, Any],
        *,
        signed: str | None = None,
        changes: bool = True,
        id: str = "",
    ) -> tuple[str, bytes, dict[str, str]]:
        me = self.creds.identity.word
        subject = subjects.ask(to, me, changes=changes)
        id = id or f"{time.monotonic_ns():032x}"
        data = json.dumps({"ask": what, "id": id, "params": params}).encode()
        mine = proof(self.creds, ASK, to, ask_digest(subject, data)) if signed is None else signed
        headers = {PROOF_HEADER: mine} if mine else {}
        await self.heard.nats.publish(subject, data, reply=subjects.answer(to, me, id), headers=headers)
        return subject, data, headers

    async def ask(self, to: str, what: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
        before = len(self.heard.messages)
        await self.send(to, what, params, **more)
        return await self.answer(before)

    async def answer(self, before: int) -> dict[str, Any]:
        async with asyncio.timeout(WAIT):
            while len(self.heard.messages) == before:
                await asyncio.sleep(0.005)
        found: dict[str, Any] = json.loads(self.heard.messages[-1].data)
        return found


def as_client(fleet: Fleet, creds: Creds, what: Any) -> Any:
    """Run a coroutine function with a client of this credential that hears its answers."""

    async def run() -> Any:
        async with fleet.client(creds) as heard:
            await heard.nats.subscribe(subjects.answer("*", creds.identity.word, ">"), cb=heard.take)
            await heard.nats.flush()
            return await what(Asking(heard, creds))

    return asyncio.run(run())


def test_requests_without_a_right_signature_are_refused(fleet: Fleet, victim: Machine) -> None:
    mallory, other = fleet.creds("machine", "mallory"), fleet.creds("machine", "other")

    async def tried(asking: Asking) -> None:
        assert (await asking.ask("victim", "ping", {}))["ok"]
        unsigned = await asking.ask("victim", "ping", {}, signed="")
        assert unsigned == {"ok": False, "error": "it is not signed"}
        for wrong in (
            proof(mallory, ASK, "victim", b"something else"),
            proof(mallory, CONSENT, "victim", b""),
            proof(other, ASK, "victim", b""),
            "{}",
            "[" * 5000,
            "x" * 20_000,
        ):
            if len(wrong) > 15_000:
                continue
            assert not (await asking.ask("victim", "ping", {}, signed=wrong))["ok"]

    as_client(fleet, mallory, tried)


def test_a_request_that_is_repeated_byte_by_byte_counts_once(fleet: Fleet, victim: Machine) -> None:
    async def tried(asking: Asking) -> None:
        given = {"op": "terminal_send", "params": {"name": "work", "text": "once."}}
        subject, data, headers = await asking.send("victim", "call", given)
        assert (await asking.answer(0))["ok"]
        for _ in range(3):
            before = len(asking.heard.messages)
            id = json.loads(data)["id"]
            reply = subjects.answer("victim", "mallory", id)
            await asking.heard.nats.publish(subject, data, reply=reply, headers=headers)
            assert "repetition" in (await asking.answer(before))["error"]

    as_client(fleet, fleet.creds("machine", "mallory"), tried)
    victim.wait_text("work", "once.")
    assert victim.screen("work").count("once.") == 1


def test_what_the_server_delivers_on_a_subject_of_another_is_refused(fleet: Fleet, victim: Machine) -> None:
    """JetStream answers to any subject: so a request of mallory's arrives as if another had sent it."""
    mallory = fleet.creds("machine", "mallory")
    fleet.creds("machine", "roses")

    async def tried(asking: Asking) -> None:
        stream = asking.heard.nats.jetstream()
        subject = subjects.ask("victim", "roses", changes=True)
        given = {"op": "terminal_send", "params": {"name": "work", "text": "forged"}}
        data = json.dumps({"ask": "call", "id": "0" * 32, "params": given}).encode()
        signed = proof(mallory, ASK, "victim", ask_digest(subject, data))
        await stream.publish("fl.mallory.feed", data, headers={PROOF_HEADER: signed})
        await asking.heard.nats.publish("$JS.API.DIRECT.GET.FLEET_FEED.fl.mallory.feed", b"", reply=subject)
        await asking.heard.nats.flush()

    as_client(fleet, mallory, tried)
    victim.until(lambda: "refused a request of roses: mallory has signed it" in victim.fleet_log())
    assert "forged" not in victim.screen("work")


def test_an_answer_from_another_host_says_who_gave_it_and_counts_once(
    victim: Machine, friend: Machine
) -> None:
    question = AskedPerson(victim, "aaaabbbbcccc0001")
    try:
        given = {"token": question.token, "allowed": True, "option": "answer", "text": "red"}
        friend.asked_there("victim", "approval_settle", **given)
        question.settle()
        assert question.answer["by"] == "a person on friend"
        assert question.answer["text"] == "red"
        with pytest.raises(RequestError, match="answered already by a person on friend"):
            friend.asked_there("victim", "approval_settle", **given)
    finally:
        question.settle()


def test_a_users_own_signature_names_the_user(fleet: Fleet, victim: Machine) -> None:
    laptop = Machine(fleet, "laptop")
    question = AskedPerson(victim, "aaaabbbbcccc0002")
    try:
        laptop.join("--user", fleet.creds_path("user", "mary"))
        laptop.wait_for("victim")
        laptop.run("approvals", "answer", f"victim:{question.token}", "blue")
        question.settle()
        assert question.answer["by"] == "mary on laptop"
    finally:
        question.settle()
        laptop.close()


def test_forged_and_repeated_consents_are_refused(fleet: Fleet, victim: Machine) -> None:
    mallory, mary = fleet.creds("machine", "mallory"), fleet.creds("user", "mary")
    question = AskedPerson(victim, "aaaabbbbcccc0003")
    params = {"token": question.token, "allowed": True, "option": "answer", "text": "red"}

    def signed(creds: Creds, host: str = "victim", **changed: Any) -> str:
        what = consent_digest(host, "approval_settle", fields(**{**params, **changed}))
        return proof(creds, CONSENT, host, what)

    borrowed = json.loads(signed(mallory))
    borrowed["jwt"] = mary.jwt  # her JWT is no secret, her key is

    async def tried(asking: Asking) -> None:
        async def settle(text: str | None, **changed: Any) -> str:
            given = {**params, **changed} | ({PROOF.name: text} if text is not None else {})
            said = await asking.ask("victim", "call", {"op": "approval_settle", "params": given})
            return "" if said["ok"] else str(said["error"])

        for wrong, why in (
            (None, "not signed"),
            (signed(mallory, "friend"), "another host"),
            (signed(mallory, text="blue"), "does not fit"),
            (signed(mallory, token="aaaabbbbcccc0009"), "does not fit"),
            (json.dumps(borrowed), "does not fit"),
            (signed(fleet.creds("machine", "other")), "may not answer as other"),
            (signed(fleet.creds("user", "reader", "--read-only")), "read-only"),
            (signed(mallory)[:-3], "can't be read"),
        ):
            said = await settle(wrong)
            assert why in said, (why, said)
        assert question.is_open
        right = signed(mary)
        assert await settle(right) == ""
        assert "repetition" in await settle(right)

    try:
        as_client(fleet, mallory, tried)
        question.settle()
        assert question.answer["text"] == "red"
    finally:
        question.settle()


def test_a_read_only_credential_looks_and_changes_nothing(fleet: Fleet, victim: Machine) -> None:
    reader = Machine(fleet, "watcher")
    question = AskedPerson(victim, "aaaabbbbcccc0004")
    try:
        fleet.creds_path("user", "watcher", "--read-only")
        reader.join(kind="user")
        reader.wait_for("victim")
        assert "this is the victim" in reader.run("screen", "victim:work").stdout
        for words in (
            ("send", "victim:work", "x"),
            ("stop", "victim:work"),
            ("approvals", "answer", f"victim:{question.token}", "red"),
        ):
            refused = reader.run(*words, check=False)
            assert refused.returncode != 0, words
            assert "read-only" in refused.stderr, refused.stderr
        with reader.local("terminal victim work") as stream:
            assert b"may%20not%20attach" in stream.recv(4096)
        assert question.is_open
        assert not victim.sees("watcher")
    finally:
        question.settle()
        reader.close()


def test_a_flood_of_requests_is_dropped_and_others_are_answered(
    fleet: Fleet, victim: Machine, friend: Machine
) -> None:
    async def tried(asking: Asking) -> int:
        payload = json.dumps({"ask": "ping", "id": "0" * 32, "params": {}}).encode()
        for _ in range(20_000):
            await asking.heard.nats.publish("fl.ask.victim.flooder.do", payload)
        await asking.heard.nats.flush(timeout=60)
        assert "this is the victim" in await asyncio.to_thread(
            lambda: friend.run("screen", "victim:work").stdout
        )
        return len(asking.heard.messages)

    as_client(fleet, fleet.creds("machine", "flooder"), tried)
    victim.until(lambda: victim.status()["dropped_requests"] > 20_000 - 100 * limits.ASKS_AT_ONCE)


def test_a_host_can_not_publish_events_of_another_or_twice(
    fleet: Fleet, victim: Machine, friend: Machine
) -> None:
    mallory = fleet.creds("machine", "mallory")

    async def tried(asking: Asking) -> None:
        stream = asking.heard.nats.jetstream()
        for count, number in enumerate(("e:1", "e:2", "e:1", "", "e:3", "e:7")):
            event = {"topic": "sessions/state", "data": {"n": count}, "at": 1.0}
            data = json.dumps(event).encode()
            headers = {SEAL_HEADER: seal(mallory, EVENT, number, data)} if number else {}
            await stream.publish("fl.mallory.feed", data, headers=headers)
            await redirected(asking.heard, data, headers, "fl.victim.feed")

    since = max((each["seq"] for each in friend.feed()), default=0)
    as_client(fleet, mallory, tried)
    events = friend.feed(since)
    found = [each["data"]["n"] for each in events if each.get("host") == "mallory" and "data" in each]
    assert found == [0, 1, 4, 5]
    missing = [each for each in events if each["topic"] == "fleet/reset"]
    assert [each["host"] for each in missing] == ["mallory"]  # 4 to 6 never came
    assert not any("n" in each["data"] for each in events if each.get("host") == "victim" and "data" in each)


def test_what_the_server_has_put_in_the_place_of_a_row_is_not_believed(
    fleet: Fleet, victim: Machine, friend: Machine
) -> None:
    mallory = fleet.creds("machine", "mallory")

    async def tried(asking: Asking) -> None:
        for who in ("victim", "ghost"):
            forged = encoded_row(HostRow(who, "0.0.1", time.time(), questions=77, session_count=77))
            for headers in ({}, {SEAL_HEADER: seal(mallory, ROW, repr(time.time() + 9), forged)}):
                places = f"fl.{who}.row", f"$KV.FLEET.host.{who}"
                await redirected(asking.heard, forged, headers, *places)

    as_client(fleet, mallory, tried)
    for _ in range(2):
        hosts = {each["name"]: each for each in friend.status()["hosts"]}
        assert "ghost" not in hosts
        assert hosts["victim"]["questions"] != 77
        friend.run("fleet", "join")  # begins anew, with what the bucket has
        friend.wait_for("victim")


def test_a_revoked_machine_is_away_at_once_with_its_streams(fleet: Fleet, victim: Machine) -> None:
    lost = Machine(fleet, "stolen")
    try:
        lost.join()
        lost.wait_for("victim")
        with lost.local("control victim") as stream:
            assert b"ready" in stream.recv(4096)
            fleet.run("revoke", "stolen")
            stream.settimeout(WAIT)
            while stream.recv(4096):  # until it is closed
                pass
        lost.until(lambda: "refuses this credential" in lost.status()["why_away"])
        assert lost.run("-H", "victim", "ls", check=False).returncode != 0
    finally:
        lost.close()


async def redirected(heard: Heard, data: bytes, headers: dict[str, str], *subjects_: str) -> None:
    """Have JetStream put bytes of mallory's own on subjects of others."""
    stream = heard.nats.jetstream()
    unique = {"Nats-Msg-Id": f"mallory:x:{time.monotonic_ns()}"}
    kept = await stream.publish("fl.mallory.feed", data, headers={**unique, **headers})
    for subject in subjects_:
        ask = json.dumps({"seq": kept.seq}).encode()
        await heard.nats.publish("$JS.API.DIRECT.GET.FLEET_FEED", ask, reply=subject)
    await heard.nats.flush()


def test_an_account_of_another_operator_is_not_taken_and_ends_nothing(fleet: Fleet, victim: Machine) -> None:
    mallory = fleet.creds("machine", "mallory")
    operator = KeyPair.new(OPERATOR)
    forged = encoded("account", "team", mallory.identity.account, operator, {"revocations": {}}).encode()
    pid = victim.status()["pid"]

    async def kept(heard: Heard) -> bytes:
        found = await heard.nats.request("$JS.API.DIRECT.GET.KV_FLEET.$KV.FLEET.account", b"", timeout=WAIT)
        return found.data

    async def tried(asking: Asking) -> None:
        heard = asking.heard
        await redirected(heard, forged, {"Status": "500 no"}, "$KV.FLEET.account", "$KV.FLEET.host.odd")
        assert await kept(heard) == forged
        # a machine that begins now, and sees nothing else
        newcomer = Machine(fleet, "newcomer")
        try:
            await asyncio.to_thread(newcomer.join)
            await asyncio.to_thread(newcomer.until, lambda: "another operator" in newcomer.fleet_log())
            async with asyncio.timeout(WAIT):  # the server tells it again
                while await kept(heard) == forged:
                    await asyncio.sleep(0.2)
            account = Path(newcomer.environment["HOME"], ".local/state/fairlead/fleet/account.jwt")
            await asyncio.to_thread(newcomer.until, account.exists)
            assert newcomer.status()["connections"] == 1
        finally:
            newcomer.close()

    as_client(fleet, mallory, tried)
    assert victim.status()["pid"] == pid
    assert victim.status()["connected"]
