"""The web console without a browser: a link, an op over HTTP, a terminal, a share: `make demo`."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from websockets.sync.client import connect

WAIT = 30


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


class Visit:
    """What a page has: the console's address and a cookie."""

    def __init__(self, link: str) -> None:
        self.base, _, ticket = link.partition("/in#")
        self.cookie = ""
        print(paint("1", f"\nPOST {self.base}/in  with the ticket of the link"))
        answer = self._post("/in", {"ticket": ticket})
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        print("   a cookie:", answer.headers["set-cookie"].partition(";")[2].strip())

    @property
    def headers(self) -> dict[str, str]:
        return {"Origin": self.base, "Content-Type": "application/json", "Cookie": self.cookie}

    def _post(self, path: str, body: Any) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.base.partition("://")[2], timeout=WAIT)
        connection.request("POST", path, json.dumps(body), self.headers)
        return connection.getresponse()

    def op(self, op: str, /, **params: Any) -> Any:
        print(paint("1", f"\nPOST /api/ops/{op}  {json.dumps(params)}"))
        answer = json.loads(self._post(f"/api/ops/{op}", params).read())
        print("  ", json.dumps(answer)[:300])
        return answer

    def type(self, name: str, text: str, wanted: str) -> None:
        """Take the pen of a terminal, type, and show what comes until a text is there."""
        print(paint("1", f"\nWS /api/terminals/{name}  take the pen, type {text!r}"))
        url = f"{self.base.replace('http', 'ws', 1)}/api/terminals/{name}"
        headers = {"Origin": self.base, "Cookie": self.cookie}
        with connect(url, additional_headers=headers, compression=None, proxy=None) as page:
            page.send(json.dumps({"t": "take-pen"}))
            output = b""
            while wanted.encode() not in output:
                message = page.recv(timeout=WAIT)
                if isinstance(message, bytes):
                    output += message
                    page.send(json.dumps({"t": "ack", "bytes": len(message)}))
                    continue
                print("   <", message)
                if json.loads(message).get("mine"):
                    page.send(text.encode())
            print("   < output with", repr(wanted))


def main() -> None:
    directory = tempfile.mkdtemp(prefix="fl-", dir="/tmp")
    own = {"XDG_RUNTIME_DIR": directory, "HOME": directory, "FAIRLEAD_VERIFIER_DIR": f"{directory}/v"}
    environment = {**os.environ, **own, "FAIRLEAD_PASSEPARTOUT_PORT": "0", "SHELL": "/bin/sh"}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "fairlead", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"fairlead {' '.join(words)}: {done.stderr}")
        return str(done.stdout)

    try:
        link = run("web", "--no-open").strip()
        print(paint("1", "$ fairlead web"))
        print(link)
        page = Visit(link)
        page.op("terminal_start", name="work", argv=["sh"], cwd=directory)
        page.type("work", "echo $((6 * 7))\r", "\n42")
        page.op("session_list")
        made = json.loads(run("web", "--no-open", "--json", "--share", "work", "--role", "watcher"))
        print(paint("1", "\n$ fairlead web --share work --role watcher"))
        guest = Visit(made["link"])
        guest.op("terminal_send", name="work", text="x")
        run("web", "--revoke", made["id"])
        guest.op("session_list")
    finally:
        run("stop", "work")
        run("web", "--stop")
        run("daemon", "stop")
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
