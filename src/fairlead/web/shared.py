"""The one session of a share. What a guest calls it is compared with the share once; after that only the
session's id counts, and it must still be the session that was shared: names and ids are used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..client.calls import RequestError
from .access import AccessRefused, Share

if TYPE_CHECKING:
    from .hub import Hub

SAME_SECONDS = 2.0
"""How exactly it is known when a session began."""


def session_named(share: Share | None, name: str) -> str:
    """What to ask the daemon for when a visitor names a session: with a share always its session's id.
    Raises AccessRefused if that names another session."""
    if share is None:
        return name
    if name not in (share.session, share.name):
        raise AccessRefused("this link is for another session", "web/share")
    return share.session


def is_same(share: Share, row: dict[str, Any]) -> bool:
    """True if a row of the daemon's is of the session that was shared."""
    if (row.get("id"), row.get("kind")) != (share.session, share.kind):
        return False
    began = row.get("started_at")
    return not (share.began and began) or abs(began - share.began) <= SAME_SECONDS


async def shared_row(hub: Hub, share: Share) -> dict[str, Any]:
    """The daemon's row of a share's session. Raises AccessRefused if that session is gone, RequestError or
    ConnectionError."""
    try:
        row: dict[str, Any] = (await hub.ask("session_find", session_id=share.session))["session"]
    except RequestError as error:
        if error.code != "request/not-found":
            raise
        row = {}
    if not is_same(share, row):
        raise AccessRefused("the shared session has ended", "request/not-found", 404)
    return row
