"""Files that are written as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile


def replace_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Put a new file at a path: whoever reads it gets the old one or the new one. Raises OSError."""
    descriptor, new = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".")
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
