"""The description of the HTTP API: what schemathesis makes of it is answered as it says, and nothing fails.

Programs that it starts find nothing to run: their PATH is empty, and all happens in a home of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlead.web.described import openapi
from tests import peers
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting

SECONDS = 40
"""How long schemathesis takes; with its start and the console's that is a minute."""
EXAMPLES = 6
"""How many requests it makes up for each op at a time."""
STREAM = "/api/events"
"""The one answer that has no end."""
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
)
"""All but two: values have rules that no schema tells, such as that a directory exists; and without a header
a request is refused for its origin (403) before anybody asks who makes it (401)."""
CONFIGURATION = """\
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503, 504]
"""


def schema_of(op: str) -> dict[str, Any]:
    found: dict[str, Any] = openapi()["paths"][f"/api/ops/{op}"]["post"]["requestBody"]
    return found


def test_what_an_op_takes_is_described_as_it_is_checked() -> None:
    find, listing = schema_of("session_find"), schema_of("session_list")
    assert (find["required"], listing["required"]) == (True, False)
    schema = find["content"]["application/json"]["schema"]
    assert [each["required"] for each in schema["anyOf"]] == [["name"], ["session_id"]]
    properties = listing["content"]["application/json"]["schema"]["properties"]
    assert properties["brief"]["type"] == ["boolean", "null"]
    report = schema_of("verify_report")["content"]["application/json"]["schema"]["properties"]["report"]
    assert (report["minimum"], report["maximum"]) == (0, 2**63 - 1)
    argv = schema_of("terminal_start")["content"]["application/json"]["schema"]["properties"]["argv"]
    assert argv["minItems"] == 1


def test_whoever_asks_without_being_let_in_is_answered_as_described(console: ConsoleHosting) -> None:
    stranger = Browser(console.base)
    for path, methods in openapi()["paths"].items():
        if "get" not in methods:
            continue
        answer = stranger.ask("GET", path.replace("{id}", "x"))
        wanted = 200 if methods["get"].get("security") == [] else 401
        assert (path, answer.status) == (path, wanted)
        assert str(answer.status) in methods["get"]["responses"]


def test_a_whole_number_may_have_a_point_as_json_has_no_integers(browser: Browser) -> None:
    assert browser.op("timeline", session_id="none", limit=5.0).status == 404
    assert browser.op("timeline", session_id="none", limit=5.5).status == 400


@pytest.mark.peers
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    peers.python_with("schemathesis")
    program = Path(peers.__file__).parents[1] / ".venv/peers/bin/schemathesis"
    (tmp_path / "nothing").mkdir()
    console = ConsoleHosting(settings={"PATH": str(tmp_path / "nothing")})
    try:
        browser = console.browser()
        description = tmp_path / "openapi.json"
        description.write_bytes(browser.ask("GET", "/api/openapi.json").body)
        configuration = tmp_path / "schemathesis.toml"
        configuration.write_text(CONFIGURATION)
        words = ("token", "--scope", "all", "--for", "1h", "--json")
        token = json.loads(console.hosting.run(*words).stdout)["token"]
        done = subprocess.run(
            [
                *(str(program), "--config-file", str(configuration), "--no-color", "run", str(description)),
                *("--url", console.base, "--header", f"Authorization: Bearer {token}"),
                *("--exclude-path", STREAM, "--checks", ",".join(CHECKS), "--continue-on-failure"),
                *("--phases", "examples,coverage,fuzzing", "--max-time", str(SECONDS), "--no-shrink"),
                *("--max-examples", str(EXAMPLES), "--seed", "1", "--request-timeout", str(WAIT)),
            ],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=8 * WAIT,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
        tested = re.search(r"Tested: +(\d+)", done.stdout)
        assert tested is not None, done.stdout
        assert int(tested[1]) == len(openapi()["paths"]) - 1
        metrics = browser.ask("GET", "/metrics").body.decode()
        assert re.search(r"^fairlead_web_errors_total 0$", metrics, re.MULTILINE), metrics
        assert "Traceback" not in console.log()
        assert "Traceback" not in console.hosting.log()
    finally:
        console.close()
