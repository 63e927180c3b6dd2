"""find and grep, with ripgrep if it is there and with the stand-in for it."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.consent.policy import ConsentRule, Policy
from fairlead.agent.secrets import Redactor, environment_for_commands
from fairlead.agent.tools import Result, run_tool, search
from fairlead.agent.tools.globs import escaped, matcher
from fairlead.agent.tools.search import MAX_LINE, Find, Grep
from tests.agent.tooling import context_in
from tests.peers import require


@pytest.fixture(params=["ripgrep", "stand-in"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with ripgrep, or without it."""
    if request.param == "stand-in":
        return str(tmp_path_factory.mktemp("empty"))
    return os.path.dirname(require("rg"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with things to be left out."""
    files = {
        ".gitignore": "*.log\n/build/\nnode_modules/\n!keep.log\n",
        "README.md": "Hello project\n",
        "src/main.py": "import os\n\n\ndef main():\n    print('Hello')\n",
        "src/deep/er/other.py": "def other():\n    return 'hello'\n",
        "src/.gitignore": "generated.py\n",
        "src/generated.py": "Hello\n",
        "src/build/kept.py": "x = 1\n",
        "build/out.py": "Hello\n",
        "node_modules/m/index.js": "Hello\n",
        "trace.log": "Hello\n",
        "keep.log": "kept\n",
        ".env": "KEY=Hello-secret\n",
        ".github/ci.yml": "name: ci\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "data.bin").write_bytes(b"Hello\0\xff\xfe" * 10)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def call(tool: Any, cwd: Path, path: str, /, **arguments: Any) -> Result:
    async def run() -> Result:
        environment = {**environment_for_commands(os.environ), "PATH": path}
        return await run_tool(tool, arguments, context_in(cwd, environment=environment), Redactor())

    return asyncio.run(run())


def test_find_gives_matching_files_in_order_without_ignored_ones(project: Path, path: str) -> None:
    result = call(Find(), project, path, pattern="*.py")
    assert not result.is_error
    assert result.text.splitlines() == ["src/build/kept.py", "src/deep/er/other.py", "src/main.py"]
    assert call(Find(), project, path, pattern="*.log").text == "keep.log"
    assert call(Find(), project, path, pattern="*.js").text == "[No file matches.]"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("src/*.py", ["src/main.py"]),
        ("src/**/*.py", ["src/build/kept.py", "src/deep/er/other.py", "src/main.py"]),
        ("**/er/*", ["src/deep/er/other.py"]),
        ("*.{md,yml}", [".github/ci.yml", "README.md"]),
        ("[Rr]eadme.*", []),
        ("[Rr]EADME.*", ["README.md"]),
    ],
)
def test_find_understands_globs(pattern: str, found: list[str], project: Path, path: str) -> None:
    text = call(Find(), project, path, pattern=pattern).text
    assert text.splitlines() == (found or ["[No file matches.]"])


def test_find_in_a_directory_follows_the_rules_of_those_above(project: Path, path: str) -> None:
    assert call(Find(), project, path, pattern="*", path="src/deep").text == "src/deep/er/other.py"
    assert "generated" not in call(Find(), project, path, pattern="*", path="src").text
    assert "is not a directory" in call(Find(), project, path, pattern="*", path="README.md").text
    assert call(Find(), project, path, pattern="*", path="missing").is_error


def test_find_says_when_there_is_more(project: Path, path: str) -> None:
    result = call(Find(), project, path, pattern="*.py", limit=2)
    assert result.text.splitlines()[2] == "[There are more than 2 files; use a narrower pattern.]"
    assert result.details["truncated"]


def test_find_respects_ignore_files_without_a_repository(tmp_path: Path, path: str) -> None:
    (tmp_path / ".gitignore").write_text("secret*\n")
    (tmp_path / "secret.txt").touch()
    (tmp_path / "open.txt").touch()
    assert call(Find(), tmp_path, path, pattern="*.txt").text == "open.txt"


def test_links_are_not_followed(project: Path, path: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "found.py").write_text("Hello from outside\n")
    (project / "link").symlink_to(outside)
    (project / "link.py").symlink_to(outside / "found.py")
    assert "link" not in call(Find(), project, path, pattern="*.py").text
    assert "outside" not in call(Grep(), project, path, pattern="Hello").text


def test_names_are_seen_from_a_project_that_is_reached_by_a_link(
    project: Path, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(project)

    async def run(tool: Any, **arguments: Any) -> str:
        context = context_in(project, environment={"PATH": path})
        context.cwd = link
        return (await run_tool(tool, arguments, context, Redactor())).text

    assert asyncio.run(run(Find(), pattern="*.md")) == "README.md"
    assert asyncio.run(run(Find(), pattern="main*", path="src")) == "src/main.py"
    assert asyncio.run(run(Grep(), pattern="project")) == "README.md:1: Hello project"


def test_grep_gives_path_line_and_text(project: Path, path: str) -> None:
    result = call(Grep(), project, path, pattern="Hell.")
    assert result.text.splitlines() == ["README.md:1: Hello project", "src/main.py:5:     print('Hello')"]
    assert result.details["matches"] == 2


def test_grep_leaves_files_with_secrets_out_unless_one_is_named(project: Path, path: str) -> None:
    assert "secret" not in call(Grep(), project, path, pattern="Hello").text
    assert "secret" not in call(Grep(), project, path, pattern="Hello", glob=".env").text
    assert call(Grep(), project, path, pattern="Hello", path=".env").text == ".env:1: KEY=Hello-secret"
    assert Grep().touches({"pattern": "x", "path": ".env"}, project).paths[0].name == ".env"


def test_grep_leaves_out_what_a_rule_keeps_from_being_read(project: Path, path: str) -> None:
    rules = ConsentRule("read", "deny", path="src/**"), ConsentRule("grep", "ask", path="*.txt")
    policy = Policy(project.resolve(), rules)
    (project / "n.txt").write_text("Hello\n")

    async def run(**arguments: Any) -> str:
        context = context_in(project, environment={"PATH": path}, is_hidden=policy.is_hidden)
        return (await run_tool(Grep(), arguments, context, Redactor())).text

    assert asyncio.run(run(pattern="Hello")) == "README.md:1: Hello project"
    assert asyncio.run(run(pattern="Hello", path="n.txt")) == "n.txt:1: Hello"


def test_grep_takes_a_glob_that_does_not_bring_ignored_files_back(project: Path, path: str) -> None:
    assert (
        call(Grep(), project, path, pattern="Hello", glob="*.py").text == "src/main.py:5:     print('Hello')"
    )
    assert call(Grep(), project, path, pattern="Hello", glob="*.log").text == "[Nothing matches.]"
    assert call(Grep(), project, path, pattern="Hello", glob="*.nothing").text == "[Nothing matches.]"


def test_grep_can_ignore_case_take_plain_text_and_show_lines_around(project: Path, path: str) -> None:
    both = call(Grep(), project, path, pattern="hello", path="src", ignore_case=True).text.splitlines()
    assert both == ["src/deep/er/other.py:2:     return 'hello'", "src/main.py:5:     print('Hello')"]
    assert call(Grep(), project, path, pattern="main()", literal=True).text == "src/main.py:4: def main():"
    assert call(Grep(), project, path, pattern="--files").text == "[Nothing matches.]"
    (project / "n.txt").write_text("".join(f"{number}\n" for number in range(1, 21)))
    around = call(Grep(), project, path, pattern="^(5|15)$", path="n.txt", context=1).text
    expected = [
        "n.txt-4- 4",
        "n.txt:5: 5",
        "n.txt-6- 6",
        "--",
        "n.txt-14- 14",
        "n.txt:15: 15",
        "n.txt-16- 16",
    ]
    assert around.splitlines() == expected


def test_grep_says_what_is_wrong_with_a_pattern(project: Path, path: str) -> None:
    result = call(Grep(), project, path, pattern="(")
    assert result.is_error
    assert "regex parse error" in result.text
    assert "line feed" in call(Grep(), project, path, pattern="a\nb").text


def test_grep_stops_at_its_limits_and_cuts_long_lines(project: Path, path: str) -> None:
    (project / "many.txt").write_text("needle\n" * 500)
    result = call(Grep(), project, path, pattern="needle", limit=10)
    assert len(result.text.splitlines()) == 11
    assert "more than 10 matches" in result.text
    (project / "wide.txt").write_text("x" * 100_000 + "pin" + "y" * 100_000 + "\n")
    line = call(Grep(), project, path, pattern="pin", path="wide.txt").text
    assert "pin" in line
    assert line.endswith("[cut: 200003 characters]")
    assert len(line) < MAX_LINE + 100


def test_a_pattern_that_would_backtrack_for_ages_is_answered(project: Path) -> None:
    (project / "trap.txt").write_text("a" * 60 + "!\nbaa\n")
    result = call(Grep(), project, "", pattern="(a+)+$", path="trap.txt")
    assert not result.is_error
    assert "baa" in result.text


def test_a_search_that_takes_forever_is_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "TIME_LIMIT", 0.5)
    os.mkfifo(project / "trap.txt")
    result = call(Grep(), project, "", pattern="a", path="trap.txt")
    assert result.is_error
    assert "took longer than 0.5 seconds" in result.text


def test_an_aborted_search_ends(project: Path) -> None:
    os.mkfifo(project / "trap.txt")

    async def run() -> Result:
        environment = {**environment_for_commands(os.environ), "PATH": ""}
        context = context_in(project, environment=environment)
        running = asyncio.ensure_future(
            run_tool(Grep(), {"pattern": "(a+)+$", "path": "trap.txt"}, context, Redactor())
        )
        asyncio.get_running_loop().call_soon(context.aborted.set)
        return await running

    result = asyncio.run(run())
    assert result.is_error
    assert "aborted" in result.text


def test_the_stand_in_runs_no_code_of_the_project(project: Path) -> None:
    for name in ("json.py", "argparse.py", "fairlead.py", "sitecustomize.py"):
        (project / name).write_text("open('ran', 'w')\n")
    assert not call(Grep(), project, "", pattern="Hello").is_error
    assert not (project / "ran").exists()


# --- globs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("*.py", ["a.py", "x/a.py"], ["a.pyc", "a.py/x"]),
        ("/*.py", ["a.py"], ["x/a.py"]),
        ("docs/**", ["docs/a", "docs/a/b"], ["doc/a", "x/docs/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b"]),
        ("**/x", ["x", "a/x"], ["ax"]),
        ("{a,b/{c,d}}", ["a", "b/c", "b/d"], ["b", "c"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("[ab]?", ["ax", "b/by"], ["a", "cx"]),
    ],
)
def test_a_glob_matches_what_it_should(glob: str, matching: list[str], other: list[str]) -> None:
    is_wanted = matcher(glob)
    assert [name for name in matching if not is_wanted(name)] == []
    assert [name for name in other if is_wanted(name)] == []


def test_no_glob_takes_forever() -> None:
    assert not matcher("*a" * 60 + "b")("a" * 250)
    assert not matcher("**/a/" * 50 + "b")("a/" * 200 + "c")
    with pytest.raises(ValueError, match="braces"):
        matcher("{a,b}" * 20)


@given(st.text(min_size=1).filter(lambda text: not set("/\0") & set(text)))
def test_an_escaped_text_matches_itself(text: str) -> None:
    assert matcher(f"/{escaped(text)}")(text)
