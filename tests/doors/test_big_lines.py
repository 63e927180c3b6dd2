"""One line as long and as full as a client can send is answered and holds up nobody: the watch over loops
in `tests/conftest.py` sees to that."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fairlead.system.settings import Settings
from fairlead.wire import rpc
from tests.hosting import WAIT, Hosting

SIZE = 950_000
COSTLY = {
    "tags": ("[", "#a 1 ", "]"),
    "numbers": ("[", "1 ", "]"),
    "characters": ("[", "\\a ", "]"),
    "metadata": ("[", "^:a b ", "]"),
    "discarded": ("[", "#_ 1 ", "]"),
    "brackets": ("[", "[]", "]"),
    "escapes": ('"a', "\\n", '"'),
    "code points": ('"', "\\u0041", '"'),
    "a query": ('"[', ":a ", ']"'),
    "a query of tags": ('"[', "#a 1 ", ']"'),
    "a shell line": ('"/run ', "a;", '"'),
}
"""What a line may be full of: what begins it, what comes over and over, and what ends it."""
PLACES = {
    "prompt": ':message "x" :images',
    "follow_up": ":message",
    "query_eql": ":query",
    "command": ":text",
    "compact": ":custom-instructions",
}


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    hosting.run("ls")
    yield hosting
    hosting.close()


@pytest.fixture
def connection(hosting: Hosting) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT)
        connection.connect(Settings(hosting.environment).rpc_path)
        yield connection


def test_a_long_line_of_anything_is_answered_and_holds_up_nobody(connection: socket.socket) -> None:
    with connection.makefile("rb") as answers:
        connection.sendall(rpc.ClientConnection().handshake("full", "1"))
        assert b":response" in answers.readline()
        for op, params in PLACES.items():
            for what, (begin, middle, end) in COSTLY.items():
                body = begin + middle * (SIZE // len(middle)) + end
                line = f'{{:id "{what}" :kind :request :op "{op}" :params {{{params} {body}}}}}\n'
                connection.sendall(line.encode())
                while b":kind :event" in (answer := answers.readline()):
                    pass
                is_full = body.startswith("[")
                assert (b"more than 50000 atoms and brackets" in answer) is is_full, (op, what, answer[:300])


def test_a_prompt_with_the_largest_image_is_one_atom(connection: socket.socket) -> None:
    """So the limit of atoms is none for what people send."""
    image = '{:data "' + "A" * 7_000_000 + '" :mime-type "image/png"}'
    with connection.makefile("rb") as answers:
        connection.sendall(rpc.ClientConnection().handshake("full", "1"))
        assert b":response" in answers.readline()
        line = f'{{:id "1" :kind :request :op "prompt" :params {{:message "x" :images [{image}]}}}}\n'
        connection.sendall(line.encode())
        while b":kind :event" in (answer := answers.readline()):
            pass
        assert b":images" in answer  # it was read, and is no picture
