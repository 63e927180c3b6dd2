"""Running nats-server for a fleet: its configuration, its process, and telling it what has changed.

The program comes with the extra `fleet`; any other of the same kind serves as well, with the same JWTs.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import ssl
import sysconfig
import time
from collections.abc import Callable
from typing import Any

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import DiscardPolicy, KeyValueConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import BadRequestError, NotFoundError

from ..system.files import replace_file
from . import limits, subjects
from .authority import Authority, FleetFault, Team
from .job_layout import LaneKeeper, lay_out_jobs
from .nkeys import KeyPair

log = logging.getLogger("fairlead.fleet")

PROGRAM = "nats-server"
CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 1.0
EVERYWHERE = ("0.0.0.0", "[::]")
LOOPBACK = "127.0.0.1"
REFUSAL_TRIES = 4
LOOK_EVERY = 0.05


def program() -> str:
    """The path of nats-server: the one of the extra, else one that is on PATH. Raises FleetFault."""
    own = os.path.join(sysconfig.get_path("scripts"), PROGRAM)
    found = own if os.access(own, os.X_OK) else shutil.which(PROGRAM)
    if found is None:
        from ..system.extras import missing

        raise FleetFault(missing(f"the fleet's server needs {PROGRAM}", "fleet"))
    return found


def client_url(authority: Authority, *, leaf: bool = False) -> str:
    """Where this machine reaches the server."""
    host, _, port = (authority.register.leaf if leaf else authority.register.listen).rpartition(":")
    if host in EVERYWHERE:
        host = authority.register.addresses[0]
    return f"tls://{host}:{port}"


async def administered(authority: Authority, jwt: str, key: KeyPair, word: str) -> Client:
    """A connection to the fleet's server for who administers it: on this machine, whose own name may lead
    nowhere, else at its address. Raises FleetFault."""
    host, _, port = authority.register.listen.rpartition(":")
    urls = [client_url(authority)]
    if host in EVERYWHERE:
        urls.insert(0, f"tls://{LOOPBACK}:{port}")
    for url in urls:
        try:
            return await connected(url, authority.ca, jwt, key, word)
        except CredentialRefused:
            raise
        except FleetFault:
            if url == urls[-1]:
                raise
    raise AssertionError


def configuration(authority: Authority) -> str:
    """nats-server's configuration file."""
    register = authority.register
    word = json.dumps  # its strings are JSON's
    preload = "\n".join(
        f"  {public}: {word(_read(authority.path('jwt', f'{public}.jwt')))}"
        for public in (register.system, *(each.public for each in register.accounts))
    )
    certificates = f"""{{
    cert_file: {word(authority.path("tls", "server.pem"))}
    key_file: {word(authority.path("tls", "server.key"))}
    min_version: "1.2"
    timeout: 5
  }}"""
    return f"""# Made by `fairlead fleet serve`; changes are overwritten.
server_name: "fairlead"
listen: {word(register.listen)}
tls {certificates}
leafnodes {{
  listen: {word(register.leaf)}
  tls {certificates}
}}
operator: {word(_read(authority.path("jwt", "operator.jwt")))}
system_account: {register.system}
resolver: {{
  type: full
  dir: {word(authority.path("resolver"))}
  allow_delete: false
  interval: "2m"
  limit: 1000
}}
resolver_preload: {{
{preload}
}}
jetstream {{
  store_dir: {word(authority.path("jetstream"))}
  domain: {word(subjects.DOMAIN)}
  max_memory_store: {64 * limits.MIB}
  max_file_store: {limits.ACCOUNT_DISK * max(1, len(register.accounts))}
}}
max_payload: {limits.MAX_PAYLOAD}
max_connections: {limits.MAX_CONNECTIONS}
max_control_line: 4096
max_pending: {32 * limits.MIB}
write_deadline: "{limits.WRITE_SECONDS}s"
ping_interval: "20s"
ping_max: 2
logtime: true
pid_file: {word(authority.path("nats-server.pid"))}
"""


