"""Queued jobs: what is asked, signed by who asks, and the states that a job goes through. Does no I/O.

A job is a prompt with its checks, for a directory that the host which takes it must have. It never carries
keys or an environment. Which hosts may take it is its lane. What has become of it is a state, of which each
one is written only if nobody has written another since (`job_store`): its number is the fence that tells a
worker whose time is over.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, field

from ..system.own_place import check_label
from . import limits
from .creds import Creds, Identity
from .nkeys import USER, KeyFault, check_signature
from .subjects import HOST_JOB_STREAM, JOB_STREAM, NameFault, check_name, word_of

_ID = re.compile(r"[a-z0-9]{12}")

JobStage = Literal["queued", "running", "done", "failed", "cancelled"]
OVER: frozenset[str] = frozenset({"done", "failed", "cancelled"})


class JobFault(ValueError):
    """A job can't be what is asked, or is not what it says. One sentence."""


class Lane(NamedTuple):
    """Which hosts may take a job: any, those with a label, or one."""

    kind: Literal["any", "label", "host"]
    word: str = ""

    @property
    def tokens(self) -> str:
        """Its part of subjects."""
        return self.kind if self.kind == "any" else f"{self.kind}.{self._token}"

    @property
    def consumer(self) -> str:
        """The name of the consumer from which its workers take."""
        return {"any": "any", "label": f"label-{self.word}", "host": self._token}[self.kind]

    @property
    def stream(self) -> str:
        """The stream in which its jobs lie."""
        return HOST_JOB_STREAM if self.kind == "host" else JOB_STREAM

    @property
    def _token(self) -> str:
        return word_of(self.word) if self.kind == "host" else self.word

    @property
    def shown(self) -> str:
        return {"any": "any", "label": f"label={self.word}", "host": self.word}[self.kind]

    @classmethod
    def read(cls, text: str) -> Lane:
        """The lane that a person means by any, label=WORD, or a host's name. Raises JobFault."""
        try:
            if text in ("", "any"):
                return cls("any")
            if text.startswith("label="):
                return cls("label", check_label(text.removeprefix("label=")))
            check_name(text)
            return cls("host", text)
        except (NameFault, ValueError) as error:
            hint = "; a queued job takes one label" if "," in text else ""
            raise JobFault(f"{error}{hint}") from None


def lacking(lane: Lane, hosts: Iterable[Mapping[str, Any]]) -> str:
    """Why nobody takes jobs of a lane now; empty if a host does. `hosts` are rows as the fleet lists them."""
    here = [each for each in hosts if each["state"] == "here"]
    none = "takes jobs: `[fleet] capacity` is 0"
    if lane.kind == "host":
        found = [each for each in here if each["name"] == lane.word]
        if not found:
            return f"there is no host {lane.word} in the fleet now"
        return "" if found[0]["capacity"] else f"{lane.word} takes no jobs: `[fleet] capacity` is 0 there"
    if lane.kind == "label":
        here = [each for each in here if lane.word in each["labels"]]
        if not here:
            return f"no host that is here has the label {lane.word}"
        none = f"with the label {lane.word} {none}"
    return "" if any(each["capacity"] for each in here) else f"no host {none}"


