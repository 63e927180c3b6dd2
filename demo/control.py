"""The control room: talk, consent, gates and a rule, over Passepartout's protocol: `make demo`.

The daemon is a real one in a place of its own; the model is the offline guide, so no key is needed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fairlead.formats import sexp
from fairlead.formats.sexp import Keyword
from fairlead.system.settings import Settings
from fairlead.wire.passepartout import ClientConnection, HealthCheck, HealthResponse, Message, event, plist

WAIT = 30
RULE = """
[agent]
rules = [
  { tool = "bash", match = "git *", then = "allow" },
  { tool = "bash", match = "git push*", then = "ask" },
]

[[control.rules]]
sensor = "build-finished"
pattern = "failed"
then = { actuator = "tui", text = "{project}: {text}, says a rule" }
"""


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


class Client:
    """Sends messages to the daemon and shows what comes back."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT)
        self._socket.connect(path)
        self._wire = ClientConnection()
        self._items: list[Any] = []
        print(f"{self._next()}")

    def close(self) -> None:
        self._socket.close()

    def _next(self) -> Any:
        while not self._items:
            self._items += self._wire.receive(self._socket.recv(65_536))
        return self._items.pop(0)

    def send(self, message: Any) -> None:
        self._socket.sendall(self._wire.send(message))

    def health(self) -> None:
        self.send(HealthCheck())
        while not isinstance(found := self._next(), HealthResponse):
            pass
        print(paint("32", f"health: {found.status.lower()}"))

    def answer(self) -> str:
        """Print an answer to its end; gives the token of what waits for consent meanwhile."""
        token = ""
        while True:
            item = self._next()
            if not isinstance(item, Message):
                continue
            if item.get("payload", "sensor") == Keyword("APPROVAL-REQUIRED"):
                token = str(item.get("payload", "token"))
                print(paint("33", f"\n  waits for consent: {item.get('payload', 'summary')} [{token}]"))
                if item.get("meta", "session"):  # an agent's, which waits until it is answered
                    return token
            elif item.get("payload", "action") == Keyword("MESSAGE"):
                print(item.get("payload", "text"), end="", flush=True)
                if item.get("payload", "text") == "":
                    print(paint("36", f"\n  {_gates(item)}"))
                    return token

    def say(self, text: str) -> str:
        print(f"\n{paint('1', '> ' + text)}")
        self.send(event(plist(sensor=Keyword("USER-INPUT"), text=text), meta=plist(source=Keyword("TUI"))))
        return self.answer()


def _gates(message: Message) -> str:
    steps = message.get("gate-trace")
    return "gates: " + ", ".join(f"{step[1].name.lower()} {step[3].name.lower()}" for step in steps)


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="fl-"))
    config = home / "config.toml"
    config.write_text(RULE)
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "FAIRLEAD_CONFIG": str(config),
        "FAIRLEAD_PASSEPARTOUT_PORT": "0",
    }
    fairlead = [sys.executable, "-m", "fairlead"]
    print(f"\n{paint('1', 'control')} — a daemon that hears, judges and acts, over S-expressions")
    try:
        subprocess.run([*fairlead, "ls"], env=environment, check=True, capture_output=True, timeout=WAIT)
        client = Client(Settings(environment).passepartout_path)
        client.health()
        token = client.say("write hello.txt: grüße from Lisp")
        client.health()
        client.say(f"/approve {token}")
        client.answer()
        token = client.say('run: git "pu"sh origin main')  # which is git push, however it is written
        for words in (["approvals"], ["approvals", "deny", token]):
            print(f"\n{paint('1', '$ fairlead ' + ' '.join(words))}")
            subprocess.run([*fairlead, *words], env=environment, check=True, timeout=WAIT)
        client.answer()
        client.say("/run rm -rf /")
        token = client.say("/run rm hello.txt")
        client.say(f"/deny {token}")
        built = event(plist(sensor=Keyword("BUILD-FINISHED"), project="fairlead", text="2 tests failed"))
        print(f"\n{paint('1', sexp.dumps(built.plist))}")
        client.send(built)
        client.answer()
        client.close()
        print()
        subprocess.run([*fairlead, "doctor"], env=environment, check=False, timeout=WAIT)
    finally:
        subprocess.run(
            [*fairlead, "daemon", "stop"], env=environment, check=False, capture_output=True, timeout=WAIT
        )
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
