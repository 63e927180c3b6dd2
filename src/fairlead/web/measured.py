"""`/metrics`: counts of the console and the daemon's sessions, as Prometheus reads them."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..client.calls import RequestError

if TYPE_CHECKING:
    from .app import App

MAX_LABEL = 60
FLEET_SECONDS = 30.0
"""Seconds after which the fleet's metrics are those of a process that has ended."""
MAX_FLEET = 2 * 1024 * 1024
"""Bytes of them."""


def _quoted(text: str) -> str:
    return text[:MAX_LABEL].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _family(name: str, kind: str, what: str, rows: list[tuple[dict[str, str], float]]) -> list[str]:
    lines = [f"# HELP fairlead_{name} {what}", f"# TYPE fairlead_{name} {kind}"]
    for labels, value in rows:
        given = ",".join(f'{key}="{_quoted(text)}"' for key, text in labels.items())
        lines.append(f"fairlead_{name}{{{given}}} {value:g}" if given else f"fairlead_{name} {value:g}")
    return lines


async def metrics(app: App) -> str:
    """The text for Prometheus. While the daemon is away it has what the console knows."""
    hub = app.hub
    rows: list[dict[str, Any]] = []
    is_here = not hub.is_away
    if is_here:
        try:
            rows = (await hub.ask("session_list"))["sessions"]
        except (RequestError, ConnectionError, TimeoutError, OSError):
            is_here = False
    states = Counter(
        (
            str(each.get("kind") or ""),
            str((each.get("activity") or {}).get("state") or each.get("state") or ""),
        )
        for each in rows
    )
    lines = [
        *_family("build_info", "gauge", "the version", [({"version": __version__}, 1)]),
        *_family("daemon_up", "gauge", "1 if the daemon answers", [({}, float(is_here))]),
        *_family(
            "sessions",
            "gauge",
            "sessions by kind and state",
            [({"kind": kind, "state": state}, count) for (kind, state), count in sorted(states.items())],
        ),
        *_family("questions", "gauge", "questions that wait for a person", [({}, len(hub.questions))]),
        *_family(
            "events_total",
            "counter",
            "what happened, by topic",
            [({"topic": topic}, count) for topic, count in sorted(hub.counts.items())],
        ),
        *_family(
            "web_ops_total",
            "counter",
            "ops over HTTP, by status",
            [
                ({"op": op, "status": str(status)}, count)
                for (op, status), count in sorted(app.ops.counts.items())
            ],
        ),
        *_family("web_streams", "gauge", "open event streams", [({}, app.feeds.open)]),
        *_family("web_pages", "gauge", "open pages", [({}, app.live.open)]),
        *_family("web_terminals", "gauge", "open terminals", [({}, app.terminals.open)]),
        *_family("web_terminal_bytes_total", "counter", "output sent", [({}, app.terminals.bytes_out)]),
        *_family("web_subscriptions", "gauge", "browsers that are pushed to", [({}, len(app.pushes.book))]),
        *_family(
            "web_pushes_total",
            "counter",
            "messages to push services, by what became of them",
            [({"outcome": each}, count) for each, count in sorted(app.pushes.sender.counts.items())],
        ),
        *_family("web_errors_total", "counter", "requests that failed by our own fault", [({}, app.errors)]),
        *_family("web_uptime_seconds", "gauge", "since the start", [({}, time.time() - app.started_at)]),
    ]
    return "\n".join(lines) + "\n" + _of_fleet(hub.settings.runtime_dir)


def _of_fleet(runtime_dir: str) -> str:
    """What the fleet's process has written down, while it runs: it does so every few seconds."""
    try:
        with open(f"{runtime_dir}/fleet.prom", encoding="utf-8") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime > FLEET_SECONDS:
                return ""
            return file.read(MAX_FLEET)
    except (OSError, UnicodeDecodeError):
        return ""