def _read(path: str) -> str:
    with open(path) as file:
        return file.read(64 * 1024).strip()


def tls_context(ca: str | None) -> ssl.SSLContext:
    """How to check a server: with this authority alone, or with those of the system. Raises FleetFault."""
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise FleetFault(f"{ca} has no certificate of an authority: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class SecureClient(Client):
    """nats-py's client without what a stranger between us and the server could have it do: leave out TLS, or
    go to another server, by what the server says before TLS begins."""

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        wants_tls = "tls" in self.options
        if initial_connection and wants_tls and not info.get("tls_required"):
            raise NatsError("the server does not want TLS")
        info.pop("connect_urls", None)
        await super()._process_info(info, initial_connection)


async def closed(client: Client) -> None:
    """End a connection. The library may wait for ever for one on which TLS has failed."""
    with contextlib.suppress(NatsError, OSError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()


class CredentialRefused(FleetFault):
    """The server does not let this credential in."""


class NotTrusted(FleetFault):
    """The server's certificate is not of an authority that is trusted here, or not for its address."""

    def __init__(self, url: str, ca: str | None, said: str) -> None:
        if "CERTIFICATE_VERIFY_FAILED" in said:
            said = said.partition("certificate verify failed: ")[2].partition(" (_ssl.c")[0] or said
        if ca is None:
            said += "; give `--ca ca.pem` of the fleet"
        super().__init__(f"the certificate of {url} is not trusted: {said}")


async def connected(url: str, ca: str | None, jwt: str, key: KeyPair, word: str, **more: Any) -> Client:
    """A connection to a server. Raises FleetFault, or CredentialRefused.

    A server that refuses may close the connection before its reason is read, so it is asked again."""
    for tries_left in reversed(range(REFUSAL_TRIES)):
        try:
            return await _connected(url, ca, jwt, key, word, **more)
        except CredentialRefused:
            raise
        except FleetFault as error:
            lost = any(word in str(error).lower() for word in ("reset", "eof", "closed", "pipe"))
            if not tries_left or not lost:
                raise
    raise AssertionError


async def _connected(url: str, ca: str | None, jwt: str, key: KeyPair, word: str, **more: Any) -> Client:
    client = SecureClient()
    faults: list[str] = []

    async def note(error: Exception) -> None:
        faults.append(str(error) or type(error).__name__)

    report = more.pop("error_cb", None)

    async def told(error: Exception) -> None:
        await note(error)
        if report is not None:
            await report(error)

    options: dict[str, Any] = {
        "allow_reconnect": False,  # the library would try for minutes; who wants that tries again
        "max_reconnect_attempts": 1,
        "reconnect_time_wait": 0,
        "connect_timeout": CONNECT_SECONDS,
        "error_cb": told,
        "name": f"fairlead {word}",
        "inbox_prefix": subjects.inbox(word),
        **more,
    }
    if not url.startswith("nats:"):
        options["tls"] = tls_context(ca)
    options["user_jwt_cb"] = lambda: bytearray(jwt, "ascii")
    options["signature_cb"] = lambda nonce: base64.b64encode(key.sign(nonce.encode()))
    try:
        async with asyncio.timeout(2 * CONNECT_SECONDS):
            await client.connect(url, **options)
    except (TimeoutError, NatsError, OSError) as error:
        await closed(client)
        said = faults[-1] if faults else str(error) or "it does not answer"
        if "authoriz" in said.lower() or "authentication" in said.lower():
            raise CredentialRefused(
                f"{url} refuses this credential: it is revoked, has expired, or is another fleet's"
            ) from None
        if "CERTIFICATE_VERIFY_FAILED" in said or "certificate verify" in said.lower():
            raise NotTrusted(url, ca, said) from None
        raise FleetFault(f"can't reach {url}: {said}") from None
    return client


@contextlib.asynccontextmanager
async def as_administrator(authority: Authority, team: Team) -> Any:
    """A connection with the credential of an account's administrator."""
    creds = authority.administrator(team)
    client = await administered(authority, creds.jwt, creds.key, creds.identity.word)
    try:
        yield client
    finally:
        await closed(client)


async def lay_out(client: Client, account_jwt: str) -> None:
    """Make the streams of an account, or bring them to what they are to be."""
    stream = client.jetstream()
    feed = StreamConfig(
        name=subjects.FEED_STREAM,
        description="events of all hosts",
        subjects=["fl.*.feed"],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        max_bytes=limits.FEED_BYTES,
        max_age=limits.FEED_SECONDS,
        max_msg_size=limits.MAX_EVENT,
        max_msgs_per_subject=limits.FEED_MESSAGES_OF_HOST,
        duplicate_window=limits.DUPLICATE_SECONDS,
        allow_direct=True,
        deny_delete=True,
        deny_purge=True,
    )
    try:
        await stream.stream_info(subjects.FEED_STREAM)
    except NotFoundError:
        await stream.add_stream(feed)
    else:
        await stream.update_stream(feed)
    with contextlib.suppress(BadRequestError):  # it is there
        await stream.create_key_value(
            KeyValueConfig(
                bucket=subjects.BUCKET,
                description="hosts",
                ttl=limits.ROW_SECONDS,
                max_value_size=limits.MAX_ROW,
                max_bytes=limits.MAX_ROWS_BYTES,
                storage=StorageType.FILE,
                direct=True,
            )
        )
    await stream.publish(subjects.ACCOUNT_KEY, account_jwt.encode())
    await lay_out_jobs(client)


async def tell_of_account(authority: Authority, team: Team, account_jwt: str) -> None:
    """Give the server an account's new JWT, which counts at once. Raises FleetFault."""
    jwt, key = authority.system_user()
    client = await administered(authority, jwt, key, "system")
    try:
        told = await client.request("$SYS.REQ.CLAIMS.UPDATE", account_jwt.encode(), timeout=CONNECT_SECONDS)
        answer = json.loads(told.data)
    except (NatsError, ValueError) as error:
        raise FleetFault(f"the server did not take the account's new JWT: {error}") from None
    finally:
        await client.close()
    if answer.get("data", {}).get("code") != 200:
        raise FleetFault(f"the server did not take the account's new JWT: {answer.get('error', answer)}")
    with contextlib.suppress(FleetFault, NatsError):  # hosts look there as well, besides the server
        async with as_administrator(authority, team) as administrator:
            await administrator.jetstream().publish(subjects.ACCOUNT_KEY, account_jwt.encode())


async def end_orphan(pid_file: str, configuration: str) -> None:
    """End a nats-server that runs with this configuration although who started it was killed. Its ports, and
    its connection to the hub, would be in the way of the next."""
    try:
        with open(pid_file) as file:
            pid = int(file.read(20))
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(64 * 1024).split(b"\0")
    except (OSError, ValueError):  # there is none, or no /proc
        return
    if os.fsencode(configuration) not in words:
        return
    log.warning("nats-server, process %s, is left over; it is ended", pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + limits.SERVER_STOP_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        while time.monotonic() < deadline:
            if not os.path.exists(f"/proc/{pid}"):
                return
            await asyncio.sleep(LOOK_EVERY)


class NatsServer:
    """A nats-server that is started again when it dies."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until `stop`. Raises FleetFault if it can't be started at all."""
        lock = os.open(self.authority.path("serve.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise FleetFault(f"the server of {self.authority.directory} runs already") from None
        try:
            await self._run(ready)
        finally:
            os.close(lock)

    async def _run(self, ready: Callable[[], None]) -> None:
        pause, was_ready = limits.RESTART_PAUSE, False
        path = program()
        written = self.authority.path("nats-server.conf")
        await end_orphan(self.authority.path("nats-server.pid"), written)
        while not self._stopping.is_set():
            began = time.monotonic()
            configure(self.authority)
            self._process = await asyncio.create_subprocess_exec(
                path, "-c", written, stdin=asyncio.subprocess.DEVNULL
            )
            ended = asyncio.ensure_future(self._process.wait())
            try:
                await self._until_it_serves(ended)
                if not was_ready:
                    was_ready = True
                    ready()
                lanes = asyncio.ensure_future(self._keep_lanes())
                try:
                    await _first(ended, asyncio.ensure_future(self._stopping.wait()))
                finally:
                    lanes.cancel()
                    await asyncio.gather(lanes, return_exceptions=True)
            except FleetFault:
                if not was_ready and not self._stopping.is_set():
                    raise
            finally:
                await self._end(self._process, ended)
            if self._stopping.is_set():
                break
            log.warning("nats-server ended with %s; it is started again", self._process.returncode)
            if time.monotonic() - began > limits.MAX_RESTART_PAUSE:
                pause = limits.RESTART_PAUSE
            await _first(
                asyncio.ensure_future(asyncio.sleep(pause)), asyncio.ensure_future(self._stopping.wait())
            )
            pause = min(2 * pause, limits.MAX_RESTART_PAUSE)

    async def _until_it_serves(self, ended: asyncio.Future[int]) -> None:
        deadline = time.monotonic() + limits.SERVER_START_SECONDS
        while not self._stopping.is_set():
            if ended.done():
                raise FleetFault(f"nats-server ended with {ended.result()}; its words are above")
            try:
                for team in self.authority.register.accounts:
                    jwt = self.authority.account_jwt(team)
                    async with as_administrator(self.authority, team) as client:
                        await lay_out(client, jwt)
                return
            except (FleetFault, NatsError, OSError) as error:
                if time.monotonic() > deadline:
                    raise FleetFault(f"nats-server does not serve: {error}") from None
            await asyncio.sleep(LOOK_EVERY)

    async def _keep_lanes(self) -> None:
        """Make the lanes of jobs that the hosts of all accounts need, while the server runs."""
        await asyncio.gather(*(self._keep_lanes_of(team) for team in self.authority.register.accounts))

    async def _keep_lanes_of(self, team: Team) -> None:
        while True:
            with contextlib.suppress(FleetFault, NatsError, OSError):
                async with as_administrator(self.authority, team) as client:
                    keeping = asyncio.ensure_future(LaneKeeper(client).run())
                    telling = asyncio.ensure_future(self._tell_again(client, team))
                    try:
                        while client.is_connected and not keeping.done():
                            await asyncio.wait([keeping], timeout=limits.LANE_PAUSE)
                    finally:
                        keeping.cancel()
                        telling.cancel()
                        await asyncio.gather(keeping, telling, return_exceptions=True)
            await asyncio.sleep(limits.LANE_PAUSE)

    async def _tell_again(self, client: Client, team: Team) -> None:
        """Keep the account's JWT in the bucket: its messages are kept for a minute, and a member can have
        JetStream put something else there."""
        while True:
            with contextlib.suppress(FleetFault, NatsError, TimeoutError):
                jwt = self.authority.account_jwt(team)
                await client.jetstream().publish(subjects.ACCOUNT_KEY, jwt.encode())
            await asyncio.sleep(limits.ACCOUNT_EVERY)

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Future[int]) -> None:
        if ended.done():
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(limits.SERVER_STOP_SECONDS):
                await asyncio.shield(ended)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await ended

    def stop(self) -> None:
        self._stopping.set()


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of them is done, and end the others but the first."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for each in futures[1:]:
        each.cancel()


def configure(authority: Authority) -> None:
    """Write all that nats-server reads: its configuration, its certificate, and the accounts as they are."""
    authority.certify()
    os.makedirs(authority.path("resolver"), mode=0o700, exist_ok=True)
    register = authority.register
    for public in (register.system, *(each.public for each in register.accounts)):
        replace_file(
            authority.path("resolver", f"{public}.jwt"),
            _read(authority.path("jwt", f"{public}.jwt")).encode(),
        )
    replace_file(authority.path("nats-server.conf"), configuration(authority).encode())
