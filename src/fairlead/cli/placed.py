"""`--on`: where something new is to run. The daemon knows the hosts; one that it is just connecting to is
waited for a little."""

from __future__ import annotations

from .arguments import Failure, Option, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.hosts.placing import HostPlace, WantedPlace

CONNECTING_WAIT = 10.0
"""Seconds for which hosts are waited for that are being connected to, if no other fits."""
LOOK_EVERY = 0.1
ON = Option(
    "--on",
    value="WHERE",
    help="choose the host: any, label=WORD, or a host's name",
    completes="any local",
)


def place(text: str) -> str:
    """The host on which something is to run, empty for this one. It is said on stderr."""
    import sys
    import time

    from ..client.hosts.placing import NoPlace, WantedPlace, choose
    from ..formats.columns import printable
    from ..system.settings import LOCAL

    try:
        wanted = WantedPlace.read(text)
    except ValueError as error:
        raise UsageError(f"--on must be any, label=WORD, or a host's name: {error}") from None
    until = time.monotonic() + CONNECTING_WAIT
    while True:
        places = known()
        try:
            chosen = choose(places, wanted)
            break
        except NoPlace as error:
            if not _may_come(places, wanted) or time.monotonic() > until:
                raise Failure(str(error)) from None
        time.sleep(LOOK_EVERY)
    print(printable(f"on {chosen.name}: {chosen.room}"), file=sys.stderr)
    return "" if chosen.name == LOCAL else chosen.name


def _may_come(places: list[HostPlace], wanted: WantedPlace) -> bool:
    return any(each.state == "connecting" and wanted.host in ("", each.name) for each in places)


def known() -> list[HostPlace]:
    """All hosts as the daemon of this one knows them."""
    from ..client.connection import DaemonConnection
    from ..client.hosts.placing import HostPlace
    from ..system.settings import LOCAL, Settings

    with DaemonConnection(Settings(host="")) as control:
        own: dict[str, Any] = control.ask("host_row")
        rows = control.ask("host_list")["hosts"]
    return [HostPlace.of_row(LOCAL, own), *(HostPlace.of_row(each["name"], each) for each in rows)]
