"""What passes on a control stream, line by line, at both ends.

At the near end consents are signed, and nothing about this machine's keys goes along. At the far end every
line is read before the daemon gets it: a consent without a signature of the account is refused, so is what
no other host may ask, and for read-only credentials all that changes something. The daemon is told who
answers; what the client says of itself is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..formats.edn import EdnError, Keyword
from ..wire import rpc
from ..wire.lines import LineBuffer, LineTooLong
from ..wire.rpc import ErrorCode, Request
from ..wire.rpc_catalog import OPS
from . import limits
from .channels import Passage, StreamClosed
from .creds import Creds, Identity
from .signing import CONSENT, SignatureFault, Verifier, digest, proof
from .subjects import PERSON

CONSENTS = frozenset({"approval_settle", "resolve_dialog", "cancel_dialog"})
"""Ops that answer for a person."""
NOT_OVER_FLEET = frozenset(
    (
        # what a machine's own people and agents do
        *("daemon_stop", "daemon_restart", "terminal_turn", "terminal_permission", "ask_person"),
        # keys
        *("lend_key", "login_begin", "login_complete"),
    )
)
OPEN_TO_READERS = frozenset({"handshake", "cancel", "subscribe", "unsubscribe", "ping", "describe"})
PROOF = Keyword("fleet-proof")
_KIND, _ID, _OP, _PARAMS = (Keyword(each) for each in ("kind", "id", "op", "params"))
_INFO, _VIA, _NAME, _FEATURES = (Keyword(each) for each in ("client-info", "via", "name", "features"))
_AGENT, _HOSTS, _KEYS = (Keyword(each) for each in ("agent", "hosts", "key-names"))


def request_of(frame: object) -> tuple[str, str, dict[Any, Any]] | None:
    """The id, op and parameters of a request, if the map is one."""
    if type(frame) is not dict:
        return None
    id, op, params = frame.get(_ID), frame.get(_OP), frame.get(_PARAMS)
    params = {} if params is None else params
    if type(id) is not str or type(op) is not str or not id or not op or type(params) is not dict:
        return None
    return id, op, params


def consent_digest(host: str, op: str, params: Mapping[Any, Any]) -> bytes:
    """What a signature of a consent covers: the host, the op, and everything that is said with it."""
    return digest(host, op, {key: value for key, value in params.items() if key is not PROOF})


async def _loaded(line: bytes | LineTooLong) -> object:
    if isinstance(line, bytes) and len(line) > limits.QUICK_LINE:
        return await asyncio.to_thread(rpc.loaded, line)
    return rpc.loaded(line)


def who(identity: Identity, host: str) -> str:
    """Who gives a consent, as the daemon tells it."""
    return f"{identity.name} on {host}" if identity.role == PERSON else f"a person on {host}"


class NearEnd(Passage):
    """Reads what a client here says to a far daemon."""

    def __init__(self, host: str, signer: Creds) -> None:
        self._host = host
        self._signer = signer
        self._lines = LineBuffer(rpc.MAX_LINE)
        self._is_agents = False

    async def outward(self, data: bytes) -> bytes:
        return b"".join([await self._line(each) for each in self._lines.feed(data)])

    async def _line(self, line: bytes | LineTooLong) -> bytes:
        if isinstance(line, LineTooLong):
            return b"\n"
        if not any(word in line for word in _LOOKED_AT):
            return line + b"\n"
        found = request_of(await _loaded(line))
        if found is None:
            return line + b"\n"
        id, op, params = found
        if op == "handshake":
            self._is_agents = bool(params.get(_AGENT))
            params.pop(_KEYS, None)
        elif op in CONSENTS and not self._is_agents:
            try:
                what = consent_digest(self._host, op, params)
            except SignatureFault:
                return line + b"\n"  # the far end says what is wrong with it
            params[PROOF] = proof(self._signer, CONSENT, self._host, what)
        else:
            return line + b"\n"
        return rpc.encode(Request(id, op, params))


_LOOKED_AT = (b"handshake", *(each.encode() for each in CONSENTS))


class HeldLines:
    """The lines of all streams from other hosts that are not whole yet."""

    def __init__(self) -> None:
        self.bytes = 0


class FarEnd(Passage):
    """Reads what a client of another host says to our daemon."""

    def __init__(
        self,
        verifier: Verifier,
        host: str,
        asker: Identity,
        person: Identity | None = None,
        held: HeldLines | None = None,
    ) -> None:
        """`host` is our name, `asker` who has opened the stream, for this `person` if they have proved it."""
        self.signer: Identity = person or asker
        """Who gives consents: the daemon is told so once, so that on a stream it is always the same."""
        self._is_call = False
        self._verifier = verifier
        self._host = host
        self._asker = asker
        self._lines = LineBuffer(rpc.MAX_LINE)
        self._held = held if held is not None else HeldLines()
        self._replies = bytearray()  # what the client gets for what the daemon never sees
        self._is_within_line = False

    @property
    def who(self) -> str:
        return who(self.signer, self._asker.name)

    @classmethod
    def for_call(cls, verifier: Verifier, host: str, asker: Identity) -> FarEnd:
        """For a single request, which says itself who gives a consent."""
        made = cls(verifier, host, asker)
        made._is_call = True
        return made

    async def inward(self, data: bytes) -> bytes:
        before = self._lines.pending
        lines = self._lines.feed(data)
        self._held.bytes += self._lines.pending - before
        if self._held.bytes > limits.MAX_LINES_HELD:
            raise StreamClosed("too many long lines are on their way here")
        passed = b"".join([await self._line(each) for each in lines])
        if len(self._replies) > limits.MAX_REFUSALS:
            raise StreamClosed("too many requests were refused")
        return passed

    def over(self) -> None:
        """The stream has ended."""
        self._held.bytes -= self._lines.pending
        self._lines = LineBuffer(0)

    async def outward(self, data: bytes) -> bytes:
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._is_within_line = True
            return data
        self._is_within_line = bool(rest)
        said = bytes(self._replies)
        self._replies.clear()
        return whole + newline + said + rest

    def replies(self) -> bytes:
        if self._is_within_line:
            return b""
        said = bytes(self._replies)
        self._replies.clear()
        return said

    async def _line(self, line: bytes | LineTooLong) -> bytes:
        """What the daemon gets of a line. It reads nothing that we could not read."""
        found = request_of(await _loaded(line))
        if found is None:
            return b"\n"  # it answers that this is no request
        id, op, params = found
        try:
            params = self.checked(op, params)
            return rpc.encode(Request(id, op, params))
        except (SignatureFault, EdnError, ValueError) as error:
            self._replies += rpc.encode(rpc.Error(ErrorCode.FAILED, str(error), id[: rpc.MAX_ID], op[:100]))
            return b""

    def checked(self, op: str, params: dict[Any, Any]) -> dict[Any, Any]:
        """The parameters with which our daemon may be asked. Raises SignatureFault."""
        if op in NOT_OVER_FLEET:
            raise SignatureFault(f"{op} is only for {self._host} itself: other hosts may not ask for it")
        if self._asker.read_only and op not in OPEN_TO_READERS and not (op in OPS and OPS[op].reads):
            raise SignatureFault(f"a read-only credential ({self._asker.name}) may look and change nothing")
        params.pop(_HOSTS, None)  # nobody asks other hosts in our name
        if op == "handshake":
            self._introduce(params)
        elif op in CONSENTS:
            self._check_consent(op, params)
        params.pop(PROOF, None)
        return params

    def _introduce(self, params: dict[Any, Any]) -> None:
        """Say to the daemon who this is."""
        given = params.get(_INFO)
        info = dict(given) if isinstance(given, Mapping) else {}
        info[_NAME] = "fairlead"
        info[_VIA] = self.who
        features = info.get(_FEATURES)
        if isinstance(features, list | tuple):
            info[_FEATURES] = [each for each in features if each not in (rpc.HOSTS, Keyword(rpc.HOSTS))]
        params[_INFO] = info
        params.pop(_KEYS, None)

    def _check_consent(self, op: str, params: dict[Any, Any]) -> None:
        """Raise SignatureFault unless a person's machine, or the person, has signed this very answer."""
        try:
            what = consent_digest(self._host, op, params)
            signer = self._verifier.check(CONSENT, params.get(PROOF), what)
        except SignatureFault as error:
            raise SignatureFault(
                f"an answer from another host counts only if it is signed: {error}"
            ) from None
        if signer.read_only:
            raise SignatureFault(f"a read-only credential ({signer.name}) may not answer")
        if signer.public != self._asker.public and signer.role != PERSON:
            raise SignatureFault(f"{self._asker.name} may not answer as {signer.name}")
        if self._is_call:
            self.signer = signer
        elif signer.public != self.signer.public:
            raise SignatureFault(f"this stream was opened for {self.signer.name}, not for {signer.name}")
