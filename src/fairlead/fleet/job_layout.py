"""What the server keeps of the queue: the stream of jobs, the bucket of their states, and a consumer for each
lane. Only the administrator makes them, because a consumer can deliver to any subject of the account.

Each consumer is for one lane: what has been taken is the taker's until the lease ends, and given to another
one then. Lanes of labels and of hosts are made as hosts say that they have them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

import msgspec
from msgspec import Struct, field
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    KeyValueConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import BadRequestError, NotFoundError

from ..system.own_place import MAX_LABELS, check_label
from . import limits
from .jobs import Lane
from .subjects import (
    BUCKET,
    HOST_JOB_STREAM,
    JOB_STREAM,
    RUN_BUCKET,
    RUN_STREAM,
    NameFault,
    check_name,
    name_of,
)

log = logging.getLogger("fairlead.fleet")


async def lay_out_jobs(client: Client, lease: float = limits.JOB_LEASE) -> None:
    """Make the stream, the bucket and the lane of all, or bring them to what they are to be."""
    stream = client.jetstream()
    for name, kinds in ((JOB_STREAM, ("any", "label")), (HOST_JOB_STREAM, ("host",))):
        jobs = StreamConfig(
            name=name,
            description="queued jobs",
            subjects=[f"fl.*.job.{kind}.>" for kind in kinds],
            retention=RetentionPolicy.WORK_QUEUE,
            storage=StorageType.FILE,
            discard=DiscardPolicy.NEW,
            max_bytes=limits.JOBS_BYTES,
            max_msgs=limits.MAX_JOBS,
            max_age=limits.JOB_KEPT,
            max_msg_size=limits.MAX_JOB + 1024,
            duplicate_window=limits.DUPLICATE_SECONDS,
        )
        try:
            await stream.stream_info(name)
        except NotFoundError:
            await stream.add_stream(jobs)
        else:
            await stream.update_stream(jobs)
    with contextlib.suppress(BadRequestError):  # it is there
        await stream.create_key_value(
            KeyValueConfig(
                bucket=RUN_BUCKET,
                description="what has become of jobs",
                ttl=limits.RUN_KEPT,
                history=limits.RUN_HISTORY,
                max_value_size=limits.MAX_RUN,
                max_bytes=limits.RUNS_BYTES,
                storage=StorageType.FILE,
                direct=True,
            )
        )
    # when it is full, what was written longest ago goes: what runs is written every few seconds
    runs = (await stream.stream_info(RUN_STREAM)).config
    wanted = runs.evolve(discard=DiscardPolicy.OLD, max_msgs_per_subject=limits.RUN_HISTORY)
    if runs != wanted:
        await stream.update_stream(wanted)
    await make_lanes(stream, [Lane("any")], lease)


async def make_lanes(stream: JetStreamContext, lanes: Iterable[Lane], lease: float) -> None:
    """Make the consumers of lanes, or bring them to what they are to be."""
    for lane in lanes:
        await stream.add_consumer(
            lane.stream,
            ConsumerConfig(
                durable_name=lane.consumer,
                filter_subject=f"fl.*.job.{lane.tokens}.>",
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=lease,
                # who gives a job back has written why; tries are counted there, and a job that is not begun
                # may wait for a host for as long as it is kept
                max_deliver=-1,
                max_waiting=limits.MAX_WAITING_WORKERS,
                max_ack_pending=limits.MAX_RUNNING,
            ),
        )


class _Claim(Struct):
    name: str = ""
    labels: list[str] = field(default_factory=list)
    capacity: int = 0


class LaneKeeper:
    """Makes the lanes that hosts need, as their rows tell."""

    def __init__(self, client: Client, lease: float = limits.JOB_LEASE) -> None:
        self._client = client
        self._lease = lease
        self._made: set[Lane] = set()
        self._labels = 0

    async def run(self) -> None:
        """Look at rows as they come, for good."""
        stream = self._client.jetstream()
        rows = await self._client.subscribe(f"$KV.{BUCKET}.host.*", pending_msgs_limit=4096)
        async for message in rows.messages:
            name = name_of(message.subject.rpartition(".")[2])
            for lane in self.needed(name, message.data):
                try:
                    await make_lanes(stream, [lane], self._lease)
                except (NatsError, TimeoutError) as error:
                    log.warning("the lane %s can't be made: %s", lane.shown, error)
                    await asyncio.sleep(limits.LANE_PAUSE)
                    continue
                self._made.add(lane)
                self._labels += lane.kind == "label"

    def needed(self, name: str, data: bytes) -> list[Lane]:
        """The lanes that a host with this row needs, and that are not there."""
        try:
            check_name(name)
            claim = msgspec.json.decode(data, type=_Claim)
            if claim.capacity < 1:
                return []
            labels = [check_label(each) for each in claim.labels[:MAX_LABELS]]
        except (NameFault, ValueError, msgspec.MsgspecError):
            return []
        found = [lane for each in labels if (lane := Lane("label", each)) not in self._made]
        if self._labels + len(found) > limits.MAX_LANES_OF_LABELS:
            found = []
        host = Lane("host", name)
        return [*found, *([host] if host not in self._made else [])]
