"""What runs instead of ssh where no real host can be had: one that is away, or says what no daemon would.

    python pretending_ssh.py … DESTINATION COMMAND

The destination says how it behaves. One that is the path of a file with an environment is another home on
this machine: the command runs there.
"""

from __future__ import annotations

import json
import os
import sys
import time

GREETING = b"\nFAIRLEAD-LINK 1 ready 9.9.9\n"
NOT_YET = b'{:kind :error, :error-code "transport/invalid-frame", :error-message "empty frame"}\n'


def say(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


class Lines:
    """What was asked, line by line."""

    def __init__(self) -> None:
        self._file = os.fdopen(0, "rb", closefd=False)

    def next(self) -> str:
        line = self._file.readline()
        if not line:
            sys.exit(0)
        return line.decode()


def answered(line: str, data: str) -> None:
    id = line.split('"')[1]
    op = line.split(':op "')[1].split('"', maxsplit=1)[0]
    say(f'{{:id "{id}", :kind :response, :op "{op}", :ok true, :data {data}}}\n'.encode())


def greeted() -> Lines:
    say(GREETING)
    lines = Lines()
    answered(lines.next(), '{:server-info {:protocol-version "1.0", :features [], :server-version "9.9.9"}}')
    return lines


def daemon(sessions: str = "[]", approvals: str = "[]", then: object = None, behind: float = 0.0) -> None:
    """A daemon that has these sessions and questions, and does something after that."""
    lines = greeted()
    while True:
        line = lines.next()
        if ':op "session_list"' in line:
            answered(line, f"{{:sessions {sessions}, :questions 0}}")
        elif ':op "approvals"' in line:
            answered(line, f"{{:approvals {approvals}}}")
            if callable(then):  # it is what a link asks last
                then()
        elif ':op "host_row"' in line:
            answered(line, f"{{:now {time.time() - behind}}}")
        else:
            answered(line, "{}")


ROW = '{:id "a" :kind "terminal" :name "a" :project "/x" :state "running" :can ["screen"] :exit-code nil}'


def flood() -> None:
    event = b'{:kind :event, :event "sessions/changed", :data {:session-id "a"}}\n'
    while True:
        say(event * 1000)


def main(words: list[str]) -> None:
    if "-G" in words:
        return
    kind, _, command = words[-2].partition("+")[0], "", words[-1]
    if kind.startswith("/"):
        with open(kind, "rb") as file:
            environment = json.load(file)
        os.execve("/bin/sh", ["sh", "-c", command], environment)
    match kind:
        case "away":
            print("ssh: connect to host away port 22: Connection refused", file=sys.stderr)
            sys.exit(255)
        case "silent":
            time.sleep(600)
        case "mute":  # it greets, and its daemon says nothing
            say(GREETING)
            time.sleep(600)
        case "floods":
            daemon(f"[{ROW}]", then=flood)
        case "long":
            greeted().next()
            while True:
                say(b'{:kind :event, :event "sessions/changed", :data {:x "' + b"x" * 65_536)
        case "late":  # its clock is an hour behind
            since = f':activity {{:state "working" :since {time.time() - 3605}}}'
            daemon(f"[{ROW[:-1]} {since}}}]", behind=3600.0)
        case "garbage":
            greeted()
            say(b"]]]] \xff\x00 {{{\n")
            time.sleep(600)
        case "wrong":  # frames as they should be, with what makes no sense in them
            rows = '{:id 5} {:id "b" :kind "terminal" :name nil} 7 "x" {:id "" :kind "k"} {:id "\\u001b[2J"'
            rows += ' :kind "terminal" :name "\\u001b[2J" :project "/x" :state "running" :can ["screen"]}'
            asked = '{:token 5} nil {:token "t" :kind "consent" :title "t" :summary "s" :options "no"}'
            daemon(f"[{ROW} {rows}]", f"[{asked}]", then=wrong_events)


def wrong_events() -> None:
    for data in (
        "{}",
        '{:session-id "a"}',
        '{:session-id 5, :state "waits"}',
        '{:session-id "a", :state 5, :question [], :seen 3}',
        '{:session-id "a", :state "dances", :question "", :seen true}',
    ):
        say(b'{:kind :event, :event "sessions/state", :data %s}\n' % data.encode())
    say(b'{:kind :event, :event "no/such", :data {}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
