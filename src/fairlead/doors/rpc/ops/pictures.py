"""The pictures that come with a prompt over rpc-edn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....agent.conversation import Conversation
from ....agent.images import MAX_IMAGES, checked_images
from ....agent.messages import Image
from ....formats.edn import Keyword
from ..handlers import invalid


def pictures_of(given: Any, session: Conversation) -> list[Image]:
    """The pictures of a prompt: maps with :data, in base64, and :mime-type. They go into the journal. Raises
    OpError, or Refused if the session takes none."""
    if not given:
        return []
    wanted = f"a vector of at most {MAX_IMAGES} maps with :data and :mime-type"
    if not isinstance(given, list | tuple) or len(given) > MAX_IMAGES:
        raise invalid("images", wanted)
    images = []
    for each in given:
        data, mime_type = (_string(each, name) for name in ("data", "mime-type"))
        if data is None or mime_type is None:
            raise invalid("images", wanted)
        images.append(Image(data, mime_type))
    try:
        checked = list(checked_images(images))
    except ValueError as error:
        raise invalid("images", error) from None
    session.check_images()
    return checked


def _string(given: Any, name: str) -> str | None:
    value = given.get(Keyword(name)) if isinstance(given, Mapping) else None
    return value if isinstance(value, str) else None
