"""What a client's message is to the loop. Nothing in it is believed that only the daemon can know.

Only events enter. The source is one of the channels that clients have, whatever they claim; what would be
the daemon's own word (approved actions, depth, status, streams) is dropped, and sensors from inside are not
taken. Whatever is left out is said to the client.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..formats.sexp import Keyword
from ..wire.passepartout import Message, Type, is_plist, proto_get
from .signals import CHANNELS, FROM_INSIDE, MAX_SENSOR, MAX_TEXT, SPOKEN, Client, Priority, Signal

FORGED = frozenset(
    {"APPROVED", "APPROVED-ACTION", "DEPTH", "STATUS", "REPLY-STREAM", "SOCKET", "STREAM", "GATE-TRACE"}
)
"""Keys that only the daemon may set."""
MAX_SESSION = 256
"""How long a session's name may be."""
MAX_FIELDS = 32
"""How many more words of a payload rules can use."""

_URGENT = ("/approve", "/deny", "/status", "/approvals")


class CancelAnswer(NamedTuple):
    """A client wants an answer to end: of this session, or whichever it gets."""

    session: str | None


class Heard(NamedTuple):
    """What a message amounts to, if to anything, and what of it was not taken."""

    what: Signal | CancelAnswer | None
    refused: list[str]


def hear(message: Message, client: Client) -> Heard:
    """What a proven client's message is."""
    if message.type is not Type.EVENT:
        return Heard(None, [f"a {message.type} from a client is ignored; send an EVENT"])
    refused = [
        f"{key} was dropped: clients can't set it"
        for part in (message.plist, message.get("meta"), message.get("payload"))
        for key in _forged(part)
    ]
    payload = message.get("payload")
    if not is_plist(payload):
        return Heard(None, [*refused, "an event needs a :PAYLOAD that is a plist"])
    source = _source(message, refused)
    session = message.get("meta", "session")
    if session in (None, []):
        session = None
    elif not isinstance(session, str) or not 0 < len(session) <= MAX_SESSION:
        return Heard(None, [*refused, f":SESSION must be a string of 1 to {MAX_SESSION} characters"])
    action, sensor = _word(proto_get(payload, "action")), _word(proto_get(payload, "sensor"))
    if action == "cancel-stream" or sensor == "interrupt":
        return Heard(CancelAnswer(session), refused)
    if not sensor:
        wanted = "an event needs a :SENSOR, or the :ACTION :CANCEL-STREAM"
        return Heard(None, [*refused, wanted])
    if sensor in FROM_INSIDE:
        return Heard(None, [*refused, f"clients can't send the sensor :{sensor.upper()}"])
    text = proto_get(payload, "text", default="")
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return Heard(None, [*refused, f":TEXT must be a string of at most {MAX_TEXT} characters"])
    if sensor in SPOKEN and not text.strip():
        return Heard(None, [*refused, f"a :{sensor.upper()} needs a :TEXT"])
    priority = Priority.EVENT
    if sensor in SPOKEN:
        priority = Priority.URGENT if text.lstrip().startswith(_URGENT) else Priority.PERSON
    return Heard(Signal(sensor, source, text, session, 0, priority, _fields(payload), client), refused)


def _forged(part: Any) -> list[str]:
    if not isinstance(part, list):
        return []
    names = (key.name.upper() for key in part[::2] if isinstance(key, Keyword))
    return [f":{name}" for name in names if name in FORGED]


def _word(value: Any) -> str:
    """A keyword's name in small letters; nothing for anything else."""
    name = value.name.lower() if isinstance(value, Keyword) else ""
    return name if len(name) <= MAX_SENSOR else ""


def _source(message: Message, refused: list[str]) -> str:
    claimed = message.get("meta", "source")
    name = _word(claimed)
    if name in CHANNELS:
        return name
    if claimed not in (None, []):
        refused.append(
            f":SOURCE is one of {', '.join(f':{each.upper()}' for each in CHANNELS)} from a client"
        )
    return CHANNELS[0]


def _fields(payload: list[Any]) -> dict[str, str]:
    """More words of a payload, for rules."""
    left_out = FORGED | {"TEXT", "SENSOR"}
    pairs = zip(payload[: 2 * MAX_FIELDS : 2], payload[1 : 2 * MAX_FIELDS : 2])
    return {
        key.name.lower(): str(value)
        for key, value in pairs
        if isinstance(value, str | int | float) and key.name.upper() not in left_out
    }
