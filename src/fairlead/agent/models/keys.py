"""Keys that people have entered: a file for each provider, which nobody else can read."""

from __future__ import annotations

import contextlib
import os
import re

from ...system.files import replace_file
from ...system.settings import safe_dir
from . import ModelError

MAX_KEY = 16 * 1024
"""How many bytes a key may have."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class KeyFiles:
    """The entered keys below a directory, by provider. Nothing of a key is in any `repr` or error."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __repr__(self) -> str:
        return f"Keys({', '.join(self.providers())})"

    def providers(self) -> list[str]:
        """Whose keys there are."""
        try:
            return sorted(name for name in os.listdir(self._directory) if _NAME.fullmatch(name))
        except OSError:
            return []

    def find(self, provider: str) -> str | None:
        """A provider's key. Raises ModelError if there is one that can't be read."""
        path = self._path(provider)
        return read_key(path, f"the provider {provider}") if os.path.exists(path) else None

    def enter(self, provider: str, key: str) -> None:
        """Keep a key, in place of the one before. Raises ValueError if it can be none, or OSError."""
        key = key.strip()
        if not is_key(key):
            raise ValueError("a key is one word of ASCII characters")
        safe_dir(self._directory)
        replace_file(self._path(provider), f"{key}\n".encode("ascii"))

    def forget(self, provider: str) -> bool:
        """Remove a key; tells whether there was one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(provider))
            return True
        return False

    def _path(self, provider: str) -> str:
        if not _NAME.fullmatch(provider):
            raise ModelError("refused", f"{provider!r} can't be the name of a provider")
        return f"{self._directory}/{provider}"


def read_key(path: str, whose: str) -> str:
    """The key in a file. Raises ModelError, which says whose key it would be."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_KEY + 1).decode("ascii", "replace").strip()
    except OSError as error:
        raise ModelError("refused", f"{whose} has no key: can't read {path}: {error.strerror}") from None
    if not is_key(text):
        raise ModelError("refused", f"{whose} has no key: {path} must hold the key and nothing else")
    return text


def is_key(text: str) -> bool:
    """True if a text can be a key: one word of ASCII."""
    return 0 < len(text) <= MAX_KEY and text.isascii() and text.isprintable() and len(text.split()) == 1
