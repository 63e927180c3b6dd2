"""`fairlead doctor`: is all well, and if not, what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import JSON, Command, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "doctor",
    "Check the daemon, its directories, sockets, databases and open files, the disk, the event loop, the\n"
    "nursery and the keepers, PTYs, the emulator, journals, the model, the Passepartout door and\n"
    "notifications. Each failed check says how to fix it.",
    options=(JSON,),
    examples=(
        ("fairlead doctor", "run all checks"),
        ("fairlead doctor --json | jq -r .status", "for monitoring"),
    ),
    codes={0: "healthy, or nothing has been started yet", 1: "a check failed, or the daemon has died"},
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    found = _checks()
    if options.json:
        import json

        print(json.dumps(found, indent=2))
    else:
        from ..control.health import doctor
        from .columns import terminal_width

        print(doctor(found["status"], found["checks"], terminal_width()))
    return 0 if found["status"] == "healthy" else 1


def _checks() -> dict[str, Any]:
    from ..client.connection import DaemonConnection
    from ..client.launch import NoDaemon
    from ..system.settings import Settings

    settings = Settings()
    try:
        with DaemonConnection(settings, start=False) as control:
            answer = control.ask("health")
            running = {"name": "daemon", "status": "healthy", "detail": "running", "fix": ""}
            return {**answer, "checks": [running, *answer["checks"]]}
    except NoDaemon as error:
        return _without_daemon(settings, error)


def _without_daemon(settings: Any, why: Exception) -> dict[str, Any]:
    """What can be checked from here."""
    import os

    from msgspec import to_builtins

    from ..client.hung import was_stopped
    from ..client.launch import HungDaemon
    from ..control.health import Check, disk, overall, runtime_dir
    from ..system.settings import SettingError, safe_dir
    from .config import check

    fix = (
        f"run any command, such as `fairlead ls`, to start it; if it does not start, see {settings.log_path}"
    )
    if isinstance(why, HungDaemon):
        fix = f"fairlead daemon restart; {settings.log_path} will say where it hung"
    checks = [Check("daemon", "unhealthy", str(why), fix)]
    if not isinstance(why, HungDaemon) and was_stopped(settings):
        checks = [Check("daemon", "healthy", "not running; the next command starts it")]
    try:
        check(settings)
    except SettingError as error:
        mend = "correct this: the daemon can't start with it"
        if os.path.exists(settings.good_path):
            mend = f"correct this; until then the daemon starts with the last good copy, {settings.good_path}"
        elif not isinstance(why, HungDaemon):
            checks[0] = Check("daemon", "unhealthy", str(why), "fix the configuration first")
        checks.append(Check("configuration", "unhealthy", str(error), mend))
    for path, look in ((settings.runtime_dir, runtime_dir), (settings.state_dir, disk)):
        try:
            safe_dir(path)  # as any other command makes it
            checks.append(look(settings))
        except SettingError as error:
            fix = "fix it, or set FAIRLEAD_RUNTIME_DIR and FAIRLEAD_STATE_DIR"
            checks.append(Check("directories", "unhealthy", str(error), fix))
    return {"status": overall(checks), "checked_at": None, "checks": to_builtins(checks)}
