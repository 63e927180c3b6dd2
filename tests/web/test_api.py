"""The HTTP API for programs: its description, counts, recordings, TLS, and that nothing makes it fail."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from fairlead.web.places import listening_at
from fairlead.web.roles import NOT_OVER_HTTP, OPS_OF
from fairlead.wire.rpc_catalog import OPS
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting

WRONG: tuple[object, ...] = (
    "",
    "x" * 300,
    -1,
    2**70,
    1.5,
    True,
    [],
    [1],
    {},
    {"a": {"b": []}},
    "\u0000",
    "\ud800",
)


def test_the_description_has_every_op_with_its_parameters(browser: Browser) -> None:
    found = browser.ask("GET", "/api/openapi.json").json
    assert found["openapi"] == "3.1.0"
    paths = {path for path in found["paths"] if path.startswith("/api/ops/")}
    assert paths == {f"/api/ops/{op}" for op in OPS if op not in NOT_OVER_HTTP}
    start = found["paths"]["/api/ops/terminal_start"]["post"]
    schema = start["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["name", "argv"]
    assert schema["properties"]["argv"]["items"] == {"type": "string"}
    assert schema["properties"]["cols"] | {"description": ""} == {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": 65535,
        "description": "",
    }
    screen = found["paths"]["/api/ops/terminal_screen"]["post"]["requestBody"]["content"]
    assert "cells" in screen["application/json"]["schema"]["properties"]["format"]["enum"]


def test_every_op_of_a_role_is_one_of_the_table() -> None:
    for role, ops in OPS_OF.items():
        assert ops <= set(OPS) - NOT_OVER_HTTP, role
    assert OPS_OF["watcher"] < OPS_OF["writer"] < OPS_OF["owner"]
    assert all(OPS[op].reads for op in OPS_OF["watcher"] | OPS_OF["reader"])


def test_nothing_that_is_asked_makes_the_console_fail(console: ConsoleHosting, browser: Browser) -> None:
    harmless = sorted(OPS_OF["owner"] - {"notify", "bash", "worktree_add", "open_session"})
    for op in harmless:
        names = (*OPS[op].required, *OPS[op].optional)
        bodies: list[object] = [
            {},
            {"unknown": 1},
            *({name: WRONG[at % len(WRONG)]} for at, name in enumerate(names)),
        ]
        bodies.append({name: WRONG[(at + len(op)) % len(WRONG)] for at, name in enumerate(names)})
        for body in bodies:
            if op in ("approval_seen", "session_list") and body == {}:
                continue
            given = {key: 0.1 if key == "timeout" else value for key, value in dict(body).items()}  # type: ignore[call-overload]
            answer = browser.op(op, **given)
            assert answer.status not in (500, 503, 504), (op, given, answer)
            assert answer.json["ok"] is (answer.status == 200)
    assert "Traceback" not in console.log()


def test_counts_are_for_prometheus(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("counted", "cat")
    browser.op("session_list")
    text = browser.ask("GET", "/metrics").body.decode()
    assert "fairlead_daemon_up 1\n" in text
    assert 'fairlead_sessions{kind="terminal",state="' in text
    assert 'fairlead_web_ops_total{op="session_list",status="200"}' in text
    for line in text.splitlines():
        assert line.startswith("# ") or float(line.rpartition(" ")[2]) >= 0
    console.hosting.run("stop", "counted")


def test_a_recording_is_downloaded(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("taped", "echo on-tape; cat", "--record")
    console.hosting.wait_text("taped", "on-tape")
    console.hosting.until(lambda: b"on-tape" in browser.ask("GET", "/api/recordings/taped").body)
    answer = browser.ask("GET", "/api/recordings/taped")
    assert answer.headers["content-type"] == "application/x-asciicast"
    assert json.loads(answer.body.splitlines()[0])["version"] in (2, 3)
    console.hosting.run("record", "taped", "--stop")
    whole = browser.ask("GET", "/api/recordings/taped").body  # it is still there for who plays it
    assert whole.startswith(answer.body[:40])
    for asked, part in (("0-9", whole[:10]), (f"{len(whole) - 4}-", whole[-4:]), ("-7", whole[-7:])):
        found = browser.ask("GET", "/api/recordings/taped", Range=f"bytes={asked}")
        assert (found.status, found.body) == (206, part)
        assert found.headers["content-range"].endswith(f"/{len(whole)}")
    beyond = browser.ask("GET", "/api/recordings/taped", Range=f"bytes={len(whole)}-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(whole)}")
    assert browser.ask("GET", "/api/recordings/taped", Range="bytes=5-1").body == whole
    console.hosting.start("untaped", "cat")
    assert browser.ask("GET", "/api/recordings/untaped").status == 404
    assert browser.ask("GET", "/api/recordings/absent").status == 404
    console.hosting.run("stop", "taped", "untaped")


def test_a_whole_report_is_there_for_who_may_see_it(console: ConsoleHosting, browser: Browser) -> None:
    answer = browser.op("verify_report", report=1)
    assert (answer.status, answer.code) == (404, "request/not-found")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1, with its key beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    directory = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=here"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(words, cwd=directory, check=True, capture_output=True)
    return directory / "cert.pem"


def test_with_tls_the_cookie_is_secure(certificate: Path) -> None:
    key = certificate.with_name("key.pem")
    words = ("--listen", "127.0.0.1:0", "--cert", str(certificate), "--key", str(key))
    console = ConsoleHosting(*words, wait=False)
    try:
        link = console.link()
        assert link.startswith("https://127.0.0.1:")
        port = int(console.base.rpartition(":")[2])
        trusted = ssl.create_default_context(cafile=str(certificate))
        connection = HTTPSConnection("127.0.0.1", port, context=trusted, timeout=WAIT)
        headers = {"Origin": console.base, "Content-Type": "application/json"}
        connection.request("POST", "/in", json.dumps({"ticket": link.partition("#")[2]}), headers)
        answer = connection.getresponse()
        assert answer.status == 200
        assert "Secure" in str(answer.headers["set-cookie"])
        assert "max-age" in str(answer.headers["strict-transport-security"])
        answer.read()
        plain = {**headers, "Origin": console.base.replace("https", "http")}
        connection.request("POST", "/in", json.dumps({"ticket": "x"}), plain)
        assert connection.getresponse().status == 403
        connection.close()
    finally:
        console.close()


def test_beyond_this_machine_it_is_said_what_is_missing() -> None:
    console = ConsoleHosting("--listen", "0.0.0.0:0", "--insecure", wait=False)
    try:
        again = console.hosting.run("web", "--no-open")
        assert "no TLS" in again.stderr
        assert "--confirm" in again.stdout
    finally:
        console.close()
    hosting = ConsoleHosting("--origin", "https://laptop.example.ts.net", wait=False)
    try:
        ticket = {"ticket": hosting.link().partition("#")[2]}
        port = hosting.port
        browser = Browser(f"http://127.0.0.1:{port}")
        proxied: dict[str, Any] = {"Host": "laptop.example.ts.net", "Origin": "https://laptop.example.ts.net"}
        waits = browser.ask("POST", "/in", ticket, **proxied)
        assert (waits.status, waits.json["data"]["wait"]) == (202, True)
        found = json.loads(hosting.hosting.run("web", "--sessions", "--json").stdout)
        assert [each["code"] for each in found["waiting"]] == [waits.json["data"]["code"]]
        hosting.hosting.run("web", "--confirm", waits.json["data"]["code"])
        proof = {"proof": waits.json["data"]["proof"]}
        entered = browser.ask("POST", "/in", ticket | proof, **proxied)
        assert entered.status == 200
        assert "Secure" in entered.headers["set-cookie"]
        other = {"ticket": hosting.link().partition("#")[2]}
        assert browser.ask("POST", "/in", other, X_Forwarded_For="192.0.2.7").status == 202
    finally:
        hosting.close()
    behind = listening_at("127.0.0.1:7433", origin="https://laptop.example.ts.net")
    assert behind.origins(7433) >= {"https://laptop.example.ts.net", "http://127.0.0.1:7433"}
    assert behind.base(7433) == "https://laptop.example.ts.net"


def test_metrics_have_those_of_the_fleet_while_its_process_runs(
    console: ConsoleHosting, browser: Browser
) -> None:
    written = Path(console.hosting.environment["XDG_RUNTIME_DIR"], "fairlead/fleet.prom")
    line = 'fairlead_fleet_host_lag{host="workbox"} 3'
    assert line not in browser.ask("GET", "/metrics").body.decode()
    try:
        written.write_text(f"{line}\n")
        assert line in browser.ask("GET", "/metrics").body.decode().splitlines()
        os.utime(written, (1, 1))  # nobody has written it for long
        assert line not in browser.ask("GET", "/metrics").body.decode()
    finally:
        written.unlink()
