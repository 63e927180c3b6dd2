"""The subjects of a fleet, and who may use which: the server enforces it by what is in each credential.

The first word after `fl.` is who speaks, or `ask` with whom is asked and who asks after it. So nobody can
speak as another, and an answer or a stream can only come from who was asked:

    fl.A.feed                  events of host A, kept in the stream FLEET_FEED
    fl.ask.B.A.look            A asks B for something that changes nothing
    fl.ask.B.A.do              A asks B for anything else
    fl.B.ans.A.ID              the answer
    fl.A.st.B.ID               what A sends to B on the stream ID
    fl.A.row                   A's row, for who listens now
    fl.A.run                   that A has written something of a job
    $KV.FLEET.host.A           the same, kept in the bucket FLEET
    $KV.FLEET.account          the account's JWT, with who was revoked
    fl.A.job.LANE.ID           a job that A queues, kept in FLEET_JOBS until somebody has done it
    $KV.FLEET_RUNS.ID.A        what A says has become of it

JetStream can be made to deliver what is stored to a subject of one's choice, which no permission prevents. So
who speaks is not believed by the subject alone: requests are signed, and ids of requests and streams can't be
guessed. Nobody but the administrator may make consumers or streams.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import limits

FEED_STREAM = "FLEET_FEED"
BUCKET = "FLEET"
DOMAIN = "fleet"
"""The hub's JetStream as leaf nodes name it: without a name their own server would be asked."""
ROW_STREAM = f"KV_{BUCKET}"
ACCOUNT_KEY = f"$KV.{BUCKET}.account"

JOB_STREAM = "FLEET_JOBS"
HOST_JOB_STREAM = "FLEET_HOST_JOBS"
RUN_BUCKET = "FLEET_RUNS"
RUN_STREAM = f"KV_{RUN_BUCKET}"

MACHINE, PERSON, ADMINISTRATOR = "fairlead-machine", "fairlead-user", "fairlead-administrator"
READ_ONLY = "fairlead-read-only"

MAX_NAME = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_RESERVED = frozenset({"ask", "local", "any", "all"})


class NameFault(ValueError):
    """A host or a user can't have this name."""


def check_name(name: str) -> None:
    """Raise NameFault unless a host or a user may be called so."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise NameFault(
            f"a name has lower case letters, digits, dots, underscores and dashes, begins with a letter or "
            f"a digit, and has at most {MAX_NAME} characters, not {name!r:.80}"
        )
    if name in _RESERVED:
        raise NameFault(f"{name!r} has a meaning of its own and names no host")


def word_of(name: str, role: str = MACHINE) -> str:
    """The word in subjects for a machine or a user. Names have no `=` and no `@`, so that each word stands
    for one name, and no user's is a machine's."""
    word = name.replace(".", "=")
    return word if role == MACHINE else f"@{word}"


def name_of(word: str) -> str:
    """The name of a machine or, with `@`, of a user."""
    return word.replace("=", ".")


def feed(word: str) -> str:
    return f"fl.{word}.feed"


def ask(to: str, word: str, *, changes: bool) -> str:
    return f"fl.ask.{to}.{word}.{'do' if changes else 'look'}"


def answer(word: str, to: str, id: str) -> str:
    return f"fl.{word}.ans.{to}.{id}"


def stream(word: str, to: str, id: str) -> str:
    return f"fl.{word}.st.{to}.{id}"


def row(word: str) -> str:
    return f"fl.{word}.row"


def key(word: str, domain: str = "") -> str:
    """Where a row is kept. Leaf nodes pass on subjects of buckets only as those of the API of a domain."""
    return f"{api(domain)}.{_key(word)}" if domain else _key(word)


def run_key(id: str, word: str, domain: str = "") -> str:
    """Where is kept what one member says of a job."""
    own = f"$KV.{RUN_BUCKET}.{id}.{word}"
    return f"{api(domain)}.{own}" if domain else own


def run_hint(word: str) -> str:
    """Where it is told that something was written of a job, for who listens now."""
    return f"fl.{word}.run"


def _key(word: str) -> str:
    return f"$KV.{BUCKET}.host.{word}"


def inbox(word: str) -> str:
    return f"_INBOX.{word}"


def api(domain: str) -> str:
    """How subjects of JetStream's API begin."""
    return f"$JS.{domain}.API" if domain else "$JS.API"


_READS = [
    *(
        f"{api(domain)}.{rest}"
        for domain in ("", DOMAIN)
        for rest in (
            f"DIRECT.GET.{FEED_STREAM}",
            f"DIRECT.GET.{FEED_STREAM}.>",
            f"DIRECT.GET.{ROW_STREAM}",
            f"DIRECT.GET.{ROW_STREAM}.>",
            f"STREAM.INFO.{FEED_STREAM}",
            f"STREAM.INFO.{JOB_STREAM}",
            f"DIRECT.GET.{RUN_STREAM}",
            f"DIRECT.GET.{RUN_STREAM}.>",
        )
    ),
    *(f"$SRV.{verb}{more}" for verb in ("PING", "INFO", "STATS") for more in ("", ".>")),
]


def permissions(role: str, name: str, *, read_only: bool = False) -> Mapping[str, Any]:
    """The part of a user's JWT that says what it may publish and subscribe to, and how much."""
    word = word_of(name, role)
    if role == ADMINISTRATOR:
        return {
            "pub": {"allow": ["$JS.API.>", "$KV.>", "$JS.ACK.>"]},
            "sub": {"allow": [f"{inbox(word)}.>", "fl.>", "$KV.>"]},
            "subs": NO_LIMIT,
            "data": NO_LIMIT,
            "payload": NO_LIMIT,
        }
    asks = [f"fl.ask.*.{word}.look"] if read_only else [f"fl.ask.*.{word}.look", f"fl.ask.*.{word}.do"]
    speaks = (
        [f"fl.{word}.>", key(word), key(word, DOMAIN)]
        if role == MACHINE and not read_only
        else [f"fl.{word}.st.>"]
    )
    hears = [
        f"fl.*.ans.{word}.>",
        f"fl.*.st.{word}.>",
        "fl.*.feed",
        "fl.*.row",
        "fl.*.run",
        f"$KV.{BUCKET}.>",
        f"{inbox(word)}.>",
    ]
    if not read_only:
        speaks += [f"fl.{word}.job.>", run_hint(word), run_key("*", word), run_key("*", word, DOMAIN)]
    more: dict[str, Any] = {}
    if role == MACHINE:
        # jobs for any host or for one with a label, and those for this host alone
        lanes = ((JOB_STREAM, "*"), (HOST_JOB_STREAM, word))
        speaks += [f"$JS.ACK.{stream}.{lane}.>" for stream, lane in lanes]
        speaks += [
            f"{api(domain)}.CONSUMER.{verb}.{stream}.{lane}"
            for domain in ("", DOMAIN)
            for verb in ("MSG.NEXT", "INFO")
            for stream, lane in lanes
        ]
        hears += [f"fl.ask.{word}.>", "$SRV.>"]
        more["resp"] = {"max": 1, "ttl": int(limits.ANSWER_TTL * 1e9)}
    return {
        "pub": {"allow": [*speaks, *asks, *_READS]},
        "sub": {"allow": hears},
        "subs": limits.MAX_SUBSCRIPTIONS,
        "data": NO_LIMIT,
        "payload": limits.MAX_CREDENTIAL_PAYLOAD,
        **more,
    }


NO_LIMIT = -1
