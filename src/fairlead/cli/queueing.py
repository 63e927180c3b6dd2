"""`fairlead run --queue`: a job for whichever host of the fleet takes it, instead of a turn here."""

from __future__ import annotations

import os
import sys

from .arguments import Failure, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def project_of(given: str | None, home: str) -> str:
    """The directory as other hosts find it: below their home if it is below ours."""
    if given is not None and (given == "~" or given.startswith("~/")):
        return given
    path = os.path.abspath(given or ".")
    if path == home:
        return "~"
    return f"~/{path[len(home) + 1 :]}" if path.startswith(f"{home}/") else path


def queue(options: Any) -> int:
    """Queue a job as the command's options say, and print its id."""
    if options.name:
        raise UsageError("--name and --queue can't be combined: a job has a session of its own")
    from ..client.hosts.queueing import NoQueue, asked
    from ..system.settings import Settings

    job = {
        "lane": options.on or "any",
        "prompt": " ".join(options.prompt),
        "project": project_of(options.project, os.path.expanduser("~")),
        "verify": list(options.verify),
        "persona": list(options.persona),
        "agent": getattr(options, "with") or "",
        "mode": options.mode or "",
        "sandbox": options.sandbox,
        "model": options.model or "",
        "verifier_model": options.verifier_model or "",
        "other_model": options.other_model,
        "quorum": options.quorum or "",
        "copy": options.copy,
        "timeout": options.timeout or 0.0,
        "yes": options.yes,
        "worktree": options.worktree is not None,
        "tries": options.tries or 3,
    }
    try:
        row = next(asked(Settings(host=""), {"do": "put", "job": job}))
    except (NoQueue, StopIteration) as error:
        raise Failure(str(error) or "the fleet's process closed the connection") from None
    if options.json:
        import json

        print(json.dumps(row))
    else:
        print(row["id"])
        if row.get("lacks"):
            print(f"fairlead run: the job waits: {row['lacks']}", file=sys.stderr)
        if not options.quiet:
            print(f"queued; `fairlead queue wait {row['id']}` waits for it", file=sys.stderr)
    return 0
