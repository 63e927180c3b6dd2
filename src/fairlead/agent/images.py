"""Pictures that people send with a prompt: what may reach a journal, and through it every later request to a
model, which would refuse the whole conversation for one that it can't read."""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from .messages import Image
from .tools.kinds import picture, size_in_words

MAX_IMAGES = 16
"""How many pictures a prompt may have,"""
MAX_IMAGE = 5 * 1024 * 1024
"""how many bytes one of them may have, as models' servers have it,"""
MAX_IMAGES_SIZE = 10 * 1024 * 1024
"""and all of them together."""


def checked_images(images: Sequence[Image]) -> tuple[Image, ...]:
    """The pictures as they are. Raises ValueError that says what is wrong with the first bad one."""
    if len(images) > MAX_IMAGES:
        raise ValueError(f"{len(images)} pictures; at most {MAX_IMAGES} are allowed")
    total = 0
    for number, image in enumerate(images, 1):
        size = len(image.data) * 3 // 4  # before anything is decoded
        total += size
        if size > MAX_IMAGE + 2:
            limit = size_in_words(MAX_IMAGE)
            raise ValueError(f"picture {number} has {size_in_words(size)}; at most {limit} are allowed")
        if total > MAX_IMAGES_SIZE + 2 * number:
            raise ValueError(f"the pictures have more than {size_in_words(MAX_IMAGES_SIZE)} in all")
        try:
            data = binascii.a2b_base64(image.data, strict_mode=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"picture {number} is not base64") from None
        found = picture(data)
        if found is None or not found.mime_type.startswith("image/"):
            raise ValueError(f"picture {number} is not a PNG, JPEG, GIF or WebP")
        if found.mime_type != image.mime_type:
            raise ValueError(f"picture {number} is {found.mime_type}, not {image.mime_type[:40]!r}")
    return tuple(images)
