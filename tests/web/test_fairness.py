"""Who may connect through which address, and that guests leave room for the owner."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from fairlead.system.settings import SettingError
from fairlead.web import limits
from fairlead.web.accepting import is_near, plain_address
from fairlead.web.places import listening_at
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting
from tests.web.test_attacks import ASK


@contextmanager
def slow_body(browser: Browser) -> Iterator[socket.socket]:
    """An op whose body stays one byte short."""
    with socket.create_connection((browser.address, browser.port), timeout=WAIT) as connection:
        headers = browser.headers("POST") | {"Content-Type": "application/json", "Content-Length": "2"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.sendall(f"POST /api/ops/session_list HTTP/1.1\r\n{lines}\r\n".encode() + b"{")
        yield connection


def test_guests_with_slow_requests_leave_room_for_the_owner(
    console: ConsoleHosting, browser: Browser
) -> None:
    console.hosting.start("wide", "cat")
    guests = [console.share("wide", "watcher")[0] for _ in range(5)]
    with ExitStack() as stack:
        held = [stack.enter_context(slow_body(guests[0])) for _ in range(limits.MAX_SHARE_OPS + 2)]
        assert len(answered(held, 2)) == 2  # each guest has a bound of its own,
        assert guests[0].op("session_list").status == 429
        assert guests[1].op("session_list").status == 200
        for guest in guests[1:]:
            held += [stack.enter_context(slow_body(guest)) for _ in range(limits.MAX_SHARE_OPS)]
        refused = len(held) - limits.MAX_SHARES_OPS
        assert len(answered(held, refused)) == refused  # and all of them have one together
        owned = [stack.enter_context(slow_body(browser)) for _ in range(limits.MAX_OPS - 1)]
        assert browser.op("session_list").status == 200
        for each in owned:
            each.sendall(b"}")
            assert each.recv(100).startswith(b"HTTP/1.1 200")
    console.hosting.run("stop", "wide")


def answered(connections: list[socket.socket], count: int) -> list[socket.socket]:
    """Those of many that were answered, as soon as there are so many."""
    deadline = time.monotonic() + WAIT
    while len(found := select.select(connections, [], [], 0.05)[0]) < count:
        assert time.monotonic() < deadline, len(found)
    assert all(each.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 429" for each in found)
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("proxy_user", ["", "65534"])
def test_behind_a_proxy_only_its_user_may_connect(proxy_user: str) -> None:
    words = ["--origin", "https://laptop.example", *(["--proxy-user", proxy_user] if proxy_user else [])]
    console = ConsoleHosting(*words, wait=False)
    try:
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

        def asked(user: int) -> str:
            done = subprocess.run(
                [python, "-c", ASK, str(console.port), "x=y"],
                user=user,
                capture_output=True,
                text=True,
                timeout=WAIT,
                check=False,
            )
            return done.stdout

        assert asked(0).startswith("401")
        assert asked(65533).startswith("403 a proxy runs as root")
        assert asked(65534).startswith("401" if proxy_user else "403 a proxy runs as root")
    finally:
        console.close()


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
def test_the_console_is_there_over_ipv6() -> None:
    console = ConsoleHosting("--listen", "[::1]:0")
    try:
        assert console.base == f"http://[::1]:{console.port}"
        browser = console.browser()
        console.hosting.start("six", "cat")
        assert [each["name"] for each in browser.op("session_list").data["sessions"]] == ["six"]
        with browser.terminal("six") as shown:
            shown.say(t="take-pen")
            shown.until("pen", mine=True)
            shown.type("hello\n")
            shown.until_shown("hello")
        with browser.live() as live:
            assert live.follow(1)["event"] == "hello"
        for host in (f"127.0.0.1:{console.port}", f"::1:{console.port}", "[::1]", f"[::2]:{console.port}"):
            assert browser.ask("GET", "/healthz", Host=host).status == 403, host
        name = f"localhost:{console.port}"
        assert browser.ask("GET", "/api/me", Host=name).status == 200
        console.hosting.run("stop", "six")
    finally:
        console.close()


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_is_refused_over_ipv6_and_on_all_addresses() -> None:
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    for listen in ("[::1]:0", "[::]:0"):
        console = ConsoleHosting("--listen", listen, "--insecure", wait=False)
        try:
            for host in ("::1", "127.0.0.1") if listen == "[::]:0" else ("::1",):
                script = ASK.replace('("127.0.0.1", int', f'("{host}", int').replace(
                    'host, cookie = f"127.0.0.1:', 'host, cookie = f"localhost:'
                )
                for user, status in ((65534, "403 the console is for the user"), (0, "401")):
                    done = subprocess.run(
                        [python, "-c", script, str(console.port), "x=y"],
                        user=user,
                        capture_output=True,
                        text=True,
                        timeout=WAIT,
                        check=False,
                    )
                    assert done.stdout.startswith(status), (listen, host, done)
        finally:
            console.close()


def test_addresses_of_ipv6_are_written_in_brackets() -> None:
    near = listening_at("[::1]:7433")
    assert (near.host, near.is_near, near.base(7433)) == ("::1", True, "http://[::1]:7433")
    # at 127.0.0.1 somebody else may listen
    assert near.origins(7433) == {"http://[::1]:7433", "http://localhost:7433"}
    assert listening_at(near.words[1]) == near._replace(port=7433)
    assert "http://[::1]" in listening_at("[::1]:80").origins(80)
    anywhere = listening_at("[::]:7433", insecure=True)
    assert not anywhere.is_near
    assert anywhere.origins(7433) >= {
        f"http://{host}:7433" for host in ("127.0.0.1", "[::1]", "localhost", socket.gethostname().lower())
    }
    assert "[::]" not in anywhere.base(7433)
    assert listening_at("localhost:7433").is_near
    for wrong in ("::1:7433", "[::1]", "[::1:7433", "[127.0.0.1]:7433", "[nothing]:7433", "::", "[::1]:x"):
        with pytest.raises(SettingError, match="--listen"):
            listening_at(wrong)
    with pytest.raises(SettingError, match="--proxy-user"):
        listening_at("127.0.0.1:0", proxy_user="root")
    with pytest.raises(SettingError, match="nobody-of-this-name"):
        listening_at("127.0.0.1:0", origin="https://x.example", proxy_user="nobody-of-this-name")


def test_what_comes_from_this_machine_is_known_in_each_form() -> None:
    for near in ("127.0.0.1", "::ffff:127.0.0.1", "::1", "127.1.2.3"):
        assert is_near(near, "192.0.2.1"), near
    for far in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::1", "::ffff:7f00:1:1"):
        assert not is_near(far, "192.0.2.1"), far
    assert is_near("::ffff:192.0.2.1", "192.0.2.1")
    assert plain_address("fe80::1%eth0") == "fe80::1"
