"""Asking the fleet's process about the queue of jobs. It signs what is asked, as this machine."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from ...system.settings import Settings
from ...wire.link import Search
from ..launch import NoDaemon, StartFailed
from .dial import fleet_path

ANSWER_WAIT = 30.0
"""Seconds in which the fleet's process answers, unless something is waited for."""


class NoQueue(StartFailed):
    """The queue can't be asked, or refuses."""

    def __init__(self, why: str) -> None:
        NoDaemon.__init__(self, why)  # it is not the daemon that fails


def asked(settings: Settings, asking: Mapping[str, Any], *, waits: bool = False) -> Iterator[dict[str, Any]]:
    """What the queue answers, line by line. Raises NoQueue."""
    data = json.dumps(asking).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_WAIT)
        try:
            connection.connect(fleet_path(settings))
        except OSError:
            raise NoQueue(
                "the queue is the fleet's, and its process does not run here; `fairlead fleet join` starts it"
            ) from None
        try:
            connection.sendall(b"queue %d\n%s" % (len(data), data))
            connection.settimeout(None if waits else ANSWER_WAIT)
            with connection.makefile("rb") as file:
                for line in file:
                    if not line.strip():
                        continue
                    yield _answer(line)
        except NoQueue:
            raise
        except OSError as error:
            raise NoQueue(f"the fleet's process does not answer: {error}") from None


def _answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        said, _ = Search().take(line)
        text = said.text if said is not None else line.decode(errors="replace").strip()
        raise NoQueue(f"the fleet's process refuses: {text}") from None
    if not isinstance(answer, dict):
        raise NoQueue("the fleet's process answers in a way that is not known")
    if isinstance(why := answer.get("error"), str):
        raise NoQueue(why)
    return answer
