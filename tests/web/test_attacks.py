"""The table of attacks on the console in docs/security.md, a test a row."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fairlead.web import limits
from fairlead.web.access import Access, AccessRefused, Visitor
from fairlead.wire.rpc_catalog import OPS
from tests.hosting import WAIT
from tests.web.browser import Answer, Browser, ConsoleHosting, run_as_agent

FOREIGN = ("https://evil.example", "null", "{base}.evil.example", "{base}0", "https://{host}", "")
"""Origins that are not ours: `base` is ours, `host` ours without its scheme."""


def started(console: ConsoleHosting, name: str) -> str:
    """A session of this name that shows what is typed."""
    if name not in console.hosting.sessions():
        console.hosting.start(name, "cat")
    return name


def refused_upgrade(browser: Browser, name: str | None, without: tuple[str, ...] = (), **headers: str) -> int:
    """The status with which the WebSocket of a terminal is refused, or without a name that of all events."""
    path = "/api/live" if name is None else f"/api/terminals/{name}"
    with (
        pytest.raises(InvalidStatus) as refused,
        browser.socket(path, without=without, **headers),
    ):
        pass
    return refused.value.response.status_code


@pytest.mark.parametrize("origin", [*FOREIGN, None])
def test_a_foreign_origin_is_refused(console: ConsoleHosting, browser: Browser, origin: str | None) -> None:
    without = ("Origin",) if origin is None else ()
    more = {} if origin is None else {"Origin": origin.format(base=console.base, host=browser.host)}
    for path in ("/api/ops/session_list", "/api/leave", "/api/web/share", "/in"):
        answer = browser.ask("POST", path, {}, without=without, **more)
        assert (answer.status, answer.code) == (403, "web/origin"), path
    name = started(console, "origins")
    assert refused_upgrade(browser, name, without, **more) == 403
    assert refused_upgrade(browser, None, without, **more) == 403
    assert browser.ask("GET", "/api/me").status == 200  # the cookie was good


def test_a_page_of_another_site_reads_nothing(browser: Browser) -> None:
    for site in ("cross-site", "same-site"):
        assert browser.ask("GET", "/api/me", Sec_Fetch_Site=site).status == 403
    assert browser.ask("GET", "/api/me", Origin="https://evil.example").status == 403
    assert browser.ask("GET", "/api/me", Sec_Fetch_Site="same-origin").status == 200
    answer = browser.ask("GET", "/api/me")
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_a_wrong_host_is_refused_on_requests_and_upgrades(console: ConsoleHosting, browser: Browser) -> None:
    name = started(console, "hosts")
    port = browser.port
    for host in (
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{port}",
        f"localhost.evil.example:{port}",
        f"127.0.0.1:{port}.evil.example",
        f"0.0.0.0:{port}",
    ):
        for path in ("/", "/api/me", "/in"):
            assert browser.ask("GET", path, Host=host).status == 403, (host, path)
        assert browser.ask("POST", "/api/ops/session_list", {}, Host=host).status == 403
        if "." not in host.rpartition(":")[2]:
            assert refused_upgrade(browser, name, Host=host) == 403, host
            assert refused_upgrade(browser, None, Host=host) == 403, host
    assert browser.ask("GET", "/api/me", Host=f"localhost:{port}").status == 200
    twice = raw(browser, f"GET / HTTP/1.1\r\nHost: {browser.host}\r\nHost: evil.example\r\n\r\n")
    assert twice.split()[1] in (b"400", b"403")
    assert raw(browser, "GET / HTTP/1.1\r\n\r\n").split()[1] == b"400"


def raw(browser: Browser, text: str | bytes, wait: float = WAIT) -> bytes:
    """What comes back first for some bytes."""
    with socket.create_connection(("127.0.0.1", browser.port), timeout=wait) as connection:
        connection.sendall(text if isinstance(text, bytes) else text.encode())
        return connection.recv(65_536)


ASK = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
host, cookie = f"127.0.0.1:{sys.argv[1]}", sys.argv[2]
request = f"GET /api/me HTTP/1.1\\r\\nHost: {host}\\r\\nCookie: {cookie}\\r\\nConnection: close\\r\\n\\r\\n"
connection.sendall(request.encode())
found = b""
while data := connection.recv(65536):
    found += data
print(found.split()[1].decode(), found.rpartition(b"\\r\\n")[2].decode())
"""
"""Ask who we are, with a cookie, and print the status and the body."""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_local_user_is_refused(browser: Browser) -> None:
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    done = subprocess.run(
        [python, "-c", ASK, str(browser.port), browser.cookie],
        user=65534,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert done.stdout.startswith("403 the console is for the user who started it"), done


def test_an_agents_process_is_refused_whatever_it_knows(console: ConsoleHosting, browser: Browser) -> None:
    done = run_as_agent(console.hosting, ASK, str(browser.port), browser.cookie)
    assert done.stdout.startswith("403 an agent's process may not"), done
    environment = {**console.hosting.environment, "FAIRLEAD_AGENT": "garden"}
    for words in (
        ["web"],
        ["web", "--sessions"],
        ["web", "--share", "x"],
        ["token", "ls"],
        ["web", "--stop"],
    ):
        asked = subprocess.run(
            [*console.hosting.command, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        assert (asked.returncode, asked.stdout) == (1, ""), words
        assert "only a person" in asked.stderr, asked
    assert browser.ask("GET", "/api/me").status == 200


def test_a_used_or_expired_link_lets_nobody_in(console: ConsoleHosting, tmp_path: Path) -> None:
    link = console.link()
    assert Browser(console.base).come_in(link).status == 200
    again = Browser(console.base).come_in(link)
    assert (again.status, again.code) == (403, "web/refused")
    assert "set-cookie" not in again.headers
    now = 1000.0
    access = Access(f"{tmp_path}/web.json", lambda: now)
    ticket = access.ticket()
    _, shared = access.share("work", "work", "terminal", "watcher", 3600)
    now += limits.TICKET_SECONDS + 1
    with pytest.raises(AccessRefused, match="expired"):
        access.redeem(ticket, "127.0.0.1", "", is_near=True)
    secret, visitor = access.redeem(shared, "127.0.0.1", "", is_near=True)
    with pytest.raises(AccessRefused, match="used already"):
        access.redeem(shared, "127.0.0.1", "", is_near=True)
    assert access.find(secret) is visitor
    now += 3600
    assert access.find(secret) is None
    assert isinstance(visitor, Visitor)
    assert visitor.ended.is_set()
    assert access.shares() == []


def test_tickets_can_not_be_guessed(tmp_path: Path, console: ConsoleHosting) -> None:
    access = Access(f"{tmp_path}/web.json")
    ticket = access.ticket()
    for _ in range(limits.WRONG_TRIES):
        with pytest.raises(AccessRefused, match="used already"):
            access.redeem("wrong", "192.0.2.1", "", is_near=True)
    with pytest.raises(AccessRefused, match="too many wrong tries"):
        access.redeem("wrong", "192.0.2.1", "", is_near=True)
    for each in range(limits.ALL_WRONG_TRIES):
        with pytest.raises(AccessRefused):
            access.redeem("wrong", f"198.51.100.{each}", "", is_near=True)
    with pytest.raises(AccessRefused, match="too many wrong tries"):
        access.redeem("wrong", "192.0.2.2", "", is_near=True)
    access.redeem(ticket, "192.0.2.1", "", is_near=True)  # a right one is never locked out
    browser = Browser(console.base)
    answers = [browser.come_in("#wrong").status for _ in range(3)]
    assert set(answers) <= {403, 429}


def test_another_machine_needs_a_persons_word(tmp_path: Path) -> None:
    import asyncio

    async def run() -> None:
        access = Access(f"{tmp_path}/web.json")
        ticket = access.ticket()
        proof, waiting = access.redeem(ticket, "192.0.2.1", "phone", is_near=False)
        again = access.redeem(ticket, "192.0.2.1", "phone", is_near=False, proof=proof)
        assert again == (proof, waiting)
        for wrong in ("", "wrong", proof[:-1]):  # behind a proxy or NAT addresses are the same
            with pytest.raises(AccessRefused, match="another browser"):
                access.redeem(ticket, "192.0.2.1", "thief", is_near=False, proof=wrong)
        [found] = access.waiting
        with pytest.raises(AccessRefused, match="no browser waits"):
            access.confirm("wrong", allowed=True)
        access.confirm(found.code, allowed=True)
        with pytest.raises(AccessRefused, match="another browser"):
            access.redeem(ticket, "192.0.2.1", "thief", is_near=True)
        secret, visitor = access.redeem(ticket, "192.0.2.1", "phone", is_near=False, proof=proof)
        assert access.find(secret) is visitor
        denied = access.ticket()
        proof, _ = access.redeem(denied, "192.0.2.1", "phone", is_near=False)
        access.confirm(access.waiting[0].code, allowed=False)
        with pytest.raises(AccessRefused, match="nobody let"):
            access.redeem(denied, "192.0.2.1", "phone", is_near=False, proof=proof)

    asyncio.run(run())


def test_behind_a_proxy_a_link_lets_in_only_the_browser_whose_code_was_confirmed() -> None:
    console = ConsoleHosting("--origin", "https://laptop.example", wait=False)
    try:
        browser = Browser(f"http://127.0.0.1:{console.port}")
        own: dict[str, Any] = {"Host": "laptop.example", "Origin": "https://laptop.example"}
        ticket = {"ticket": console.link().partition("#")[2]}
        waits = browser.ask("POST", "/in", ticket, **own)
        assert waits.status == 202
        data = waits.json["data"]
        wrongs: tuple[dict[str, Any], ...] = ({}, {"proof": ""}, {"proof": "wrong"}, {"proof": None})
        for wrong in wrongs:
            thief = browser.ask("POST", "/in", ticket | wrong, **own)
            assert (thief.status, thief.code) == (403, "web/refused")
        console.hosting.run("web", "--confirm", data["code"])
        assert browser.ask("POST", "/in", ticket, **own).status == 403
        entered = browser.ask("POST", "/in", ticket | {"proof": data["proof"]}, **own)
        assert entered.status == 200
        near: tuple[dict[str, Any], ...] = (
            {"Origin": "https://laptop.example"},  # a proxy that sets its own Host,
            {"Origin": browser.base},  # and one through which somebody says to be near
            {"Host": f"localhost:{browser.port}", "Origin": f"http://localhost:{browser.port}"},
        )
        for more in near:
            ticket = {"ticket": console.link().partition("#")[2]}
            assert browser.ask("POST", "/in", ticket, **more).status == 202, more
        for _ in range(limits.WRONG_TRIES):
            assert browser.ask("POST", "/in", {"ticket": "wrong"}, **own).status in (403, 429)
        assert browser.ask("POST", "/in", {"ticket": "wrong"}, **own).status == 429
        ticket = {"ticket": console.link().partition("#")[2]}
        assert browser.ask("POST", "/in", ticket, **own).status == 202
    finally:
        console.close()


def test_a_watcher_gives_no_input(console: ConsoleHosting) -> None:
    name = started(console, "watched")
    guest, _ = console.share(name, "watcher")
    with guest.terminal(name) as shown:
        assert shown.until("pen")["may"] is False
        shown.type("rm -rf\r")
        assert shown.until("error")["code"] == "web/no-pen"
        shown.say(t="take-pen")
        assert shown.until("error")["code"] == "web/role"
        shown.say(t="resize", cols=20, rows=5)
        shown.type("again\r")
        shown.until("error")
    for op in (
        "terminal_send",
        "session_prompt",
        "terminal_resize",
        "session_stop",
        "approval_settle",
        "bash",
    ):
        answer = guest.op(op, name=name)
        assert (answer.status, answer.code) == (403, "web/role"), op
    screen = guest.op("terminal_screen", name=name).data
    assert "rm -rf" not in screen["screen"]
    assert (screen["cols"], screen["rows"]) == (80, 24)


def test_a_share_sees_no_other_session(console: ConsoleHosting, browser: Browser) -> None:
    mine, other = started(console, "mine"), started(console, "others")
    guest, _ = console.share(mine, "writer")
    for op, given in (
        ("terminal_screen", {"name": other}),
        ("session_lines", {"session_id": other}),
        ("session_find", {"session-id": other}),
        ("session_diff", {"name": mine, "other": other}),
        ("session_prompt", {"name": other, "text": "x"}),
        ("terminal_send", {"name": other, "text": "x"}),
        ("timeline", {"name": other}),
    ):
        answer = guest.op(op, **given)
        assert answer.status == 403, (op, answer)
    assert [each["id"] for each in guest.op("session_list").data["sessions"]] == [mine]
    assert guest.op("session_find").data["session"]["id"] == mine
    assert refused_upgrade(guest, other) == 403
    assert guest.ask("GET", f"/api/events?session={other}").status == 403
    assert guest.ask("GET", f"/api/recordings/{other}").status == 403
    for path in ("/api/web/sessions", "/metrics", "/api/openapi.json"):
        assert guest.ask("GET", path).status == 403, path
    for path in ("/api/web/revoke", "/api/web/share", "/api/web/confirm"):
        assert guest.ask("POST", path, {}).status == 403, path
    with guest.terminal(mine) as shown:
        shown.say(t="take-pen")
        shown.until("pen", mine=True)


def test_what_is_open_ends_when_it_is_revoked(console: ConsoleHosting) -> None:
    name = started(console, "revoked")
    guest, share = console.share(name, "watcher")
    with guest.terminal(name) as shown, guest.events() as events:
        shown.until("redraw")
        assert next(events)["event"] == "hello"
        console.hosting.run("web", "--revoke", share)
        assert shown.until("error")["code"] == "web/no-session"
        with pytest.raises(ConnectionClosed) as closed:
            shown.take()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
        assert list(events) == []
    assert guest.ask("GET", "/api/me").status == 401
    assert refused_upgrade(guest, name) == 401
    assert refused_upgrade(guest, None) == 401


def test_a_share_ends_with_its_session(console: ConsoleHosting) -> None:
    name = started(console, "former")
    guest, _ = console.share(name, "watcher")
    assert guest.op("terminal_screen").status == 200
    console.hosting.run("stop", name)
    console.hosting.start(name, "echo secret; cat")
    console.hosting.until(lambda: guest.ask("GET", "/api/me").status == 401)
    assert refused_upgrade(guest, name) == 401
    assert refused_upgrade(guest, None) == 401


def test_a_share_resolves_no_name_again(console: ConsoleHosting, browser: Browser) -> None:
    """An agent's session gets another name, and a terminal its former one."""
    home = console.hosting.environment["HOME"]
    id = browser.op("open_session", name="zed", cwd=home).data["session_id"]
    guest, _ = console.share("zed", "writer")
    assert browser.op("set_session_name", session_id=id, name="yy").status == 200
    console.hosting.start("zed", "echo sec''ret; cat")
    for name in ("zed", id):
        assert refused_upgrade(guest, name) == 404, name
        assert guest.ask("GET", f"/api/recordings/{name}").status == 404, name
        assert guest.op("terminal_screen", name=name).status == 404, name
        assert guest.op("terminal_send", name=name, text="x").status == 404, name
    found = guest.op("session_find", name="zed")
    if found.status == 200:
        assert (found.data["session"]["id"], found.data["session"]["kind"]) == (id, "agent")
    lines = guest.op("session_lines")
    assert "secret" not in str(lines)
    terminal = started(console, "plain")
    other, _ = console.share(terminal, "writer")
    agent = browser.op("open_session", cwd=home).data["session_id"]
    console.hosting.run("stop", terminal)
    console.hosting.until(lambda: other.op("session_find").status != 200)
    assert browser.op("set_session_name", session_id=agent, name=terminal).status == 200
    for op, given in (("session_find", {}), ("session_lines", {}), ("prompt", {"message": "x"})):
        answer = other.op(op, **given)
        assert (answer.status, answer.code) == (404, "request/not-found"), answer
    assert other.op("session_prompt", name=terminal, text="x").status == 404
    assert other.ask("GET", f"/api/events?session={terminal}").status == 404
    assert other.ask("GET", f"/api/recordings/{terminal}").status == 404
    assert browser.op("get_messages", session_id=agent).data["total"] == 0


def test_paths_lead_nowhere_else(browser: Browser) -> None:
    for path in (
        "/static/../../access.py",
        "/static/%2e%2e/%2e%2e/access.py",
        "/static/..%2f..%2faccess.py",
        "//etc/passwd",
        "/..%5c..%5cetc/passwd",
        "/static/0000000000000000/app.js%00",
        "/in/../api/web/sessions/..",
    ):
        assert browser.ask("GET", path).status == 404, path
    for path in ("/api/recordings/..%2f..%2f..%2fetc%2fpasswd", "/api/recordings/%2fetc%2fpasswd"):
        assert browser.ask("GET", path).status == 404, path
    for name in ("..%2f..%2frpc", "%2fetc%2fpasswd", "x%00y"):
        assert refused_upgrade(browser, name) == 404, name


def test_what_is_too_big_is_refused(console: ConsoleHosting, browser: Browser) -> None:
    long = browser.ask("POST", "/api/ops/session_list", b" " * (limits.MAX_BODY + 1))
    assert (long.status, long.code) == (413, "web/too-big")
    ticket = Browser(console.base).ask("POST", "/in", {"ticket": "x" * limits.MAX_TICKET_BODY})
    assert ticket.status == 413
    head = f"GET / HTTP/1.1\r\nHost: {browser.host}\r\nX-Long: {'x' * 4 * limits.MAX_HEADER}\r\n\r\n"
    found = raw(browser, head)
    assert found.split()[1] in (b"400", b"431")
    name = started(console, "frames")
    with browser.terminal(name) as shown:
        shown.until("redraw")
        shown.connection.send(b"x" * (limits.MAX_KEYS + 1))
        with pytest.raises(ConnectionClosed) as closed:
            shown.until("nothing more")
        # what was sent and not read makes the kernel reset the connection, perhaps before the code arrives
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
    deep = browser.ask("POST", "/api/ops/session_list", b"[" * 100_000)
    assert deep.status == 400
    assert browser.ask("GET", "/api/me").status == 200


def test_slow_requests_are_ended(browser: Browser) -> None:
    body = f"POST /in HTTP/1.1\r\nHost: {browser.host}\r\nOrigin: {browser.base}\r\n"
    body += "Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
    texts = ("", "GET / HTTP/1.1\r\nHost: ", body)
    connections = [socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT) for _ in texts]
    for connection, text in zip(connections, texts):
        connection.sendall(text.encode())
    for connection in connections:
        connection.settimeout(limits.BODY_SECONDS + WAIT)
        found = connection.recv(4096)
        assert found.split()[1] == b"408", found
        connection.close()


def test_a_body_that_goes_on_slowly_after_the_answer_is_ended(browser: Browser) -> None:
    head = f"POST /in HTTP/1.1\r\nHost: {browser.host}\r\nOrigin: {browser.base}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {limits.MAX_TICKET_BODY + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT) as connection:
        connection.sendall(head.encode())
        assert connection.recv(4096).split()[1] == b"413"
        began = time.monotonic()
        connection.settimeout(limits.LINGER_SECONDS / 4)
        while time.monotonic() - began < WAIT:
            with contextlib.suppress(TimeoutError):
                try:
                    connection.sendall(b" ")
                    if not connection.recv(4096):
                        break
                except ConnectionError:
                    break
        assert time.monotonic() - began < limits.HEADER_SECONDS
    body = b"x" * 100_000  # one that comes whole after all leaves the connection to the next request
    more = f"Host: {browser.host}\r\nOrigin: {browser.base}\r\n"
    request = f"POST /nothing HTTP/1.1\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT) as connection:
        connection.sendall(request + body[:10])
        assert connection.recv(4096).split()[1] == b"404"
        connection.sendall(body[10:] + f"GET /healthz HTTP/1.1\r\nHost: {browser.host}\r\n\r\n".encode())
        found = b""
        while b"HTTP/1.1 200" not in found:
            found += (data := connection.recv(4096))
            assert data, found


def test_no_post_does_anything_for_a_form_of_another_site(browser: Browser) -> None:
    paths = [f"/api/ops/{op}" for op in OPS]
    paths += ["/in", "/api/leave", "/api/web/revoke", "/api/web/share", "/api/web/confirm"]
    for path in paths:
        for kind in ("application/x-www-form-urlencoded", "text/plain"):
            answer = browser.ask("POST", path, b"{}", Origin="https://evil.example", Content_Type=kind)
            assert answer.status == 403, path
    for path in paths[:-5]:  # and from our own pages a form is no JSON
        answer = browser.ask("POST", path, b"a=1", Content_Type="application/x-www-form-urlencoded")
        assert answer.status in (404, 415), path
    assert browser.ask("GET", "/api/me").status == 200


def test_every_answer_says_what_browsers_may_do_with_it(console: ConsoleHosting, browser: Browser) -> None:
    answers: list[Answer] = [
        browser.ask("GET", path) for path in ("/", "/in", "/sw.js", "/api/me", "/nothing", "/healthz")
    ]
    answers += [browser.ask("GET", "/", Host="evil.example"), browser.op("absent")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers
    assert browser.ask("GET", "/api/me").headers["cache-control"] == "no-store"


def test_the_cookie_is_for_our_own_pages_only(console: ConsoleHosting) -> None:
    browser = Browser(console.base)
    answer = browser.come_in(console.link())
    flags = [each.strip() for each in answer.headers["set-cookie"].split(";")[1:]]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags)
    assert not any(each.startswith("Domain") for each in flags)
    assert browser.cookie.startswith(f"fairlead-{browser.port}=")
    stranger = Browser(console.base)
    stranger.cookie = browser.cookie[:-1] + ("A" if browser.cookie[-1] != "A" else "B")
    assert stranger.ask("GET", "/api/me").status == 401


def test_cookies_that_let_in_two_visitors_let_in_nobody(console: ConsoleHosting, browser: Browser) -> None:
    name = started(console, "tossed")
    guest, _ = console.share(name, "watcher")
    own, key = browser.cookie, browser.cookie.partition("=")[0]
    for cookies in ((guest.cookie, own), (own, guest.cookie)):
        browser.cookie = "; ".join(cookies)
        answer = browser.ask("GET", "/api/me")
        assert (answer.status, answer.code) == (400, "web/cookies")
        assert browser.op("session_list").code == "web/cookies"
        assert refused_upgrade(browser, name) == 400
    # what lets in nobody does not count, however much of it there is and wherever it stands
    browser.cookie = "; ".join([*(f"{key}=x{each}" for each in range(100)), own, own])
    assert browser.ask("GET", "/api/me").data["role"] == "owner"
    browser.cookie = "; ".join([*(f"{key}=x{each}" for each in range(300)), own])
    assert browser.ask("GET", "/api/me").code == "web/cookies"
    browser.cookie = own


def test_no_secret_is_in_a_log_or_a_file(console: ConsoleHosting) -> None:
    link = console.link()
    browser = Browser(console.base)
    browser.come_in(link)
    made = json.loads(console.hosting.run("token", "--json").stdout)
    program = Browser(console.base)
    program.token = made["token"]
    assert program.op("session_list").status == 200
    program.ask("GET", f"/api/me?token={made['token']}")
    secrets = (link.partition("#")[2], browser.cookie.partition("=")[2], made["token"])
    for path in console.hosting.directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for secret in secrets:
                assert secret.encode() not in data, path
    assert "POST /in 200" in console.log()


def test_a_token_does_what_its_scope_says(console: ConsoleHosting) -> None:
    name = started(console, "scoped")
    for scope, may_send in (("read", False), ("answer", False), ("all", True)):
        made = json.loads(console.hosting.run("token", "--scope", scope, "--json").stdout)
        program = Browser(console.base)
        program.token = made["token"]
        assert program.op("session_list").status == 200, scope
        sent = program.op("terminal_send", name=name, text="x")
        assert sent.status == (200 if may_send else 403), scope
        settled = program.op("approval_settle", token="absent00", allowed=False)
        assert settled.status == (403 if scope == "read" else 404), scope
        assert program.ask("GET", "/metrics").status == 200
        program.cookie = "x=y"
        assert program.ask("POST", "/api/ops/session_list", {}, Origin="null").status == 403
        assert made["id"] in console.hosting.run("token", "ls").stdout
        console.hosting.run("token", "rm", made["id"])
        program.cookie = ""
        assert program.op("session_list").status == 401


def test_a_book_that_others_could_write_lets_nobody_in(tmp_path: Path) -> None:
    path = f"{tmp_path}/web.json"
    access = Access(path)
    secret, _ = access.redeem(access.ticket(), "127.0.0.1", "", is_near=True)
    assert Access(path).find(secret) is not None
    os.chmod(path, 0o666)
    assert Access(path).find(secret) is None
    os.chmod(path, 0o600)
    Path(path).write_text("{")
    assert Access(path).find(secret) is None


def test_floods_of_connections_are_bounded(console: ConsoleHosting, browser: Browser) -> None:
    connections = []
    try:
        for _ in range(limits.MAX_CONNECTIONS + 20):
            connections.append(socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT))
        console.hosting.until(lambda: browser.ask("GET", "/api/me").status == 200)  # while all are held
        ended, _, _ = select.select(connections, [], [], WAIT)  # refused, or dropped for later ones
        assert len(ended) >= 20
    finally:
        for connection in connections:
            connection.close()


def test_a_session_that_an_agent_typed_into_is_refused_too(console: ConsoleHosting, browser: Browser) -> None:
    """Its processes bear no mark: the daemon says whose they are."""
    console.hosting.start("lent", "exec sh")
    script = f"{console.hosting.directory}/ask.py"
    Path(script).write_text(ASK)
    command = f"{sys.executable} {script} {browser.port} {browser.cookie}; echo do''ne"
    console.hosting.run("send", "lent", command, "-k", "Enter")
    console.hosting.wait_text("lent", "done")
    assert '"role":"owner"' in console.hosting.screen("lent").replace("\n", "")
    words = ["-m", "fairlead", "send", "lent", "clear", "-k", "Enter"]
    run_as_agent(console.hosting, f"import os, sys; os.execv(sys.executable, [sys.executable, *{words}])")
    console.hosting.run("send", "lent", command.replace("do''ne", "ag''ain"), "-k", "Enter")
    console.hosting.wait_text("lent", "again")
    assert "403 an agent's process may not use the console" in console.hosting.screen("lent")


def test_a_share_of_an_agent_session_is_one_of_that_session(
    console: ConsoleHosting, browser: Browser
) -> None:
    home = console.hosting.environment["HOME"]
    ids = [browser.op("open_session", name=name, cwd=home).data["session_id"] for name in ("roses", "weeds")]
    guest, _ = console.share("roses", "writer")
    assert guest.ask("GET", "/api/me").data["share"]["session"] == ids[0]
    with guest.events(f"?session={ids[0]}") as events:
        assert guest.op("prompt", message="hello").status == 200
        for event in events:
            if event["data"].get("topic") == "session/turn-ended":
                break
    assert guest.op("get_messages").data["total"] >= 2
    assert guest.op("get_messages", session_id=ids[1]).status == 403
    assert guest.op("prompt", session_id=ids[1], message="hello").status == 403
    assert guest.op("command", text="/run id").status == 403
    assert guest.ask("GET", f"/api/events?session={ids[1]}").status == 403
    assert browser.op("get_messages", session_id=ids[1]).data["total"] == 0
