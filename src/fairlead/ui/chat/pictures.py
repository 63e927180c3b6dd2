"""Images that a person names in a prompt, as `@picture.png`, or pastes as paths: found, checked and read.

The file is read when the prompt is entered. In the text that is sent the `@` is gone, as agents that look for
such names themselves would see the image twice.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import stat
from typing import Any
from urllib.parse import unquote, urlsplit

from ...wire.rpc import fields

ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""How the names of files end that may be images."""
MAX_IMAGES, MAX_IMAGE = 16, 5 * 1024 * 1024
"""How many images a prompt may have, and how many bytes one; the daemon takes no more."""
MAX_IMAGES_SIZE = 10 * 1024 * 1024
MAX_PASTE = 8 * 1024
"""How long a paste may be that is looked at for paths."""

_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class NotAnImage(ValueError):
    """Why something that is named can't be attached."""


def attached(text: str, directory: str) -> tuple[str, list[dict[Any, str]]]:
    """The text to be sent, and the images that are named in it. Raises NotAnImage."""
    images: list[dict[Any, str]] = []
    total = 0

    def take(found: re.Match[str]) -> str:
        nonlocal total
        name = found[1] or found[2]
        path = os.path.join(directory, os.path.expanduser(name))
        if not _may_be_image(path):
            return found[0]
        image, size = _read(path, name)
        images.append(image)
        total += size
        if len(images) > MAX_IMAGES:
            raise NotAnImage(f"a prompt takes at most {MAX_IMAGES} images")
        if total > MAX_IMAGES_SIZE:
            raise NotAnImage(f"a prompt takes at most {_megabytes(MAX_IMAGES_SIZE)} of images")
        return f"[image: {name}]"

    return _MENTION.sub(take, text), images


def not_there(text: str, directory: str) -> str:
    """What is to be said of images that a text names and that are not there; empty if there are none."""
    names = [found[1] or found[2] for found in _MENTION.finditer(text)]
    missing = [
        each
        for each in dict.fromkeys(names)
        if each.lower().endswith(ENDINGS)
        and "\0" not in each
        and not os.path.lexists(os.path.join(directory, os.path.expanduser(each)))
    ]
    if not missing:
        return ""
    more = f" and {len(missing) - MAX_IMAGES} more" if len(missing) > MAX_IMAGES else ""
    return f"no image is attached: there is no file {', '.join(missing[:MAX_IMAGES])}{more}"


def named_in_paste(text: str, directory: str) -> str:
    """What stands in the line for a paste that is nothing but paths of images, as terminals paste files that
    are dropped on them; else empty."""
    text = text.strip()
    if not text or len(text) > MAX_PASTE or "\n" in text:
        return ""
    try:
        words = [text] if _may_be_image(os.path.join(directory, text)) else shlex.split(text)
    except ValueError:
        return ""
    paths = [unquote(urlsplit(word).path) if word.startswith("file://") else word for word in words]
    whole = [os.path.join(directory, os.path.expanduser(each)) for each in paths]
    if not whole or len(whole) > MAX_IMAGES or not all(map(_may_be_image, whole)):
        return ""
    return "".join(f"{mention(each)} " for each in paths)


def mention(path: str) -> str:
    """How a path is named in a prompt."""
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"


def _may_be_image(path: str) -> bool:
    """True for a file whose name is that of an image."""
    return path.lower().endswith(ENDINGS) and "\0" not in path and os.path.isfile(path)


def _read(path: str, name: str) -> tuple[dict[Any, str], int]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotAnImage(f"{name} is no ordinary file")
            data = file.read(MAX_IMAGE + 1)
    except OSError as error:
        raise NotAnImage(f"can't read {name}: {error.strerror}") from None
    if len(data) > MAX_IMAGE:
        raise NotAnImage(f"{name} is too large: an image has at most {_megabytes(MAX_IMAGE)}")
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if not kind:
        raise NotAnImage(f"{name} is not a PNG, JPEG, GIF or WebP")
    return fields(data=base64.b64encode(data).decode(), mime_type=kind), len(data)


def _megabytes(count: int) -> str:
    return f"{count // (1024 * 1024)} MB"
