"""`fairlead doctor`: is all well, and if not, what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import JSON, Command, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "doctor",
    "Check whether all is well: the daemon, its directories, sockets, databases and open files, disk, event\n"
    "loop, nursery and keepers, PTYs, the emulator, journals, the model, door and notifications. Each check\n"
    "that fails says what to do.",
    options=(JSON,),
    examples=(
        ("fairlead doctor", "what is wrong?"),
        ("fairlead doctor --json | jq -r .status", "for a monitor"),
    ),
    codes={0: "all is well", 1: "it is not, or no daemon runs"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    found = _found()
    if options.json:
        import json

        print(json.dumps(found, indent=2))
    else:
        from ..control.health import doctor
        from .columns import terminal_width

        print(doctor(found["status"], found["checks"], terminal_width()))
    return 0 if found["status"] == "healthy" else 1


def _found() -> dict[str, Any]:
    from ..client.control import Control
    from ..client.launch import NoDaemon
    from ..settings import Settings

    settings = Settings()
    try:
        with Control(settings, start=False) as control:
            answer = control.ask("health")
            running = {"name": "daemon", "status": "healthy", "detail": "it runs", "fix": ""}
            return {**answer, "checks": [running, *answer["checks"]]}
    except NoDaemon as error:
        return _without_daemon(settings, error)


def _without_daemon(settings: Any, why: Exception) -> dict[str, Any]:
    """What can be checked from here."""
    from ..client.launch import HungDaemon
    from ..control.health import disk, runtime_dir

    fix = f"any command starts it, such as `fairlead ls`; if not, see {settings.log_path}"
    if isinstance(why, HungDaemon):
        fix = f"fairlead daemon restart; {settings.log_path} then says where it hung"
    checks = [
        {
            "name": "daemon",
            "status": "unhealthy",
            "detail": str(why),
            "fix": fix,
        }
    ]
    for check in (runtime_dir(settings), disk(settings)):
        checks.append({"name": check.name, "status": check.status, "detail": check.detail, "fix": check.fix})
    return {"status": "unhealthy", "checked_at": None, "checks": checks}
