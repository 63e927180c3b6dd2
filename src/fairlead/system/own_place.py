"""What this host says of itself to those who look for a place to run something: `[fleet] labels`, how many
turns it takes at a time, and whose queued jobs it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .settings import SettingError, Settings

MAX_LABELS = 16
MAX_LABEL = 32
_LABEL = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NAME = re.compile(r"@?[a-z0-9][a-z0-9._-]*")
EVERYBODY = "*"


def check_label(word: str) -> str:
    """A label. Raises ValueError."""
    if len(word) > MAX_LABEL or not _LABEL.fullmatch(word):
        raise ValueError(
            f"a label has up to {MAX_LABEL} lower-case letters, digits, dashes and underscores, and begins "
            f"with a letter or digit, not {word[: MAX_LABEL + 1]!r}"
        )
    return word


def labels(settings: Settings) -> tuple[str, ...]:
    """The labels of this host. Raises SettingError."""
    found = _words(settings, "labels", "")
    try:
        made = tuple(dict.fromkeys(map(check_label, found)))
    except ValueError as error:
        raise settings.located(SettingError(f"[fleet] labels: {error}")) from None
    if len(made) > MAX_LABELS:
        raise settings.located(SettingError(f"[fleet] labels: at most {MAX_LABELS}, not {len(made)}"))
    return made


def jobs_from(settings: Settings) -> frozenset[str]:
    """The machines and users (with `@`) whose queued jobs are run here; `*` is everybody. Raises
    SettingError."""
    found = _words(settings, "jobs_from", EVERYBODY)
    for word in found:
        if word != EVERYBODY and not _NAME.fullmatch(word):
            wrong = f"[fleet] jobs_from: {word!r} is no machine, no @user, and not {EVERYBODY!r}"
            raise settings.located(SettingError(wrong))
    return frozenset(found)


def _words(settings: Settings, key: str, usual: str) -> list[str]:
    value: object = settings.environ.get(f"FAIRLEAD_FLEET_{key.upper()}")
    if value is None:
        value = settings.section("fleet").get(key, usual)
    words = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else None
    if words is None or not all(isinstance(each, str) for each in words):
        raise settings.located(
            SettingError(f"[fleet] {key} must be a list of words, or a text with commas between them")
        )
    return [stripped for each in words if (stripped := each.strip())]


def row(settings: Settings, working: int) -> Mapping[str, Any]:
    """How this host is listed. Labels that can't be read are none."""
    try:
        own = labels(settings)
    except SettingError:
        own = ()
    return {
        "labels": list(own),
        "capacity": settings.count("fleet", "capacity"),
        "processors": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 2),
        "working": working,
    }
