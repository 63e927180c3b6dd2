"""Secrets do not reach commands, results or updates."""

import asyncio
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.models import ToolSpec
from fairlead.agent.secrets import (
    MIN_BEGUN,
    REDACTED,
    Redactor,
    environment_for_commands,
    is_secret_file,
    is_secret_name,
    secret_values,
)
from fairlead.agent.tools import Guarded, Result, ToolContext, Touch

KEY = "sk-proj-0123456789"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "MYSQL_PWD",
        "DB_PASS",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "my_secret",
        "TOKEN2",
        "OPENAI_ORG_ID",
    ],
)
def test_a_variable_that_is_named_like_a_secret_is_one(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "KEYBOARD", "TOKENIZERS_PARALLELISM", "LANG", "TERM"],
)
def test_an_ordinary_variable_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_commands_get_no_secrets_and_no_pager() -> None:
    environ = {"PATH": "/bin", "OPENAI_API_KEY": KEY, "SSH_AUTH_SOCK": "/run/s", "MINE": "x", "TERM": "dumb"}
    environment = environment_for_commands(environ, also=["MINE"])
    assert environment["PATH"] == "/bin"
    assert environment["SSH_AUTH_SOCK"] == "/run/s"
    assert environment["PAGER"] == environment["GIT_PAGER"] == "cat"
    assert environment["TERM"] == "xterm-256color"
    assert not {"OPENAI_API_KEY", "MINE"} & environment.keys()


def test_the_password_of_an_address_counts_as_a_secret() -> None:
    environ = {"DATABASE_URL": "postgres://me:hunter2%21hunter@db/x", "HOME": "/home/me"}
    assert secret_values(environ) == {"hunter2%21hunter", "hunter2!hunter"}


@pytest.mark.parametrize(
    "path",
    [".env", "a/.ENV", ".env.local", "id_rsa", "x/server.pem", ".netrc", "credentials", "home/.ssh/config"],
)
def test_a_file_that_is_named_like_a_secret_is_one(path: str) -> None:
    assert is_secret_file(PurePath(path))


@pytest.mark.parametrize(
    "path", ["README.md", ".env.example", "secrets.py", "id_rsa.pub", "environment.py", "."]
)
def test_an_ordinary_file_is_no_secret(path: str) -> None:
    assert not is_secret_file(PurePath(path))


def test_a_short_value_is_not_taken_out() -> None:
    assert Redactor(["no", "1234567"]).text("no 1234567") == "no 1234567"


def test_of_two_values_that_begin_alike_the_longer_one_is_taken_out_whole() -> None:
    assert Redactor(["abcdefgh", "abcdefgh-more"]).text("<abcdefgh-more>") == f"<{REDACTED}>"


def test_each_line_of_a_key_with_many_lines_is_taken_out() -> None:
    key = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA\nqwertyuiop\n-----END KEY-----\n"
    assert "MIIE" not in Redactor([key]).text("line 2 is MIIEowIBAAKCAQEA")
    assert "qwerty" not in Redactor([key]).text(key.replace("\n", "\r\n"))


def test_what_json_can_hold_is_cleaned_in_all_its_depth() -> None:
    value = {"a": [KEY, {"b": f"x{KEY}"}], KEY: 1, "n": None, "t": (KEY,)}
    cleaned = Redactor([KEY]).value(value)
    assert KEY not in repr(cleaned)
    assert cleaned == {"a": [REDACTED, {"b": f"x{REDACTED}"}], REDACTED: 1, "n": None, "t": (REDACTED,)}


def test_its_repr_has_no_secret() -> None:
    assert KEY not in repr(Redactor([KEY]))


@given(st.text(), st.text(), st.text(alphabet="abcXYZ-_0189", min_size=8))
def test_no_text_around_a_secret_keeps_it_from_being_found(before: str, after: str, secret: str) -> None:
    assert secret not in Redactor([secret]).text(before + secret + after).replace(REDACTED, "\n")


@given(st.integers(0, len(KEY)))
def test_unfinished_text_never_ends_with_the_beginning_of_a_secret(length: int) -> None:
    shown = Redactor([KEY]).unfinished(f"key: {KEY[:length]}")
    assert len(shown.removeprefix("key: ").removesuffix(REDACTED)) < MIN_BEGUN


class _Teller:
    """A tool that gives away a key wherever it can."""

    spec = ToolSpec("teller", "", {})

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        return Touch("read", f"tell {KEY}", preview=KEY)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        context.update(f"so far: {KEY}", {"key": KEY})
        if arguments.get("fails"):
            raise ValueError(f"no such thing: {KEY}")
        return Result(KEY, {"keys": [KEY]})


@pytest.mark.parametrize("fails", [False, True])
def test_a_guarded_tool_tells_no_secret_in_any_way(fails: bool, tmp_path: Path) -> None:
    told: list[Any] = []
    tool = Guarded(_Teller(), Redactor([KEY]))

    async def call() -> Result:
        context = ToolContext(tmp_path, "s", "c", lambda *update: told.append(update), asyncio.Event(), {})
        return await tool.run({"fails": fails}, context)

    result = asyncio.run(call())
    assert result.is_error is fails
    assert KEY not in repr((result, told, tool.touches({}, tmp_path)))
    assert told == [(f"so far: {REDACTED}", {"key": REDACTED})]
