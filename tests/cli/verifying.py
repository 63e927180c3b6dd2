"""What tests of `fairlead verify` share: a builder, a persona, the command while it runs, its reports."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead.client.sdk import Agent, Host, connect
from fairlead.system.settings import Settings
from fairlead.verify.report import Report
from fairlead.verify.store import ListedReport, ReportStore
from tests.hosting import WAIT, Hosting
from tests.verify.projects import write

VERIFIED = "## Report\n\nSTATUS: verified\nCONFIDENCE: PERFECT\n\n### What did you verify?\n\nThe answer.\n"


def connected(hosting: Hosting) -> Host:
    """A connection of its own, as those to a daemon that was killed are over."""
    hosting.run("ls")  # it starts the daemon there, and not where this process would
    return connect(Settings(hosting.environment))


def fairlead(
    hosting: Hosting, project: Path, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in the project."""
    return subprocess.run(
        [sys.executable, "-m", "fairlead", *words],
        env={**hosting.environment, **environment},
        cwd=project,
        capture_output=True,
        text=True,
        timeout=WAIT,
        input="",
        check=False,
    )


def reports(hosting: Hosting, project: Path) -> list[ListedReport]:
    """What is kept of a project, the oldest first."""
    with ReportStore(Settings(hosting.environment).reports_path) as store:
        return list(reversed(store.list(project=str(project))))


def report(hosting: Hosting, id: int) -> Report:
    with ReportStore(Settings(hosting.environment).reports_path) as store:
        found = store.get(id)
    assert found is not None
    return found


def built(host: Host, name: str, project: Path, prompt: str = "ls") -> Agent:
    """A session with a turn that is over."""
    agent = host.agent(name, cwd=str(project))
    agent.ask(prompt, approve=True, timeout=WAIT)
    return agent


class Verifying:
    """`fairlead verify` as it runs on."""

    def __init__(self, hosting: Hosting, project: Path, *words: str) -> None:
        self._log = (project.parent / "verify.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "verify", *words],
            env=hosting.environment,
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        hosting.until(lambda: "verifying the turns" in self.printed)

    @property
    def printed(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(WAIT)
        self._log.close()
        return code


@contextmanager
def verifying(hosting: Hosting, project: Path, *words: str) -> Iterator[Verifying]:
    verifier = Verifying(hosting, project, *words)
    try:
        yield verifier
    finally:
        verifier.end()


def builder_like_pi(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Tell of one turn; gives what the verifier says, until its end."""
    stop = {"type": "event", "name": "stop", "sessionId": "pi-1", "turnIndex": 4, "timestamp": 1}
    connection.settimeout(WAIT)
    with connection.makefile("rb") as lines:
        for line in lines:
            said = json.loads(line)
            answers: list[dict[str, Any]] = []
            if said["type"] == "hello":
                answers = [{"type": "hello_ack", "sessionId": "pi-1"}, stop]
            elif said["type"] == "ping":
                answers = [{"type": "pong", "nonce": said["nonce"]}]
            for answer in answers:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            yield said


def persona(project: Path, name: str = "judge") -> None:
    front = f"---\nname: {name}\ndescription: judges\nmodel: offline/replay\n---\n"
    write(project, f".pi/verifier/agents/{name}.md", f"{front}Judge <BUILDER_SESSION_ID>.\n")
