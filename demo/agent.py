"""An agent session as an editor drives it: `make demo`.

The backend is the real `fairlead rpc` with a daemon of its own; the model is the offline guide, which needs
no key and no network, and really uses the tools.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fairlead.client.calls import plain
from fairlead.wire import rpc

WAIT = 30


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


class Editor:
    """Sends requests to the backend and shows what comes back."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._backend = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "rpc"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._wire = rpc.ClientConnection()
        self._frames: list[Any] = []
        self._send(self._wire.handshake("demo", "1", [rpc.INCREMENTS]))
        self.until("handshake")

    def _send(self, line: bytes) -> None:
        assert self._backend.stdin is not None
        self._backend.stdin.write(line)
        self._backend.stdin.flush()

    def ask(self, op: str, **params: Any) -> Any:
        self._send(self._wire.request(op, rpc.fields(**params))[1])
        return self.until(op)

    def until(self, wanted: str) -> Any:
        """The data of the next answer to an op, or of the next event of a topic; text is shown on the way."""
        assert self._backend.stdout is not None
        while True:
            while not self._frames:
                self._frames += self._wire.receive(os.read(self._backend.stdout.fileno(), 65_536))
            frame = self._frames.pop(0)
            data = plain(getattr(frame, "data", None))
            if isinstance(frame, rpc.Event):
                self._show(frame.topic, data)
            if wanted in (getattr(frame, "op", None), getattr(frame, "topic", None)):
                return data

    def _show(self, topic: str, data: Any) -> None:
        if topic == "assistant/delta":
            print(data["text"], end="", flush=True)
        elif topic == "tool/executing":
            print(paint("36", f"  [{data['tool_name']} {data['arguments']}]"))

    def turn(self, prompt: str, *, consent: bool = False) -> None:
        """One prompt, until the session is idle again."""
        print(f"\n{paint('1', '> ' + prompt)}")
        self.ask("prompt", message=prompt)
        if consent:
            asked = self.until("ui/dialog-requested")
            print(paint("33", f"  {asked['title']} {asked['message'].splitlines()[0]} — yes"))
            self.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True)
        while self.until("session/updated")["phase"] != "idle":
            pass
        print()

    def die(self) -> None:
        self._backend.send_signal(signal.SIGKILL)
        self._backend.wait(WAIT)

    def close(self) -> None:
        assert self._backend.stdin is not None
        self._backend.stdin.close()
        self._backend.wait(WAIT)


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="fl-"))
    project = home / "project"
    project.mkdir()
    (project / "todo.txt").write_text("water the roses\nmow the lawn\n")
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "FAIRLEAD_VERIFIER_DIR": str(home / "v"),
        "FAIRLEAD_PASSEPARTOUT_PORT": "0",
    }
    print(f"\n{paint('1', 'agent sessions')} — a turn with tools, consent, and an editor that dies")
    try:
        editor = Editor(project, environment)
        editor.ask("subscribe")
        editor.turn("read todo.txt")
        editor.turn("run: wc -l todo.txt", consent=True)
        session = editor.ask("get_state")["state"]["session_id"]
        editor.die()
        print(paint("31", "the editor is dead"))
        editor = Editor(project, environment)
        editor.ask("subscribe", session_id=session)
        said = editor.ask("get_messages")["messages"]
        print(paint("32", f"Another editor, the same session, and all {len(said)} messages are there."))
        editor.close()
    finally:
        command = [sys.executable, "-m", "fairlead", "daemon", "stop"]
        subprocess.run(command, env=environment, check=False, capture_output=True, timeout=WAIT)
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
