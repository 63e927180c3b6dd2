"""Jobs and their states on the server, for who asks and for who works.

A state is written to a subject of the job and of who writes it, and signed by them; and only if no state of
the job, whoever wrote it, came after the one that the writer knows. The number of the newest one is the
fence: a worker that has lost its job can't write any more.

Any member can have JetStream put something on a subject of another, so what is not signed by whose subject it
is does not count, and neither does a state that was there before: each names the number after which it was
written. The last one that counts holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from . import limits
from .creds import Creds
from .jobs import (
    AskedState,
    JobBody,
    JobFault,
    JobState,
    Lane,
    SignedJob,
    check_id,
    new_id,
    queued,
    signed,
    subject,
)
from .signing import SEAL_HEADER, STATE, SignatureFault, Verifier, seal
from .subjects import HOST_JOB_STREAM, JOB_STREAM, RUN_BUCKET, RUN_STREAM, api, name_of, run_hint, run_key

_WRONG_LAST = 10071


class Outrun(Exception):
    """Somebody else has written a state since."""


class JobRecord(NamedTuple):
    """A state with its number, who wrote it, and when by the server's clock."""

    id: str
    state: JobState
    fence: int
    by: str
    at: float

    job: SignedJob | None = None


class QueueAway(ConnectionError):
    """The fleet's server does not answer, or has no queue."""


def _moment(text: str) -> float:
    """A time as the server writes it, with nanoseconds."""
    whole, _, rest = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp() + float(f"0.{rest or 0}")


def kept_state(message: Msg) -> JobRecord | None:
    """A state out of the bucket, or None if it makes no sense."""
    headers = message.headers or {}
    try:
        _, _, id, word = headers["Nats-Subject"].split(".")
        whole = msgspec.json.decode(message.data, type=AskedState)
        state = JobState(**{name: getattr(whole, name) for name in JobState.__struct_fields__})
        fence, at = int(headers["Nats-Sequence"]), _moment(headers["Nats-Time-Stamp"])
        return JobRecord(check_id(id), state, fence, name_of(word), at, whole.job)
    except (KeyError, ValueError, msgspec.MsgspecError):
        return None


