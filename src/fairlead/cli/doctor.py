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
    codes={0: "all is well, or nothing was started yet", 1: "it is not, or the daemon has died"},
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
    from ..system.settings import Settings

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
    import os

    from msgspec import to_builtins

    from ..client.hung import was_stopped
    from ..client.launch import HungDaemon
    from ..control.health import Check, disk, overall, runtime_dir
    from ..system.settings import SettingError, safe_dir
    from .config import check

    fix = f"any command starts it, such as `fairlead ls`; if not, see {settings.log_path}"
    if isinstance(why, HungDaemon):
        fix = f"fairlead daemon restart; {settings.log_path} then says where it hung"
    checks = [Check("daemon", "unhealthy", str(why), fix)]
    if not isinstance(why, HungDaemon) and was_stopped(settings):
        checks = [Check("daemon", "healthy", "not running; it starts by itself with the first command")]
    try:
        check(settings)
    except SettingError as error:
        mend = "correct it: no daemon starts so"
        if os.path.exists(settings.good_path):
            mend = f"correct it; until then a daemon starts with the last good copy, {settings.good_path}"
        elif not isinstance(why, HungDaemon):
            checks[0] = Check("daemon", "unhealthy", str(why), "correct the configuration first")
        checks.append(Check("configuration", "unhealthy", str(error), mend))
    for path, look in ((settings.runtime_dir, runtime_dir), (settings.state_dir, disk)):
        try:
            safe_dir(path)  # as any other command makes it
            checks.append(look(settings))
        except SettingError as error:
            fix = "mend that, or set FAIRLEAD_RUNTIME_DIR and FAIRLEAD_STATE_DIR"
            checks.append(Check("directories", "unhealthy", str(error), fix))
    return {"status": overall(checks), "checked_at": None, "checks": to_builtins(checks)}
