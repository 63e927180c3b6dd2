"""The queue on a real server: each job runs once, wherever workers die, and nobody gets in who may not."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from nats.aio.msg import Msg

from fairlead.fleet import limits
from fairlead.fleet.authority import Authority
from fairlead.fleet.job_store import JobStore, Outrun
from fairlead.fleet.jobs import JobBody, JobFault, Lane, SignedJob, new_id, signed, subject
from fairlead.fleet.nkeys import ACCOUNT, KeyPair
from fairlead.fleet.signing import SEAL_HEADER, STATE, SignatureFault, Verifier, seal
from tests.fleet.fleets import Fleet
from tests.fleet.queueing import LEASE, Members, job, members, over, until


def run(fleet: Fleet, doing: Callable[[Members], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with members(fleet) as made:
            await doing(made)

    asyncio.run(whole())


def test_a_hundred_jobs_run_once_each_on_two_hosts(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        bodies = [job(f"job {number}") for number in range(100)]
        for body in bodies:
            await laptop.put(body)
        await made.work("roses", 4)
        await made.work("tulips", 4)
        kept = await over(laptop, *(body.id for body in bodies))
        assert {each.state.state for each in kept} == {"done"}
        assert {each.state.confidence for each in kept} == {"verified"}
        assert sorted(id for id, _ in made.book.begun) == sorted(body.id for body in bodies)
        assert {host for _, host in made.book.begun} == {"roses", "tulips"}
        assert made.book.most == 1

    run(fleet, doing)


def test_a_job_of_a_label_or_a_host_runs_only_there(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        await made.work("plain", 4)
        await made.work("gpu", 4, labels=("gpu",))
        wanted = [job(lane="label=gpu"), job(lane="plain"), job(lane="gpu"), job(lane="label=gpu")]
        for body in wanted:
            await laptop.put(body)
        kept = await over(laptop, *(body.id for body in wanted))
        assert [each.state.host for each in kept] == ["gpu", "plain", "gpu", "gpu"]

    run(fleet, doing)


def test_a_job_waits_in_its_lane_until_there_is_a_host_for_it(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        body = job(lane="label=late")
        assert (await laptop.put(body)).state.state == "queued"
        await made.work("plain")
        await made.work("late", labels=("late",))
        assert (await over(laptop, body.id))[0].state.host == "late"

    run(fleet, doing)


def test_a_worker_that_ends_gives_its_job_back_at_once(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        body = job("hold")
        await made.work("one")
        await laptop.put(body)
        await until(lambda: bool(made.book.begun))
        await made.work("two")
        await made.end("one")
        await until(lambda: len(made.book.begun) == 2)
        made.book.go.set()
        (kept,) = await over(laptop, body.id)
        assert (kept.state.host, kept.state.tried, made.book.most) == ("two", 2, 1)

    run(fleet, doing)


def test_a_worker_whose_lease_is_lost_stops_before_another_one_begins(fleet: Fleet) -> None:
    """Its connection goes without a word, as with a cable that is pulled."""

    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        cut = await made.store("cut")
        await made.work("cut")
        body = job("hold")
        await laptop.put(body)
        await until(lambda: bool(made.book.begun))
        client = cut._client
        cut._connection = lambda: None
        await made.work("two")
        await until(lambda: len(made.book.begun) == 2, wait=10 * LEASE)
        assert made.book.ended == [(body.id, "cut")]
        assert made.book.most == 1
        cut._connection = lambda: client
        made.book.go.set()
        (kept,) = await over(laptop, body.id)
        assert (kept.state.host, kept.state.tried) == ("two", 2)

    run(fleet, doing)


def test_a_lease_that_holds_is_not_taken_however_early_the_server_gives_the_job_away(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop, other = await made.store("laptop"), await made.store("other")
        kept = await laptop.put(job(lane="label=early"))
        running = msgspec.structs.replace(kept.state, state="running", tried=1, host="other", lease=LEASE)
        began = time.monotonic()
        await other.write(kept.id, running, kept.fence)
        await made.work("one", labels=("early",))
        (done,) = await over(laptop, kept.id)
        assert time.monotonic() - began >= LEASE
        assert (done.state.host, done.state.tried) == ("one", 2)

    run(fleet, doing)


def test_who_has_the_wrong_fence_can_write_no_result(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop, other = await made.store("laptop"), await made.store("two")
        kept = await laptop.put(job(lane="label=nobody"))
        done = msgspec.structs.replace(kept.state, state="done")
        fence = await other.write(kept.id, done, kept.fence)
        with pytest.raises(Outrun):
            await laptop.write(kept.id, msgspec.structs.replace(done, summary="too late"), kept.fence)
        newest = await laptop.newest(kept.id)
        assert newest is not None
        assert (newest.fence, newest.by, newest.state.summary) == (fence, "two", "")

    run(fleet, doing)


def test_a_job_whose_daemon_died_runs_again_and_is_given_up_after_its_tries(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        await made.work("one")
        body = job("gone", tries=2)
        await laptop.put(body)
        (kept,) = await over(laptop, body.id)
        assert (kept.state.state, len(made.book.begun)) == ("failed", 2)
        assert kept.state.note == "begun 2 times, and each time who ran it went away; the last was one"

    run(fleet, doing)


def test_a_job_is_cancelled_where_it_runs_and_can_be_asked_for_again(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        await made.work("one")
        body = job("hold")
        await laptop.put(body)
        await until(lambda: bool(made.book.begun))
        cancelled = await laptop.cancel(body.id, 1.0)
        assert (cancelled.state.state, cancelled.state.by) == ("cancelled", "laptop")
        await until(lambda: bool(made.book.ended))
        with pytest.raises(JobFault, match="is cancelled already"):
            await laptop.cancel(body.id, 2.0)
        made.book.go.set()
        with pytest.raises(JobFault, match="only who asked for"):
            await (await made.store("one")).retry(body.id, body.at)
        await laptop.retry(body.id, body.at)
        (kept,) = await over(laptop, body.id)
        assert (kept.state.state, kept.state.round, len(made.book.begun)) == ("done", 1, 2)

    run(fleet, doing)


def test_what_no_host_can_run_says_what_each_lacks(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        await made.work("one", refused=("laptop",))
        await made.work("two")
        body = job(project="/nowhere")
        await laptop.put(body)
        (kept,) = await over(laptop, body.id)
        assert kept.state.state == "failed"
        assert kept.state.note.startswith("no host can run it: ")
        assert "one runs nothing for laptop" in kept.state.note
        assert "two has no directory /nowhere" in kept.state.note
        assert not made.book.begun

    run(fleet, doing)


def test_a_host_that_has_what_others_lack_runs_it(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        await made.work("one")
        await made.work("two", projects=("/", "/garden"))
        bodies = [job(project="/garden") for _ in range(4)]
        for body in bodies:
            await laptop.put(body)
        kept = await over(laptop, *(body.id for body in bodies))
        assert {each.state.host for each in kept} == {"two"}

    run(fleet, doing)


def test_the_same_job_sent_twice_counts_once(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        body = job()
        await laptop.put(body)
        envelope = signed(body, laptop.creds)
        await laptop._publish(subject("laptop", Lane("any"), body.id), envelope, f"{body.id}.0")
        await laptop._publish(subject("laptop", Lane("any"), body.id), envelope, "another id of the message")
        await made.work("one", 4)
        await over(laptop, body.id)
        last = job()
        await laptop.put(last)
        await over(laptop, last.id)
        assert made.book.begun == [(body.id, "one"), (last.id, "one")]

    run(fleet, doing)


def test_forged_jobs_are_refused(fleet: Fleet) -> None:
    """Their signature is not that of who is named; who is named did not ask; they lie in another lane."""

    async def doing(made: Members) -> None:
        laptop, mallory = await made.store("laptop"), await made.store("mallory")
        mine = signed(job("mine"), mallory.creds)
        theirs = signed(job("theirs"), laptop.creds)
        body = msgspec.json.decode(theirs.body, type=JobBody)
        own = msgspec.json.decode(mine.body, type=JobBody)
        changed = msgspec.json.encode(msgspec.structs.replace(body, prompt="changed")).decode()
        any_lane = Lane("any")
        forged = {
            "not signed": (own.id, SignedJob(mine.body, mallory.creds.jwt, "")),
            "not base64": (own.id, SignedJob(mine.body, mallory.creds.jwt, "%%%")),
            "no credential": (own.id, SignedJob(mine.body, "x.y.z", mine.sig)),
            "with another id": (new_id(), mine),
            "another's job on one's own subject": (body.id, theirs),
        }
        for id, envelope in forged.values():
            await mallory._publish(subject("mallory", any_lane, id), envelope, new_id())
        await mallory._client.request(
            subject("mallory", any_lane, new_id()), b"no job at all", timeout=limits.JOB_ANSWER_SECONDS
        )
        # JetStream itself sends what it keeps wherever one likes, also where only laptop may speak
        tricks = (
            SignedJob(changed, theirs.jwt, theirs.sig),
            SignedJob(changed, mallory.creds.jwt, mine.sig),
        )
        for trick in tricks:
            own_key = f"$KV.FLEET_RUNS.{body.id}.mallory"
            await mallory._asked(own_key, msgspec.json.encode(trick))
            asked = json.dumps({"last_by_subj": own_key}).encode()
            got = "$JS.API.DIRECT.GET.KV_FLEET_RUNS"
            await mallory._client.publish(got, asked, reply=subject("laptop", any_lane, body.id))
        await mallory._client.flush()
        # and the server does not let it speak as laptop
        assert await made.heard["mallory"].refused(subject("laptop", any_lane, body.id))
        await made.work("one", 4)
        last = job()
        await laptop.put(last)
        await over(laptop, last.id)
        assert made.book.begun == [(last.id, "one")]

    run(fleet, doing)


def test_who_may_only_read_queues_nothing_and_writes_no_state(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        reader = await made.store("reader", "user", "--read-only")
        kept = await laptop.put(job(lane="label=nobody"))
        for denied in (subject("@reader", Lane("any"), kept.id), f"$KV.FLEET_RUNS.{kept.id}.@reader"):
            assert await made.heard["reader"].refused(denied)
        assert (await reader.newest(kept.id)) is not None

    run(fleet, doing)


def test_jobs_of_a_revoked_credential_and_of_another_account_are_not_run(fleet: Fleet) -> None:
    creds = fleet.creds("machine", "gone")
    authority = Authority(str(fleet.directory))
    team = authority.account()
    ours = Verifier(team.public, "roses", operator=creds.identity.operator)
    theirs = Verifier(KeyPair.new(ACCOUNT).public, "roses")
    ours.learn(authority.account_jwt(team))
    assert ours.standing(creds.jwt).name == "gone"
    with pytest.raises(SignatureFault, match="belongs to another account"):
        theirs.standing(creds.jwt)
    fleet.run("revoke", "gone")
    ours.learn(authority.account_jwt(team))
    with pytest.raises(SignatureFault, match="was revoked"):
        ours.standing(creds.jwt)


def test_a_state_can_only_be_written_in_ones_own_name(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        await made.store("mallory")
        assert await made.heard["mallory"].refused("$KV.FLEET_RUNS.0123456789ab.laptop")
        assert not await made.heard["mallory"].refused("$KV.FLEET_RUNS.0123456789ab.mallory")

    run(fleet, doing)


def test_nobody_but_the_administrator_makes_lanes_and_a_host_takes_from_its_own(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        await made.store("mallory")
        for denied in (
            "CREATE.FLEET_JOBS.any",
            "DURABLE.CREATE.FLEET_JOBS.any",
            "DELETE.FLEET_JOBS.label-gpu",
            "MSG.NEXT.FLEET_HOST_JOBS.roses",
        ):
            assert await made.heard["mallory"].refused(f"$JS.API.CONSUMER.{denied}"), denied
        assert await made.heard["mallory"].refused("$JS.ACK.FLEET_HOST_JOBS.roses.1.1.1.1.0")

    run(fleet, doing)


def test_oversized_jobs_are_refused_by_us_and_by_the_server(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop = await made.store("laptop")
        with pytest.raises(JobFault, match="at most 64 KiB"):
            await laptop.put(job("x" * limits.MAX_JOB))
        data = b"x" * (limits.MAX_JOB + 2048)
        answer = await laptop._asked(subject("laptop", Lane("any"), new_id()), data)
        assert "size" in json.loads(answer.data)["error"]["description"]
        padded = SignedJob("", "", base64.b64encode(b"x" * limits.MAX_JOB).decode()[: limits.MAX_JOB])
        await laptop._publish(subject("laptop", Lane("any"), new_id()), padded, new_id())
        await made.work("one")
        last = job()
        await laptop.put(last)
        await over(laptop, last.id)

    run(fleet, doing)


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": " "},
        {"verify": []},
        {"verify": [""]},
        {"verify": ["true"] * 17},
        {"project": "garden"},
        {"project": "/a\nb"},
        {"lane": "label=gpu,big"},
        {"lane": "../x"},
        {"agent": "--yes"},
        {"persona": ["-x"]},
        {"tries": 0},
        {"seconds": 1e9},
        {"id": "a.b.c"},
    ],
)
def test_a_job_that_asks_for_what_cannot_be_is_refused(fleet: Fleet, wrong: dict[str, object]) -> None:
    creds = fleet.creds("machine", "laptop")
    body = msgspec.structs.replace(job(), **wrong)
    with pytest.raises(JobFault):
        signed(body, creds)


def test_states_that_are_forged_repeated_or_junk_do_not_count_and_the_last_good_one_holds(
    fleet: Fleet,
) -> None:
    """JetStream delivers what it keeps wherever one likes, also as what another has said of a job."""

    async def doing(made: Members) -> None:
        laptop, mallory = await made.store("laptop"), await made.store("mallory")
        reader = await made.store("onlooker", "user", "--read-only")
        await made.work("one")
        held = await laptop.put(job("hold"))
        await until(lambda: made.book.now.get(held.id) == 1)
        queued_then = await states_of(held.id, reader)

        async def put(data: bytes, headers: dict[str, str], word: str, id: str = held.id) -> None:
            unique = {"Nats-Msg-Id": new_id(), **headers}
            kept = json.loads((await mallory._asked("fl.mallory.feed", data, unique)).data)
            before = await last_of(id, mallory)
            # the one who has it delivered may only read
            got = "$JS.API.DIRECT.GET.FLEET_FEED"
            asked = json.dumps({"seq": kept["seq"]}).encode()
            await reader._client.publish(got, asked, reply=f"$KV.FLEET_RUNS.{id}.{word}")
            async with asyncio.timeout(30):
                while await last_of(id, mallory) == before:
                    await asyncio.sleep(0.01)

        done = msgspec.structs.replace(held.state, state="done", host="one", code=0, confidence="verified")
        forged = msgspec.json.encode(done)
        for word in ("laptop", "one"):
            await put(b"junk", {}, word)
            await put(forged, {}, word)
            last = await last_of(held.id, mallory)
            await put(forged, {SEAL_HEADER: seal(mallory.creds, STATE, f"{held.id}:{last}", forged)}, word)
        before = queued_then[0]
        await put(before.data, {SEAL_HEADER: (before.headers or {})[SEAL_HEADER]}, "laptop")
        for store in (laptop, reader):
            found = await store.newest(held.id)
            assert found is not None
            assert (found.state.state, found.state.host) == ("running", "one")
            assert {each.id: each.state.state for each in await store.states()}[held.id] == "running"
        # a job that nobody has asked for
        nobody = new_id()
        await put(forged, {}, "laptop", nobody)
        assert await laptop.newest(nobody) is None
        made.book.go.set()
        [over_now] = await over(laptop, held.id)
        assert (over_now.state.state, over_now.state.summary) == ("done", "done on one")
        assert made.book.begun == [(held.id, "one")]
        # what came of it is still there, and its asker has the job itself
        await put(b"junk", {}, "laptop")
        assert (await laptop.retry(held.id, time.time())).state.round == 1
        # junk where a job is going to be is in nobody's way
        body = job()
        await put(b"junk", {}, "laptop", body.id)
        await laptop.put(body)
        [last_one] = await over(laptop, body.id)
        assert last_one.state.state == "done"

    run(fleet, doing)


async def states_of(id: str, store: JobStore) -> list[Msg]:
    return await store._batch(1, f"$KV.FLEET_RUNS.{id}.*")


async def last_of(id: str, store: JobStore) -> int:
    found = await states_of(id, store)
    return int((found[-1].headers or {})["Nats-Sequence"]) if found else 0


def test_jobs_that_a_member_throws_away_or_whose_id_it_has_used_are_queued_all_the_same(fleet: Fleet) -> None:
    async def doing(made: Members) -> None:
        laptop, mallory = await made.store("laptop"), await made.store("mallory")
        thrown = await laptop.put(job("thrown away"))
        taken = await mallory.take(Lane("any"), 10.0)
        assert taken is not None
        assert await laptop.put_back() == []  # it is only taken
        await mallory.ack(taken, b"+TERM")
        assert (await laptop.newest(thrown.id)).state.state == "queued"  # type: ignore[union-attr]
        assert await laptop.put_back() == [thrown.id]
        assert await laptop.put_back() == []
        body = job("its id was used")
        to = subject("mallory", Lane("any"), new_id())
        await mallory._asked(to, b"no job", {"Nats-Msg-Id": f"{body.id}.0"})
        await laptop.put(body)
        await made.work("one")
        ended = await over(laptop, thrown.id, body.id)
        assert [each.state.state for each in ended] == ["done", "done"]
        assert sorted(made.book.begun) == sorted([(thrown.id, "one"), (body.id, "one")])

    run(fleet, doing)
