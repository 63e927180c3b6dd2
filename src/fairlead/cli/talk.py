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
    "Talk with the daemon: each line is said to an agent session, and its answer printed as it comes.\n"
    "Lines that begin with a slash are for the daemon itself: /help lists them. Ctrl-C ends an answer,\n"
    "Ctrl-D the conversation. Without a terminal, each line of the input is said, and it ends when all\n"
    "answers have come.",
    takes=(Argument("text", "say only this", optional=True, many=True),),
    options=(
        Option("-s", "--session", value="NAME", help="the agent session, by its name or id"),
        Option("--tcp", value="PORT", kind=_port, help="over TCP instead of the unix socket"),
        Option("--token", value="FILE", completes="file", help="prove who you are by the token in a file"),
        Option("--timeout", value="SECONDS", kind=seconds, help="how long the last answers may take (600)"),
    ),
    examples=(
        ("fairlead talk", "a conversation"),
        ("fairlead talk /status", "one question"),
        ("echo 'list src' | fairlead talk -s work", "in a script"),
    ),
    codes={
        1: "something said could not be done, as there is no such session or command; an answer was lost\n"
        "because the daemon restarted; or the daemon was stopped or can't be reached. At a terminal, what\n"
        "was refused or lost is only shown",
        124: "an answer did not come in time",
        130: "interrupted by Ctrl-C; at a terminal, when no answer was under way",
    },
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from contextlib import suppress

    from ..client.talk import UNANSWERED, Gone, Talk, connect, converse
    from ..system.settings import Settings

    token = None
    if options.token is not None:
        try:
            with open(options.token, encoding="ascii") as file:
                token = file.read(1024).strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no token"
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
        print(f"fairlead {talk.version}; /help lists commands, Ctrl-D ends", file=sys.stderr)
        while True:
            try:
                code = converse(talk, sys.stdin, wait, answer_wait)
                return 0 if code == UNANSWERED else code  # a person has seen that, and gone on
            except KeyboardInterrupt:
                if not talk.unanswered:
                    raise
                with suppress(Gone):  # then it is noticed where answers are read
                    talk.cancel()


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)
