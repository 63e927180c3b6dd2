"""What was known last of hosts, on the disk: shown while they are away, also by the next daemon."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ..formats.shown import middle
from ..system.files import replace_file
from ..system.opening import read_file
from ..system.settings import SettingError, safe_dir
from ..wire.jsonrpc import json_bytes
from . import limits, rows

log = logging.getLogger("fairlead")


class KeptHost(Struct, omit_defaults=True):
    """What is known of a host."""

    seen_at: float | None = None
    version: str = ""
    sessions: list[dict[str, Any]] = msgspec.field(default_factory=list)
    questions: list[dict[str, Any]] = msgspec.field(default_factory=list)


class KeptTexts(NamedTuple):
    """The same as it is written for those who ask."""

    sessions: dict[str, rows.RowText]
    questions: list[str]


class KeptHosts:
    """A directory with a file for each host. All of it may block: call it in a thread."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def _path(self, host: str) -> str:
        return f"{self._directory}/{host}.json"

    def load_texts(self, host: str) -> tuple[KeptHost, KeptTexts]:
        """What was known of it, and as it is written."""
        known = self.load(host)
        sessions = {each["id"]: each for each in known.sessions}
        questions = {each["token"]: each for each in known.questions}
        texts = KeptTexts(rows.session_texts(host, sessions), rows.question_texts(host, questions))
        return known, texts

    def load(self, host: str) -> KeptHost:
        """What was known of it; nothing if that can't be read."""
        try:
            found = msgspec.json.decode(read_file(self._path(host), limits.MAX_KEPT), type=KeptHost)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return KeptHost()
        found.sessions = list(rows.session_rows(found.sessions).values())
        found.questions = list(rows.question_rows(found.questions).values())
        return found

    def keep(self, host: str, known: KeptHost) -> None:
        where = "it is not kept in whole while the host is away"
        known.questions = [
            {**each, "preview": middle(each["preview"], limits.KEPT_WHOLE, where)} for each in known.questions
        ]
        try:
            safe_dir(self._directory)
            data = json_bytes(known)
            if len(data) <= limits.MAX_KEPT:
                replace_file(self._path(host), data)
        except (OSError, SettingError, UnicodeEncodeError) as error:
            log.warning("what is known of the host %s can't be written down: %s", host, error)

    def forget(self, host: str) -> None:
        """It is no host any more."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(host))