class JobBody(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What is to be done, as `fairlead run` takes it."""

    id: str
    lane: str
    prompt: str
    project: str
    """The directory on the host that takes it; `~/` is the home of its user there."""
    at: float
    verify: list[str] = field(default_factory=list)
    persona: list[str] = field(default_factory=list)
    agent: str = ""
    mode: str = ""
    sandbox: bool = False
    model: str = ""
    verifier_model: str = ""
    other_model: bool = False
    quorum: str = ""
    copy: bool = False
    timeout: float = 0.0
    yes: bool = False
    worktree: bool = False
    tries: int = 3
    """How often it is begun at the most, if who runs it goes away in the middle."""
    seconds: float = 3600.0
    """How long one try may take."""
    round: int = 0
    """How often who asks has asked for it again."""


class SignedJob(Struct):
    """A job as it travels."""

    body: str
    jwt: str
    sig: str


class JobState(Struct, omit_defaults=True):
    """What has become of a job, as it is kept."""

    state: JobStage
    at: float = 0.0
    """When it was asked for."""
    asker: str = ""
    lane: str = ""
    title: str = ""
    project: str = ""
    round: int = 0
    tried: int = 0
    """How often it was begun."""
    run: str = ""
    """A word of its own for each try: whose this is, only that worker knows."""
    host: str = ""
    """Where it runs, or ran last."""
    lease: float = 0.0
    """Seconds after which another host may take it, counted from when this was written."""
    since: float = 0.0
    """When this stage began."""
    passed: dict[str, str] = field(default_factory=dict)
    """Hosts that can't run it, and why."""
    note: str = ""
    code: int = 0
    confidence: str = ""
    summary: str = ""
    report: str = ""
    seconds: float = 0.0
    by: str = ""
    """Who cancelled it."""

    @property
    def is_over(self) -> bool:
        return self.state in OVER


class AskedState(JobState):
    """The state that who asks writes: it has the job itself, so that it can be asked for again."""

    job: SignedJob | None = None


def new_id() -> str:
    return secrets.token_hex(6)


def check_id(id: str) -> str:
    """Raises JobFault."""
    if not _ID.fullmatch(id):
        raise JobFault(f"a job's id has 12 letters and digits, not {id[:40]!r}")
    return id


def checked_body(body: JobBody) -> JobBody:
    """The same body. Raises JobFault if it asks for too much or for nothing."""
    check_id(body.id)
    Lane.read(body.lane)
    if not body.prompt.strip():
        raise JobFault("a job needs a prompt")
    if not body.verify and not body.persona:
        raise JobFault("a job needs --verify COMMAND or --persona NAME")
    if len(body.verify) + len(body.persona) > limits.MAX_JOB_CHECKS or not all(map(str.strip, body.verify)):
        raise JobFault(f"a job has at most {limits.MAX_JOB_CHECKS} checks, and none is empty")
    is_absolute = body.project.startswith(("/", "~/")) or body.project == "~"
    if not is_absolute or "\0" in body.project or "\n" in body.project or len(body.project) > 1024:
        raise JobFault("a job's directory is absolute, or begins with ~/")
    words = [*body.verify, *body.persona, body.agent, body.mode, body.model, body.verifier_model, body.quorum]
    if any("\0" in word for word in (*words, body.prompt)) or any(
        word.startswith("-") for word in (*body.persona, body.agent, body.mode, body.model, body.quorum)
    ):
        raise JobFault("a job's words must not begin with a dash or have a NUL in them")
    if not 1 <= body.tries <= limits.MAX_JOB_TRIES:
        raise JobFault(f"a job is tried from once to {limits.MAX_JOB_TRIES} times, not {body.tries}")
    if not 0 < body.seconds <= limits.MAX_JOB_SECONDS or not 0 <= body.timeout <= limits.MAX_JOB_SECONDS:
        raise JobFault(f"a job takes at most {limits.MAX_JOB_SECONDS:g} s")
    return body


def _covered(body: str) -> bytes:
    return b"fairlead-fleet-1\0job\0" + hashlib.sha256(body.encode()).digest()


def signed(body: JobBody, creds: Creds) -> SignedJob:
    """A job with the signature of who asks. Raises JobFault."""
    text = msgspec.json.encode(checked_body(body)).decode()
    made = SignedJob(text, creds.jwt, base64.b64encode(creds.key.sign(_covered(text))).decode())
    if len(msgspec.json.encode(made)) > limits.MAX_JOB:
        raise JobFault(f"the job is too large: with its prompt it has at most {limits.MAX_JOB // 1024} KiB")
    return made


def opened(data: bytes) -> tuple[SignedJob, JobBody]:
    """A job as it came, of which nothing is believed yet. Raises JobFault."""
    if len(data) > limits.MAX_JOB:
        raise JobFault(f"it is larger than {limits.MAX_JOB // 1024} KiB")
    try:
        envelope = msgspec.json.decode(data, type=SignedJob)
        body = msgspec.json.decode(envelope.body, type=JobBody)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise JobFault("it is no job") from None
    return envelope, checked_body(body)


def check_job(envelope: SignedJob, identity: Identity) -> None:
    """Raise JobFault unless this one has signed it and may. `identity` is that of the envelope's JWT, checked
    against the account."""
    try:
        check_signature(
            identity.public, USER, _covered(envelope.body), base64.b64decode(envelope.sig, validate=True)
        )
    except (KeyFault, binascii.Error, ValueError):
        raise JobFault(f"it is not signed by {identity.name}") from None
    if identity.read_only:
        raise JobFault(f"a read-only credential ({identity.name}) may not queue jobs")


def subject(word: str, lane: Lane, id: str) -> str:
    """Where a job is put: the server sees to it that only its asker can."""
    return f"fl.{word}.job.{lane.tokens}.{id}"


def title_of(prompt: str) -> str:
    """The first words of a prompt."""
    line = " ".join(prompt.split())
    return line if len(line) <= limits.MAX_JOB_TITLE else f"{line[: limits.MAX_JOB_TITLE - 1]}…"


def queued(body: JobBody, asker: str, now: float) -> JobState:
    """The first state of a job, or of a further round."""
    return JobState(
        "queued",
        at=body.at,
        asker=asker,
        lane=body.lane,
        title=title_of(body.prompt),
        project=body.project,
        round=body.round,
        since=now,
    )
