"""`fairlead talk`: talk with the daemon, and through it with an agent session."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import Argument, Command, Option, UsageError, parsed, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

LAST_WAIT = 600.0
"""Seconds that the last answers may take when the input has ended."""


def _port(word: str) -> int:
    if not word.isdecimal() or not word.isascii() or not 0 < int(word) < 65_536:
        raise UsageError(f"a port from 1 to 65535, not {word!r}")
    return int(word)


COMMAND = Command(
    "talk",
    "Send messages to the daemon: each line is a prompt for an agent session, and its answer is printed as\n"
    "it arrives. Lines that start with a slash are commands for the daemon; /help lists them. Ctrl-C\n"
    "cancels an answer, Ctrl-D quits. Without a terminal, send each line of standard input and exit when\n"
    "all answers have arrived.",
    takes=(Argument("text", "send only this", optional=True, many=True),),
    options=(
        Option("-s", "--session", value="NAME", completes="chat", help="the agent session, by name or id"),
        Option("--tcp", value="PORT", kind=_port, help="connect over TCP instead of the unix socket"),
        Option("--token", value="FILE", completes="file", help="authenticate with the token in this file"),
        Option("--timeout", value="SECONDS", kind=seconds, help="time limit for the last answers (600)"),
    ),
    examples=(
        ("fairlead talk", "a conversation"),
        ("fairlead talk /status", "one command"),
        ("echo 'list src' | fairlead talk -s work", "in a script"),
    ),
    codes={
        1: "a message failed, for example because the session or command does not exist; an answer was lost\n"
        "because the daemon restarted; or the daemon was stopped or can't be reached. At a terminal these\n"
        "are reported and don't change the exit code",
        124: "timed out waiting for an answer",
        130: "interrupted by Ctrl-C; at a terminal, while no answer was pending",
    },
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from contextlib import suppress

    from ..client.talk import UNANSWERED, DaemonGone, Talk, connect, converse
    from ..system.settings import Settings

    token = None
    if options.token is not None:
        try:
            with open(options.token, encoding="ascii") as file:
                token = file.read(1024).strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a token"
            raise UsageError(f"can't read {options.token}: {why}") from None
    is_person = sys.stdin.isatty() and not options.text
    settings = Settings()

    def open_() -> socket:
        return connect(settings, options.tcp)

    with Talk(open_, _show, _note, session=options.session, token=token) as talk:
        talk.greet()
        wait = LAST_WAIT if options.timeout is None else options.timeout
        answer_wait = settings.number("daemon", "answer_seconds")
        if options.text:
            talk.say(" ".join(options.text))
            with open("/dev/null") as nothing:
                return converse(talk, nothing, wait, answer_wait)
        if not is_person:
            return converse(talk, sys.stdin, wait, answer_wait)
        print(f"fairlead {talk.version}; /help lists commands, Ctrl-D quits", file=sys.stderr)
        while True:
            try:
                code = converse(talk, sys.stdin, wait, answer_wait)
                return 0 if code == UNANSWERED else code  # a person has seen that, and gone on
            except KeyboardInterrupt:
                if not talk.unanswered:
                    raise
                with suppress(DaemonGone):  # then it is noticed where answers are read
                    talk.cancel()


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)