class JobCourse:
    """The states of one job as the server has them, in their order: which is the last that counts."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._record: JobRecord | None = None
        self._job: SignedJob | None = None
        self.last = 0
        """The number of the newest one, whether it counts or not."""

    def take(self, message: Msg) -> None:
        """Look at the next one."""
        headers = message.headers or {}
        self.last = max(self.last, int(headers["Nats-Sequence"]))
        found = kept_state(message)
        if found is None:
            return
        word = headers["Nats-Subject"].rpartition(".")[2]
        try:
            sealed = self._verifier.opened(STATE, headers.get(SEAL_HEADER), message.data, word)
        except SignatureFault:
            return
        id, _, after = sealed.number.partition(":")
        if id != found.id or not after.isdecimal() or len(after) > 18 or int(after) >= found.fence:
            return
        if self._record is not None and int(after) < self._record.fence:
            return  # a repetition
        self._record = found
        if found.job is not None and found.by == found.state.asker:
            self._job = found.job

    @property
    def newest(self) -> JobRecord | None:
        """The last that counts, with the job itself if who asked has written it, and the fence."""
        return self._record and self._record._replace(job=self._job, fence=self.last)


def _with_job(state: JobState, job: SignedJob | None) -> AskedState:
    return AskedState(**msgspec.structs.asdict(state), job=job)


class JobStore:
    """The queue as one member of the fleet uses it. `connection` gives the connection as it is now, or None
    while there is none."""

    def __init__(
        self,
        connection: Callable[[], Client | None],
        creds: Creds,
        domain: str = "",
        verifier: Verifier | None = None,
    ) -> None:
        """`domain` is that of the hub's JetStream, for a leaf node."""
        identity = creds.identity
        self._verifier = verifier or Verifier(identity.account, identity.name, operator=identity.operator)
        self._connection = connection
        self._domain = domain
        self._api = api(domain)
        self.creds = creds
        self.word = creds.identity.word

    @property
    def _client(self) -> Client:
        client = self._connection()
        if client is None or not client.is_connected:
            raise QueueAway("the fleet's server is away")
        return client

    async def _asked(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> Msg:
        try:
            return await self._client.request(
                subject, data, timeout=limits.JOB_ANSWER_SECONDS, headers=headers
            )
        except (NatsError, TimeoutError, OSError) as error:
            why = str(error) or "it does not answer"
            raise QueueAway(f"the fleet's server: {why}") from None

    # --- states -------------------------------------------------------------------------------------------

    async def newest(self, id: str) -> JobRecord | None:
        """What has become of a job, or None if nobody knows of it. Raises QueueAway."""
        return (await self._course(id)).newest

    async def _course(self, id: str) -> JobCourse:
        """The states of a job. Raises QueueAway."""
        course, sequence = JobCourse(self._verifier), 1
        while batch := await self._batch(sequence, run_key(check_id(id), "*")):
            for message in batch:
                course.take(message)
            sequence = course.last + 1
            if len(batch) < limits.RUN_BATCH:
                break
        return course

    async def write(self, id: str, state: JobState, fence: int) -> int:
        """Write a state if the one with this number is still the newest (0: there is none); its number.
        Raises Outrun, QueueAway."""
        data = msgspec.json.encode(state)
        headers = {
            SEAL_HEADER: seal(self.creds, STATE, f"{id}:{fence}", data),
            "Nats-Expected-Last-Subject-Sequence": str(fence),
            "Nats-Expected-Last-Subject-Sequence-Subject": run_key(id, "*"),
        }
        answer = await self._asked(run_key(id, self.word, self._domain), data, headers)
        try:
            said = json.loads(answer.data)
            error = said.get("error")
            if error is None:
                written = int(said["seq"])
                with contextlib.suppress(NatsError, OSError):
                    await self._client.publish(run_hint(self.word), id.encode())
                return written
        except (ValueError, KeyError, AttributeError):
            raise QueueAway(
                "the fleet's server has no queue, or answers in a way that is not known"
            ) from None
        if error.get("err_code") == _WRONG_LAST:
            if not fence:
                course = await self._course(id)
                if course.newest is None and course.last:  # nothing that counts: it does not stop anybody
                    return await self.write(id, state, course.last)
            raise Outrun(id)
        raise QueueAway(f"the fleet's server: {error.get('description', error)}")

    async def states(self, most: int = limits.MAX_LISTED) -> list[JobRecord]:
        """The newest state of all jobs, with the job itself where who asked has written it. Raises
        QueueAway."""
        courses: dict[str, JobCourse] = {}
        sequence = 1
        while batch := await self._batch(sequence, f"$KV.{RUN_BUCKET}.>"):
            for message in batch:
                headers = message.headers or {}
                sequence = max(sequence, int(headers["Nats-Sequence"]) + 1)
                id = headers["Nats-Subject"].split(".")[2]
                courses.setdefault(id, JobCourse(self._verifier)).take(message)
            if len(batch) < limits.RUN_BATCH or len(courses) >= most:
                break
        rows = [found for each in courses.values() if (found := each.newest) is not None]
        return sorted(rows, key=lambda each: (each.state.at, each.id))

    async def _batch(self, sequence: int, subject: str) -> list[Msg]:
        ask = {"seq": sequence, "next_by_subj": subject, "batch": limits.RUN_BATCH}
        found: list[Msg] = []
        try:
            inbox = self._client.new_inbox()
            waiting = await self._client.subscribe(inbox, pending_bytes_limit=64 * limits.MIB)
            try:
                await self._client.publish(
                    f"{self._api}.DIRECT.GET.{RUN_STREAM}", json.dumps(ask).encode(), reply=inbox
                )
                while True:
                    message = await waiting.next_msg(limits.JOB_ANSWER_SECONDS)
                    if "Nats-Sequence" not in (message.headers or {}):
                        return found
                    found.append(message)
            finally:
                await waiting.unsubscribe()
        except (NatsError, TimeoutError, OSError) as error:
            raise QueueAway(f"the fleet's server: {error or 'it does not answer'}") from None

    async def changes(self) -> AsyncIterator[str]:
        """The ids of jobs of which somebody writes. They are only hints: anybody in the fleet may give them.
        The first one comes when listening has begun, and is empty."""
        try:
            heard = await self._client.subscribe("fl.*.run", pending_msgs_limit=65_536)
            try:
                await self._client.flush()
                yield ""
                async for message in heard.messages:
                    yield message.data[:64].decode(errors="replace")
            finally:
                await heard.unsubscribe()
        except (NatsError, TimeoutError, OSError) as error:
            raise QueueAway(f"the fleet's server: {error}") from None

    # --- asking -------------------------------------------------------------------------------------------

    async def put(self, body: JobBody, fence: int = 0) -> JobRecord:
        """Queue a job. Once this returns, it will run, however often who takes it dies. Raises JobFault,
        QueueAway."""
        envelope = signed(body, self.creds)
        asker = self.word
        first = queued(body, name_of(asker), body.at)
        await self._publish(
            subject(asker, Lane.read(body.lane), body.id), envelope, f"{body.id}.{body.round}"
        )
        try:
            fence = await self.write(body.id, _with_job(first, envelope), fence)
        except Outrun:  # a worker was faster
            found = await self.newest(body.id)
            if found is None or found.state.round != body.round:
                raise JobFault(f"job {body.id} has changed meanwhile") from None
            return found._replace(job=envelope)
        return JobRecord(body.id, first, fence, name_of(asker), body.at, envelope)

    async def _publish(self, to: str, envelope: SignedJob, message_id: str) -> None:
        data = msgspec.json.encode(envelope)
        is_first = True
        for left in reversed(range(limits.PUT_TRIES)):
            try:
                answer = await self._asked(to, data, {"Nats-Msg-Id": message_id})
                break
            except QueueAway:
                if not left:
                    raise
                is_first = False
                await asyncio.sleep(limits.PUT_PAUSE)
        said = json.loads(answer.data)
        if (error := said.get("error")) is not None:
            raise QueueAway(f"the queue takes no more: {error.get('description', error)}")
        if said.get("stream") not in (JOB_STREAM, HOST_JOB_STREAM):
            raise QueueAway("the fleet's server has no queue")
        if is_first and said.get("duplicate"):  # another has used this id, so that the job is not there
            await self._publish(to, envelope, f"{message_id}.{new_id()}")

    async def put_back(self) -> list[str]:
        """Put jobs of ours back that wait for a host, and are not in the queue any more: whoever takes a job
        can throw it away. Raises QueueAway."""
        waiting: dict[str, JobRecord] = {}
        for each in await self.states():
            is_ours = each.job is not None and each.state.asker == name_of(self.word)
            if is_ours and each.state.state == "queued":
                with contextlib.suppress(JobFault):  # any member may have written a state of it
                    lane = Lane.read(each.state.lane)
                    if lane.stream == JOB_STREAM:
                        waiting[subject(self.word, lane, each.id)] = each
        if not waiting:
            return []
        ask = json.dumps({"subjects_filter": f"fl.{self.word}.job.>"}).encode()
        answer = await self._asked(f"{self._api}.STREAM.INFO.{JOB_STREAM}", ask)
        try:
            there = json.loads(answer.data)["state"].get("subjects") or {}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise QueueAway("the fleet's server does not tell what is queued") from None
        lost = {where: each for where, each in waiting.items() if where not in there}
        for where, each in lost.items():
            newest = await self.newest(each.id)
            if newest is None or newest.fence != each.fence or each.job is None:
                continue  # it has gone on meanwhile
            await self._publish(where, each.job, f"{each.id}.{new_id()}")
        return [each.id for each in lost.values()]

    async def cancel(self, id: str, now: float) -> JobRecord:
        """End a job, wherever it is. Raises JobFault, QueueAway."""
        for _ in range(limits.CAS_TRIES):
            found = await self.newest(id)
            if found is None:
                raise JobFault(f"no job {id}; `fairlead queue ls` lists them")
            if found.state.is_over:
                raise JobFault(f"job {id} is {found.state.state} already")
            own = msgspec.structs.replace(
                found.state, state="cancelled", since=now, by=name_of(self.word), note=""
            )
            # what who asked has written has the job itself, for another round
            job = found.job if found.state.asker == name_of(self.word) else None
            try:
                fence = await self.write(id, _with_job(own, job), found.fence)
            except Outrun:
                continue
            return JobRecord(id, own, fence, own.by, now)
        raise JobFault(f"job {id} changes too fast; try again")

    async def retry(self, id: str, now: float) -> JobRecord:
        """Ask again for a job of ours that is over. Raises JobFault, QueueAway."""
        found = await self.newest(id)
        if found is None:
            raise JobFault(f"no job {id}; `fairlead queue ls` lists them")
        if not found.state.is_over:
            raise JobFault(f"job {id} is {found.state.state}; only what is over is asked for again")
        job = found.job if found.state.asker == name_of(self.word) else None
        if job is None:
            raise JobFault(f"only who asked for job {id} may ask again: {found.state.asker}")
        body = msgspec.json.decode(job.body, type=JobBody)
        body = msgspec.structs.replace(body, round=found.state.round + 1, at=now)
        return await self.put(body, found.fence)

    # --- working ------------------------------------------------------------------------------------------

    async def lease(self, lane: Lane) -> float | None:
        """For how long what is taken from a lane is the taker's, or None if there is no such lane."""
        message = await self._asked(f"{self._api}.CONSUMER.INFO.{lane.stream}.{lane.consumer}", b"")
        try:
            return float(json.loads(message.data)["config"]["ack_wait"]) / 1e9
        except (ValueError, KeyError, TypeError):
            return None

    async def take(self, lane: Lane, wait: float) -> Msg | None:
        """The next job of a lane, or None if none came. Raises QueueAway."""
        ask = json.dumps({"batch": 1, "expires": int(wait * 1e9)}).encode()
        try:
            inbox = self._client.new_inbox()
            waiting = await self._client.subscribe(inbox, pending_msgs_limit=4)
            try:
                await self._client.publish(
                    f"{self._api}.CONSUMER.MSG.NEXT.{lane.stream}.{lane.consumer}", ask, reply=inbox
                )
                message = await waiting.next_msg(wait + limits.JOB_ANSWER_SECONDS)
            finally:
                await waiting.unsubscribe()
        except TimeoutError:
            raise QueueAway("the fleet's server does not answer") from None
        except (NatsError, OSError) as error:
            raise QueueAway(f"the fleet's server: {error}") from None
        if "Status" in (message.headers or {}) and not message.data:
            return None
        return message

    async def ack(self, message: Msg, how: bytes = b"+ACK") -> None:
        """Say what is to become of a job that was taken, and wait until the server knows. Raises
        QueueAway."""
        await self._asked(message.reply, how)

    async def give_back(self, message: Msg, delay: float = 0.0) -> None:
        """Let another one take it, after a while. Never raises: the server does that by itself, later."""
        how = b"-NAK" + json.dumps({"delay": int(delay * 1e9)}).encode() if delay else b"-NAK"
        with contextlib.suppress(NatsError, OSError):
            await self._client.publish(message.reply, how)

    async def server_time(self) -> float:
        """The server's clock. Raises QueueAway."""
        message = await self._asked(f"{self._api}.STREAM.INFO.{JOB_STREAM}", b"")
        try:
            return _moment(json.loads(message.data)["ts"])
        except (ValueError, KeyError, TypeError):
            raise QueueAway("the fleet's server does not tell its time") from None
