"""A real daemon, as `fairlead daemon run` is one, that has echo sessions as well.

`python -m tests.sessions.echo_daemon daemon run` says `ready` when it serves. ECHO_SESSIONS has the
directories of the first sessions by their names, as JSON. It is supervised: nothing restarts it without its
third kind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from fairlead.daemon.process import run
from fairlead.system.settings import Settings
from tests.hosting import Hosting
from tests.sessions.echo_kind import EchoKind

FIRST = "echo"
"""The session that is there from the start, in the home directory."""


class EchoHosting(Hosting):
    """Places with such a daemon, which is started at once, with this configuration."""

    def __init__(self, settings: Mapping[str, str] | None = None, config: str = "") -> None:
        super().__init__(settings)
        path = Path(Settings(self.environment).config_path)
        path.parent.mkdir(mode=0o700, parents=True)
        path.write_text(config)
        names = json.dumps({FIRST: self.environment["HOME"]})
        self._daemon = subprocess.Popen(
            [sys.executable, "-m", "tests.sessions.echo_daemon", "daemon", "run"],
            env={**self.environment, "ECHO_SESSIONS": names},
            cwd=Path(__file__).parent.parent.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the log has it
        )
        assert self._daemon.stdout is not None
        assert self._daemon.stdout.readline() == b"ready\n", self.log()

    def close(self) -> None:
        super().close()
        assert self._daemon.stdout is not None
        self._daemon.stdout.close()
        self._daemon.wait()


def main() -> None:
    names = json.loads(os.environ.pop("ECHO_SESSIONS"))
    run(
        Settings(),
        supervised=True,
        ready=lambda: print("ready", flush=True),
        kinds=[lambda feed, inbox, directory: EchoKind(feed, inbox, directory, names)],
    )


if __name__ == "__main__":
    main()
