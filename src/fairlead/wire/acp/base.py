"""What all structures of the protocol share: names as in JavaScript, no key for what is not said, `_meta`.

Unknown fields are skipped. What happens to a field that can't be read is the protocol's own rule, which
`reading` follows: an optional one counts as absent, and a bad item of a list is left out. A `strict`
structure is refused instead, because it says what to do, and half of an order is another order.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from ..jsonrpc import MAX_ID
from .limits import MAX_ENTRIES

SessionId = Annotated[str, msgspec.Meta(max_length=MAX_ID)]
ENTRIES = msgspec.Meta(max_length=MAX_ENTRIES)
"""For lists: `Annotated[tuple[X, ...], ENTRIES]`."""


class Wire(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True
):
    """Any structure of the protocol."""

    strict: ClassVar[bool] = False
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)
    """What the protocol doesn't define."""
