"""The keys that leave a session, as `[attach] escape` names them."""

from __future__ import annotations

from .settings import SettingError, Settings

MAX_KEYS, MAX_ESCAPES = 8, 8
"""How many keys an escape has, and how many escapes there are, at the most."""

_TAKEN = {"i": "Tab", "j": "Enter", "m": "Enter", "[": "Escape"}

Presses = tuple[int, ...]


def escapes_of(settings: Settings) -> dict[Presses, str]:
    """The escapes that are set, with their names, the first one first. Raises SettingError."""
    value: object = settings.environ.get("FAIRLEAD_ATTACH_ESCAPE")
    if value is None:
        value = settings.section("attach").get("escape", "ctrl-\\ or ,,,d")
    names = value if isinstance(value, list) else value.split(" or ") if isinstance(value, str) else None
    if not names or not all(isinstance(each, str) for each in names):
        raise _wrong(value, 'must be a string such as "ctrl-\\\\", "ctrl-a d" or ",,,d", or a list of them')
    if len(names) > MAX_ESCAPES:
        raise _wrong(value, f"has {len(names)} escapes; at most {MAX_ESCAPES} are allowed")
    found: dict[Presses, str] = {}
    for name in names:
        found[_keys(name)] = " ".join(name.split())
    for one, first in found.items():
        for other, second in found.items():
            if one != other and other[: len(one)] == one:
                raise _wrong(
                    value, f"has {first!r}, which is a prefix of {second!r}, so {second!r} can't be typed"
                )
    return found


def _keys(name: str) -> Presses:
    keys: list[int] = []
    for word in name.split():
        if word.lower().startswith("ctrl-"):
            key = word[5:].lower()
            if len(key) != 1 or not ((key.isascii() and key.isalpha()) or key in "[\\]^_"):
                raise _wrong(name, f"has {word!r}; ctrl- must be followed by one letter or one of [ \\ ] ^ _")
            if key in _TAKEN:
                raise _wrong(name, f"has {word!r}, which is the {_TAKEN[key]} key in a terminal")
            keys.append(ord(key.upper()) & 0x1F)
        elif word.isascii() and word.isprintable():
            keys += word.encode()
        else:
            raise _wrong(name, f"has {word!r}; keys are ctrl-KEY or plain ASCII characters")
    if not keys:
        raise _wrong(name, "must not be empty")
    if len(keys) > MAX_KEYS:
        raise _wrong(name, f"has {len(keys)} keys; at most {MAX_KEYS} are allowed")
    if len(keys) == 1 and keys[0] >= 0x20:
        raise _wrong(name, "is a plain key, which could then not be typed; use ctrl-KEY or several keys")
    return tuple(keys)


def _wrong(value: object, what: str) -> SettingError:
    return SettingError(f"[attach] escape {value!r} {what}")
