"""This machine as a member of the fleet: it answers what others ask, and asks others.

It is a service of NATS' own kind (discovery, ping and statistics come from the engine), has its row in the
bucket, publishes what happens, and opens streams to the daemons and sessions of other hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import socket
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from nats import micro
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.micro.request import Request as MicroRequest

from .. import __version__
from ..client.calls import Call, RequestError
from ..client.launch import NoDaemon, connected, session_socket
from ..client.links import Links
from ..system import own_place
from ..system.files import replace_file
from ..system.settings import SettingError, Settings
from ..wire import link
from ..wire.rpc_catalog import OPS
from . import limits, subjects
from .authority import FleetFault
from .bus import Bus, TwinIsThere, kept
from .channels import FleetStream, Passage, StreamKey, carry, new_id
from .complaints import Complaints
from .creds import Creds, Identity
from .guarding import FarEnd, HeldLines, NearEnd
from .happenings import EventOutbox
from .owndaemon import OwnDaemon
from .places import FleetPlaces
from .rows import MAX_TEXT, HostRow, Hosts, encoded_row, session_row
from .signing import ASK, PERSON_OPENS, ROW, SEAL_HEADER, SignatureFault, Verifier, digest, proof, seal
from .subjects import MACHINE

log = logging.getLogger("fairlead.fleet")

PROOF_HEADER = "Fleet-Proof"
SERVICE = "fairlead"
NO_RESPONDERS = "503"
"""What the server itself answers for a host that nobody speaks for."""


class AskRefused(FleetFault):
    """The other host refuses what is asked."""


class HostIsAway(FleetFault):
    """The other host, or the way to it, is not there now."""


class Bucket:
    """How many requests of one sender are looked at."""

    def __init__(self) -> None:
        self.tokens = float(limits.ASKS_AT_ONCE)
        self.at = time.monotonic()
        self.running = 0
        self.dropped = 0

    def take(self) -> bool:
        now = time.monotonic()
        more = (now - self.at) * limits.ASKS_A_SECOND
        self.tokens, self.at = min(limits.ASKS_AT_ONCE, self.tokens + more), now
        if self.tokens < 1 or self.running >= limits.MAX_ASKS_OF_SENDER:
            self.dropped += 1
            return False
        self.tokens -= 1
        return True


class Member:
    """All that this machine does in the fleet."""

    def __init__(self, settings: Settings, bus: Bus, signer: Creds | None = None, place: str = "") -> None:
        """`signer` is the credential of the person here, if they have one of their own; `place` tells this
        machine from another one that has the same credential."""
        self.place = place
        self.settings = settings
        self.bus = bus
        self.identity = bus.creds.identity
        self.signer = signer or bus.creds
        self.is_machine = self.identity.role == MACHINE
        self.began = time.time()
        self.is_joined = False
        """Whether the hub has answered on this connection: one to a leaf node says nothing of it."""
        self._row_due = asyncio.Event()
        self._row_number = 0.0
        self._is_leaving = False
        self._first: asyncio.Future[HostRow] | None = None
        operator = self.identity.operator
        self.verifier = Verifier(self.identity.account, self.identity.name, operator=operator)
        self.hosts = Hosts(self.identity.name if self.is_machine else "", self.verifier)
        self._account_file = FleetPlaces(settings).account
        self._complaints = Complaints(log)
        self._remember_account()
        self.outbox = EventOutbox(bus.creds, self.verifier, bus.domain)
        self.daemon = OwnDaemon(settings, self._happened, self._row_due.set)
        self.feed_news: set[asyncio.Event] = set()
        self.channels: dict[StreamKey, FleetStream] = {}
        self.dropped = 0
        """Requests that were dropped unread."""
        self._senders: dict[str, Bucket] = {}
        self._answers: dict[str, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held = HeldLines()
        self._carrying: set[asyncio.Task[None]] = set()
        self._callers: dict[str, Links] = {}

    async def run(self) -> None:
        """Belong to the fleet for good."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.bus.run(self._session))
            tasks.create_task(self.daemon.run())

    def _happened(self, topic: str, data: dict[str, Any]) -> None:
        if self.is_machine:
            self.outbox.put(topic, data)

    # --- one connection -----------------------------------------------------------------------------------

    async def _session(self, client: Client) -> None:
        word = self.identity.word
        try:
            await self.bus.subscribe(client, subjects.answer("*", word, ">"), self._answered)
            await self.bus.subscribe(client, subjects.stream("*", word, ">"), self._streamed)
            await self.bus.subscribe(client, subjects.row("*"), self._row_came)
            await self.bus.subscribe(client, subjects.ACCOUNT_KEY, self._account_came)
            await self.bus.subscribe(client, subjects.feed("*"), self._feed_grew)
            ask = {"multi_last": [subjects.key("*"), subjects.ACCOUNT_KEY], "batch": 5000}
            for message in await kept(client, self.bus.domain, subjects.ROW_STREAM, ask):
                subject = (message.headers or {}).get("Nats-Subject", "")
                if subject == subjects.ACCOUNT_KEY:
                    self._account_came(message)
                elif subject == subjects.key(self.identity.word):
                    if (there := self._twin(message)) is not None and not there.gone:
                        raise TwinIsThere(_taken(there))
                else:
                    self._row_kept(subject, message)
            self.is_joined = True
            tasks = [self._watch_account(client)]
            if self.is_machine:
                await self._serve(client)
                tasks += [self.outbox.run(client), self._keep_row(client), self._give_way()]
            doing = [asyncio.ensure_future(each) for each in tasks]
            try:
                done, _ = await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            finally:
                for each in doing:
                    each.cancel()
                await asyncio.gather(*doing, return_exceptions=True)
        finally:
            self.is_joined = False
            for channel in list(self.channels.values()):
                channel.lose("the fleet's server is away")
            for _, waiting in list(self._answers.values()):
                if not waiting.done():
                    waiting.set_exception(HostIsAway("the fleet's server is away"))

    async def _serve(self, client: Client) -> None:
        about = {"host": self.identity.name, "fairlead": __version__}
        numbers = ".".join([*__version__.split("+")[0].split("."), "0", "0"][:3])
        service = await micro.add_service(client, name=SERVICE, version=numbers, metadata=about)
        await service.add_endpoint(
            name="ask", subject=f"fl.ask.{self.identity.word}.*.*", handler=self._asked
        )

    async def _keep_row(self, client: Client) -> None:
        stream = client.jetstream(domain=self.bus.domain or None)
        while True:
            self._row_due.clear()
            row = self._own_row()
            await self.bus.publish(subjects.row(self.identity.word), row, self._row_seal(row))
            row = self._own_row() if self._is_leaving else row
            key = subjects.key(self.identity.word, self.bus.domain)
            await stream.publish(key, row, timeout=5.0, headers=self._row_seal(row))
            try:
                async with asyncio.timeout(limits.ROW_EVERY):
                    await self._row_due.wait()
                    await asyncio.sleep(limits.ROW_GATHER)
            except TimeoutError:
                self.hosts.forget_old()

    async def _watch_account(self, client: Client) -> None:
        """See from time to time who was revoked: a leaf node does not pass on that it has changed."""
        while True:
            await asyncio.sleep(limits.ACCOUNT_EVERY)
            with contextlib.suppress(NatsError, TimeoutError):
                await self._look_at_account(client)

    async def _look_at_account(self, client: Client) -> None:
        ask = {"multi_last": [subjects.ACCOUNT_KEY], "batch": 1}
        for message in await kept(client, self.bus.domain, subjects.ROW_STREAM, ask):
            self._account_came(message)

    def _remember_account(self) -> None:
        """What was known of the account before this process began."""
        try:
            with open(self._account_file) as file:
                self.verifier.learn(file.read(limits.MAX_JWT))
        except (OSError, ValueError, SignatureFault):  # none yet, or another fleet's
            pass

    def _own_row(self) -> bytes:
        sessions = [session_row(each) for each in self.daemon.sessions]
        place = own_place.row(self.settings, sum(each.state == "working" for each in sessions))
        return encoded_row(
            HostRow(
                name=self.identity.name,
                version=__version__,
                at=time.time(),
                began=self.began,
                daemon="away" if self.daemon.is_away else "here",
                sessions=sessions,
                session_count=len(sessions),
                questions=len(self.daemon.questions or ()),
                feed=self.outbox.number,
                sent=self.outbox.sent,
                labels=place["labels"],
                capacity=place["capacity"],
                processors=place["processors"],
                load=place["load"],
                working=place["working"],
                gone=self._is_leaving,
                place=self.place,
                hostname=socket.gethostname()[:MAX_TEXT],
            )
        )

    def _row_seal(self, row: bytes) -> dict[str, str]:
        """The signature of our row; its number is the time, or more than the one before."""
        self._row_number = max(time.time(), self._row_number + 1e-3)
        return {SEAL_HEADER: seal(self.bus.creds, ROW, repr(self._row_number), row)}

    async def leave(self) -> None:
        """Tell the others that we are gone, if they can be told."""
        self._is_leaving = True  # no row from now on says anything else
        for channel in list(self.channels.values()):
            channel.close("the fleet process there ends")
        if self.is_machine and self.is_joined and self.bus.client is not None and self.bus.is_here:
            row = self._own_row()
            try:
                async with asyncio.timeout(2.0):
                    await self.bus.publish(subjects.row(self.identity.word), row, self._row_seal(row))
                    key = subjects.key(self.identity.word, self.bus.domain)
                    await self.bus.publish(key, row, self._row_seal(row))
                    await self.bus.client.flush()
            except (OSError, TimeoutError):
                pass
        for links in self._callers.values():
            await links.close()
        await self.daemon.close()

    # --- what comes ---------------------------------------------------------------------------------------

    def _twin(self, message: Msg) -> HostRow | None:
        """What another machine with our credential says of itself, if this is a row of one, signed lately."""
        sealed = (message.headers or {}).get(SEAL_HEADER)
        try:
            found = self.verifier.opened(ROW, sealed, message.data, self.identity.word)
            row = msgspec.json.decode(message.data[: limits.MAX_ROW], type=HostRow)
            if not abs(time.time() - float(found.number)) < 2 * limits.ROW_SECONDS:
                return None
        except (SignatureFault, ValueError, msgspec.MsgspecError):
            return None
        return row if self.is_machine and self.place and row.place not in ("", self.place) else None

    async def _give_way(self) -> None:
        """Wait for a machine with our credential that came at the same time, and was first. Raises
        TwinIsThere."""
        self._first = asyncio.get_running_loop().create_future()
        raise TwinIsThere(_taken(await self._first))

    def _row_came(self, message: Msg) -> None:
        if message.subject == subjects.row(self.identity.word):
            there, first = self._twin(message), self._first
            if there is None or there.gone or first is None or first.done():
                return
            if (there.began, there.place) < (self.began, self.place):
                first.set_result(there)
            return
        sealed = (message.headers or {}).get(SEAL_HEADER)
        self.hosts.take(message.subject, message.data, sealed, live=True)

    def _row_kept(self, subject: str, message: Msg) -> None:
        sealed = (message.headers or {}).get(SEAL_HEADER)
        self.hosts.take(subject, message.data, sealed, live=False)

    def _account_came(self, message: Msg) -> None:
        try:
            if self.verifier.learn(text := message.data.decode("ascii", "replace")):
                replace_file(self._account_file, text.encode())
        except SignatureFault as error:  # anybody in the account can have JetStream put something there
            self._complaints.warning("what the bucket has about the account is not taken: %s", error)
        except OSError as error:
            self._complaints.warning("can't keep the account's JWT: %s", error)

    def _feed_grew(self, message: Msg) -> None:
        for each in self.feed_news:
            each.set()

    def _answered(self, message: Msg) -> None:
        _, peer, _, _, id = message.subject.split(".", 4)
        whose, waiting = self._answers.get(id, ("", None))
        if waiting is None or whose != peer or waiting.done():
            return
        if not message.data and (message.headers or {}).get("Status") == NO_RESPONDERS:
            self.hosts.fell_silent(subjects.name_of(peer))
            why = "its fleet process does not run, or has no connection"
            waiting.set_exception(HostIsAway(why))
            for channel in [each for key, each in self.channels.items() if key.peer == peer]:
                channel.lose(why)
            return
        try:
            said = json.loads(message.data)
            if type(said) is not dict or type(said.get("ok")) is not bool:
                raise ValueError
        except (ValueError, RecursionError):
            waiting.set_exception(AskRefused(f"{peer} answered what makes no sense"))
            return
        if said["ok"]:
            waiting.set_result(said.get("data") or {})
        else:
            waiting.set_exception(AskRefused(str(said.get("error") or "it refused")[:1000]))

    def _streamed(self, message: Msg) -> None:
        _, peer, _, _, id = message.subject.split(".", 4)
        if (channel := self.channels.get(StreamKey(peer, id))) is not None:
            channel.take(message.data)

    # --- asking -------------------------------------------------------------------------------------------

    async def ask(
        self, host: str, what: str, params: Mapping[str, Any], *, changes: bool, seconds: float = 0.0
    ) -> dict[str, Any]:
        """What another host answers. Raises AskRefused or HostIsAway."""
        to, me, id = subjects.word_of(host), self.identity.word, new_id()
        subject = subjects.ask(to, me, changes=changes)
        data = json.dumps({"ask": what, "id": id, "params": params}, separators=(",", ":")).encode()
        signed = proof(self.bus.creds, ASK, host, ask_digest(subject, data))
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[id] = to, waiting
        try:
            await self.bus.publish(subject, data, {PROOF_HEADER: signed}, subjects.answer(to, me, id))
            async with asyncio.timeout(seconds or limits.ASK_SECONDS):
                return await waiting
        except TimeoutError:
            raise HostIsAway(f"no answer within {seconds or limits.ASK_SECONDS:g} s") from None
        except ConnectionError as error:
            raise HostIsAway(str(error)) from None
        finally:
            del self._answers[id]

    async def open(self, host: str, what: str, name: str = "") -> tuple[str, FleetStream]:
        """Open a stream to a host's daemon, or to a session there; returns the word of the greeting. Raises
        AskRefused or HostIsAway."""
        known = self.hosts.known.get(host)
        if known is None:
            raise AskRefused(f"the fleet knows no host {host!r:.80}")
        if not known.is_here(time.monotonic()):
            raise HostIsAway("it has left the fleet" if known.row.gone else "it has not been heard of lately")
        if len(self.channels) >= limits.MAX_STREAMS:
            raise HostIsAway(f"this machine has {limits.MAX_STREAMS} streams, which is the limit")
        channel = self._channel(StreamKey(subjects.word_of(host), new_id()))
        try:
            params = {"what": what, "name": name, "stream": channel.key.id}
            if self.signer is not self.bus.creds:
                params["person"] = proof(self.signer, PERSON_OPENS, host, digest(channel.key.id))
            changes = not self.identity.read_only
            said = await self.ask(host, "open", params, changes=changes, seconds=limits.OPEN_SECONDS)
        except BaseException:
            channel.close("it was not opened")
            raise
        return str(said.get("word")), channel

    def _channel(self, key: StreamKey) -> FleetStream:
        subject = subjects.stream(self.identity.word, key.peer, key.id)
        channel = FleetStream(key, subject, self.bus.publish, self._forget)
        self.channels[key] = channel
        return channel

    def _forget(self, key: StreamKey) -> None:
        self.channels.pop(key, None)

    async def carry_near(
        self,
        host: str,
        channel: FleetStream,
        what: str,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Join a client here with a stream to another host, until one of them ends."""
        passing = NearEnd(host, self.signer) if what == "control" else Passage()
        await carry(channel, *streams, passing, is_near=True)

    # --- answering ----------------------------------------------------------------------------------------

    async def _asked(self, request: MicroRequest) -> None:
        """A request came. It is answered beside others, so that none holds up the next."""
        sender = request.subject.split(".")[3]
        bucket = self._senders.get(sender)
        if bucket is None:
            if len(self._senders) >= limits.MAX_SENDERS:
                self._senders = {word: each for word, each in self._senders.items() if each.running}
            bucket = self._senders[sender] = Bucket()
        if len(self._tasks) >= limits.MAX_ASKS or not bucket.take():
            self.dropped += 1
            return
        bucket.running += 1
        task = asyncio.get_running_loop().create_task(self._answer(request, sender))
        self._tasks.add(task)

        def over(task: asyncio.Task[None]) -> None:
            bucket.running -= 1
            self._tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                log.error("a request of %s failed", sender, exc_info=task.exception())

        task.add_done_callback(over)

    async def _answer(self, request: MicroRequest, sender: str) -> None:
        me, data = self.identity.word, request.data
        try:
            signed = (request.headers or {}).get(PROOF_HEADER)
            asker = self.verifier.check(ASK, signed, ask_digest(request.subject, data))
            if asker.word != sender:
                raise SignatureFault(f"{asker.name} has signed it, and {sender} asks")
            asked = json.loads(data)
            id, what, params = asked["id"], asked["ask"], asked["params"]
            if type(id) is not str or not id.isalnum() or len(id) > 64 or type(params) is not dict:
                raise ValueError
        except (SignatureFault, ValueError, KeyError, TypeError, RecursionError) as error:
            why = str(error) if isinstance(error, SignatureFault) else "a request that makes no sense"
            self._complaints.warning("refused a request of %.80s: %s", sender, why)
            prefix = subjects.answer(me, sender, "")
            reply = request._msg.reply
            if reply.startswith(prefix) and reply.removeprefix(prefix).isalnum():
                await self._reply(reply, {"ok": False, "error": why})
            return
        may_change = request.subject.endswith(".do")
        try:
            answer = await self._done(asker, what, params, may_change=may_change)
            said: dict[str, Any] = {"ok": True, "data": answer}
        except (FleetFault, RequestError, SignatureFault, OSError, ValueError) as error:
            said = {"ok": False, "error": str(error) or type(error).__name__}
        await self._reply(subjects.answer(me, sender, id), said)

    async def _reply(self, subject: str, said: Mapping[str, Any]) -> None:
        data = json.dumps(said, separators=(",", ":"), default=str).encode()
        if len(data) > limits.MAX_ANSWER:
            why = f"the answer has more than {limits.MAX_ANSWER} bytes; a control stream has room for it"
            data = json.dumps({"ok": False, "error": why}).encode()
        try:
            await self.bus.publish(subject, data)
        except ConnectionError as error:
            log.info("an answer was lost: %s", error)

    async def _done(
        self, asker: Identity, what: object, params: Mapping[str, Any], *, may_change: bool
    ) -> Mapping[str, Any]:
        if what == "ping":
            return {"at": time.time(), "version": __version__}
        if what == "call":
            return await self._call(asker, params, may_change=may_change)
        if what == "open":
            return await self._open_here(asker, params)
        raise AskRefused(f"this host does not know what {what!r:.40} asks for")

    async def _call(
        self, asker: Identity, params: Mapping[str, Any], *, may_change: bool
    ) -> Mapping[str, Any]:
        """Ask our daemon for another host."""
        from ..formats.edn import Keyword

        op, given = params.get("op"), params.get("params")
        if type(op) is not str or op not in OPS or type(given) is not dict:
            raise AskRefused(f"there is no op {op!r:.60}")
        if not may_change and not OPS[op].reads:
            raise AskRefused(f"{op} changes something, and was asked where only looking is allowed")
        if op in ("handshake", "subscribe", "unsubscribe", "cancel", "switch_session", "new_session"):
            raise AskRefused(f"{op} is about a connection; open a control stream for it")
        guard = FarEnd.for_call(self.verifier, self.identity.name, asker)
        wanted = {Keyword(str(name).replace("_", "-")): value for name, value in given.items()}
        checked = guard.checked(op, wanted)
        if (links := self._callers.pop(guard.who, None)) is None:
            links = Links(self.settings, via=guard.who)
        self._callers[guard.who] = links
        while len(self._callers) > limits.MAX_CALLERS:
            await self._callers.pop(next(iter(self._callers))).close()
        plain = {key.name.replace("-", "_"): value for key, value in checked.items()}
        async with asyncio.timeout(limits.CALL_SECONDS):
            return await links.call(Call(op, plain, dict))

    async def _open_here(self, asker: Identity, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Open a stream from another host to our daemon, or to one of its sessions."""
        what, name, id = (params.get(key) for key in ("what", "name", "stream"))
        if not isinstance(id, str) or len(id) != 32 or not id.isalnum() or not isinstance(name, str):
            raise AskRefused("a stream without an id")
        if what == "terminal" and asker.read_only:
            raise AskRefused(f"a read-only credential ({asker.name}) may not attach")
        person = None
        if "person" in params:
            person = self.verifier.check(PERSON_OPENS, params["person"], digest(id))
            if person.role != subjects.PERSON:
                raise AskRefused(f"{person.name} is no person")
        key = StreamKey(asker.word, id)
        theirs = sum(each.peer == key.peer for each in self.channels)
        if key in self.channels or theirs >= limits.MAX_STREAMS_OF_HOST:
            raise AskRefused(f"{asker.name} has {theirs} streams here, which is the limit")
        if len(self.channels) >= limits.MAX_STREAMS:
            raise AskRefused("this host has as many streams as may be")
        channel = self._channel(key)
        try:
            connection = await asyncio.to_thread(self._reach, what, name)
            if connection is None:
                channel.lose("there is no such session")
                return {"word": link.ABSENT}
            streams = await asyncio.open_unix_connection(sock=connection)
        except (NoDaemon, SettingError, OSError, ValueError) as error:
            channel.lose(str(error))
            raise AskRefused(str(error) or "the daemon there can't be reached") from None
        passing: Passage = Passage()
        if what == "control":
            passing = FarEnd(self.verifier, self.identity.name, asker, person, self._held)
        task = asyncio.get_running_loop().create_task(carry(channel, *streams, passing, is_near=False))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        task.add_done_callback(lambda _: passing.over())
        return {"word": link.READY, "version": __version__}

    def _reach(self, what: object, name: str) -> socket.socket | None:
        if what == "control":
            return connected(self.settings)
        if what == "terminal":
            return session_socket(name, self.settings)
        raise ValueError("a stream is to the daemon or to a terminal")


def _taken(row: HostRow) -> str:
    return (
        f"{row.name} has joined already, from {row.hostname or 'another machine'}: each machine needs a "
        "credential of its own (it is free when that one leaves, or a minute after its end)"
    )


def ask_digest(subject: str, data: bytes) -> bytes:
    """What a request's signature covers."""
    return digest(subject, hashlib.sha256(data).hexdigest())
