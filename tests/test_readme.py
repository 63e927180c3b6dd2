"""What the README and the page of the protocols show is run, and so is the demo."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

from fairlead.wire import keepty

ROOT = Path(__file__).parent.parent
PAGES = [(ROOT / page).read_text() for page in ("README.md", "docs/wire.md")]
BLOCKS = re.findall(r"```python\n(.*?)```", "".join(PAGES), re.DOTALL)
SOCKET = "/run/user/1000/keepty/keepty-work.sock"
WAIT = 30.0
"""Seconds until a program that hangs fails its test."""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT, check=False
    )


def test_the_client_of_the_protocols_page_shows_output_and_exits_with_its_code(
    tmp_path: Path,
) -> None:
    (block,) = (block for block in BLOCKS if SOCKET in block)
    path = str(tmp_path / "work.sock")

    def serve(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            broker = keepty.BrokerConnection()
            while not (messages := broker.receive(client.recv(65_536))):
                pass
            assert messages == [keepty.Hello(keepty.Role.WATCHER, 80, 24)]
            for message in (keepty.HelloAck(1, 80, 24), keepty.Output(b"2 passed\n"), keepty.Exit(3)):
                client.sendall(broker.send(message))

    with socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(WAIT)
        listener.bind(path)
        listener.listen()
        server = threading.Thread(target=serve, args=[listener])
        server.start()
        done = run(block.replace(SOCKET, path))
        server.join()
    assert (done.stdout, done.returncode) == ("2 passed\n", 3)


def test_the_client_of_the_protocols_page_asks_an_agent(tmp_path: Path) -> None:
    (block,) = (block for block in BLOCKS if "acp.ClientConnection" in block)
    agent = tmp_path / "agent.py"
    agent.write_text(
        """
import sys
from fairlead.wire import acp

agent = acp.AgentConnection()
answers = {
    "initialize": acp.InitializeResult(protocol_version=1),
    "session/new": acp.NewSessionResult(session_id="one"),
    "session/prompt": acp.PromptResult(stop_reason="end_turn"),
}
for line in sys.stdin.buffer:
    (request,) = agent.receive(line)
    if request.method == "session/prompt":
        for block in (*request.params.prompt, acp.Text(text=", yes")):
            sys.stdout.buffer.write(agent.update("one", acp.AgentMessageChunk(content=block)))
    sys.stdout.buffer.write(agent.respond(request.id, answers[request.method]))
    sys.stdout.buffer.flush()
"""
    )
    done = run(f"{block}\nprint(ask([{sys.executable!r}, {str(agent)!r}], 'well'))")
    assert (done.stdout, done.stderr, done.returncode) == ("well, yes\n", "", 0)


def test_the_examples_of_the_formats_give_what_their_comments_say() -> None:
    (block,) = (block for block in BLOCKS if "edn.dumps" in block)
    claims = re.findall(r"^(\S.*?) +# (.+)$", block, re.MULTILINE)
    assert len(claims) == 2
    checks = "".join(f"\nassert {call} == {wanted}, {call}" for call, wanted in claims)
    done = run(block + checks)
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_first_minute_shows_what_the_readme_says() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "first_minute.py"],
        capture_output=True,
        text=True,
        timeout=4 * WAIT,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    (block,) = re.findall(r"```console\n(.*?)```", PAGES[0], re.DOTALL)
    # processes, times and sizes differ from run to run, and so does the width of what is printed
    shown, promised = (
        [line if line.startswith("$ ") else line.split()[:1] for line in text.splitlines()]
        for text in (done.stdout, block)
    )
    assert shown == promised


def test_the_readme_says_what_it_is_before_any_protocol_and_has_its_picture() -> None:
    beginning = PAGES[0].partition("\n## ")[0]
    assert "keepty" not in beginning
    assert "rpc-edn" not in beginning
    (picture,) = re.findall(r"!\[[^]]+\]\((\S+)\)", PAGES[0])
    assert (ROOT / picture).read_text().startswith("<svg")
    for page in re.findall(r"\]\(((?:docs|examples)/[^)#]+)", PAGES[0]):
        assert (ROOT / page).exists(), page


def test_the_demo_speaks_all_four_protocols_and_exits_with_0() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "protocols.py"],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    for name in ("keepty", "rpc-edn", "verifier", "passepartout"):
        assert f"\n{name} — the same over a socket" in done.stdout


def test_the_demo_of_terminals_shows_a_program_that_outlives_the_daemon() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "terminal.py"],
        capture_output=True,
        text=True,
        timeout=4 * WAIT,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert "the same program" in done.stdout


def test_the_demo_of_agents_shows_a_session_that_outlives_the_editor() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "agent.py"],
        capture_output=True,
        text=True,
        timeout=4 * WAIT,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert "Another editor, the same session, and all 8 messages are there." in done.stdout


def test_the_demo_of_hosted_agents_shows_a_permission_that_outlives_the_daemon() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "hosted.py"],
        capture_output=True,
        text=True,
        timeout=4 * WAIT,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert "The next one has the same question" in done.stdout
    assert "yes-once done" in done.stdout
