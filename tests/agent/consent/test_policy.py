"""What is allowed, asked for and denied."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.consent.commands import take_apart
from fairlead.agent.consent.policy import ConsentRule, Policy, rules_from
from fairlead.agent.tools import Effect, Touch
from fairlead.agent.tools.files import Read, Write
from fairlead.agent.tools.search import Grep

PROJECT = Path("/home/me/project")


def on(path: str, effect: Effect = "read") -> Touch:
    return Touch(effect, "", (PROJECT / path,))


def running(command: str) -> Touch:
    return Touch("run", "", command=command)


def bash(then: str, match: str | None = None) -> ConsentRule:
    return msgspec.convert({"tool": "bash", "then": then, "match": match}, ConsentRule)


def decide(policy: Policy, command: str) -> str:
    return policy.judge("bash", running(command)).decision


# --- without rules --------------------------------------------------------------------------------------


def test_reading_in_the_project_is_allowed_and_all_else_asks() -> None:
    policy = Policy(PROJECT)
    assert policy.judge("read", on("src/a.py")).decision == "allow"
    assert policy.judge("ls", on(".")).decision == "allow"
    outside = policy.judge("read", on("/etc/passwd"))
    assert (outside.decision, outside.reason) == ("ask", "/etc/passwd is outside of the project")
    assert policy.judge("read", on("/home/me/project-2/x")).decision == "ask"
    assert policy.judge("write", on("a.py", "write")).decision == "ask"
    assert policy.judge("bash", running("ls")).decision == "ask"
    assert policy.judge("other", Touch("run", "")).decision == "ask"


@pytest.mark.parametrize(
    "name", [".env", "sub/.env.local", "id_rsa", "server.pem", ".netrc", "credentials", ".ENV"]
)
def test_files_with_secrets_ask_even_in_the_project(name: str) -> None:
    verdict = Policy(PROJECT).judge("read", on(name))
    assert verdict.decision == "ask"
    assert "may hold secrets" in verdict.reason


def test_traversal_and_links_out_of_the_project_ask(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "outside.txt").write_text("x")
    (project / "link").symlink_to(tmp_path / "outside.txt")
    (project / "dir").symlink_to(tmp_path)
    (project / "own").symlink_to("file.txt")
    (project / "harmless").symlink_to(".env")
    policy = Policy(project.resolve())
    for path in (
        "../outside.txt",
        "link",
        "dir/outside.txt",
        "a/../../outside.txt",
        "/etc/passwd",
        "~",
        "harmless",
    ):
        assert policy.judge("read", Read().touches({"path": path}, project)).decision == "ask", path
        touch = Grep().touches({"pattern": "x", "path": path}, project)
        assert policy.judge("grep", touch).decision == "ask", path
    for path in ("own", "new", "a/../b", str(project / "x")):
        assert policy.judge("read", Read().touches({"path": path}, project)).decision == "allow", path


def test_a_project_that_is_reached_by_a_link_is_the_same_project(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    policy = Policy((tmp_path / "link").resolve())
    assert policy.judge("read", Read().touches({"path": "x"}, tmp_path / "link")).decision == "allow"


def test_other_directories_can_be_made_readable_but_not_writable() -> None:
    policy = Policy(PROJECT, readable=(Path("/state/outputs"),))
    assert policy.judge("read", on("/state/outputs/1.txt")).decision == "allow"
    assert policy.judge("write", on("/state/outputs/1.txt", "write")).decision == "ask"


# --- rules ----------------------------------------------------------------------------------------------


def test_deny_wins_over_ask_and_ask_over_allow_in_any_order() -> None:
    allow, ask, deny = bash("allow", "git *"), bash("ask", "git push*"), bash("deny", "git push --force*")
    for rules in ((allow, ask, deny), (deny, ask, allow), (ask, allow, deny)):
        policy = Policy(PROJECT, rules)
        assert decide(policy, "git status") == "allow"
        assert decide(policy, "git") == "allow"
        assert decide(policy, "git push") == "ask"
        assert decide(policy, "git push --force origin") == "deny"
        assert decide(policy, "gitk") == "ask"


def test_a_verdict_names_its_rule() -> None:
    rule = bash("deny", "rm *")
    verdict = Policy(PROJECT, (rule,)).judge("bash", running("rm -rf x"))
    assert (verdict.rule, verdict.reason) == (rule, "`rm -rf x`: a rule says: deny bash rm *")


def test_rules_for_paths_count_from_the_project() -> None:
    rules = rules_from(
        [
            {"tool": "write", "path": "docs/**", "then": "allow"},
            {"tool": "read", "path": "/usr/include/**", "then": "allow"},
            {"tool": "*", "path": "private/**", "then": "deny"},
            {"tool": "read", "path": "~/notes/*.md", "then": "allow"},
        ]
    )
    policy = Policy(PROJECT, rules)
    assert policy.judge("write", on("docs/a/b.md", "write")).decision == "allow"
    assert policy.judge("write", on("src/docs/a.md", "write")).decision == "ask"
    assert policy.judge("write", on("/elsewhere/docs/a.md", "write")).decision == "ask"
    assert policy.judge("read", on("/usr/include/stdio.h")).decision == "allow"
    assert policy.judge("read", on("private/x")).decision == "deny"
    assert policy.judge("read", on(os.path.expanduser("~/notes/a.md"))).decision == "allow"
    both = Touch("write", "", (PROJECT / "docs/a", PROJECT / "src/a"))
    assert policy.judge("write", both).decision == "ask"


def test_a_rule_hides_files_from_a_search_and_a_default_does_not() -> None:
    policy = Policy(
        PROJECT, (ConsentRule("read", "deny", path="hr/**"), ConsentRule("grep", "ask", path="*.csv"))
    )
    assert policy.is_hidden(PROJECT / "hr/pay.txt")
    assert policy.is_hidden(PROJECT / "x.csv")
    assert not policy.is_hidden(PROJECT / "x.py")
    assert not policy.is_hidden(Path("/elsewhere/x.py"))


def test_a_rule_for_all_files_is_not_for_those_with_secrets() -> None:
    everything = ConsentRule("read", "allow", path="**"), ConsentRule("write", "allow")
    policy = Policy(PROJECT, everything)
    assert policy.judge("read", on(".env")).decision == "ask"
    assert policy.judge("write", on(".git/hooks/pre-commit", "write")).decision == "ask"
    assert policy.judge("write", on("a.py", "write")).decision == "allow"
    named = Policy(PROJECT, (*everything, ConsentRule("read", "allow", path="*.pem")))
    assert named.judge("read", on("tests/ca.pem")).decision == "allow"
    assert named.judge("read", on(".env")).decision == "ask"


def test_yes_allows_all_that_no_rule_denies() -> None:
    policy = Policy(PROJECT, (bash("deny", "rm *"), bash("ask", "git *")), allows_all=True)
    assert decide(policy, "git push") == "allow"
    assert decide(policy, "for x in *; do echo $x; done") == "allow"
    assert decide(policy, "cd x && rm -rf .") == "deny"
    assert policy.judge("read", on(".env")).decision == "allow"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "must be a list of tables"),
        ([{"tool": "bash"}], "number 1: missing setting then"),
        ([{"tool": "bash", "then": "maybe"}], "number 1: then must be one of allow, ask, deny, not 'maybe'"),
        ([{"tool": "bash", "then": "ask", "match": "x", "path": "y"}], "either `match`"),
        ([{"tool": "bash", "then": "ask", "when": 1}], "unknown setting when"),
        ([{"tool": "read", "then": "ask", "path": "../x"}], "must not have .. in it"),
        ([{"tool": "read", "then": "ask", "path": "{a,b}" * 20}], "braces"),
        (["x"], "number 1: must be a table, not a string"),
        (
            [{"tool": "bsah", "then": "ask"}],
            "number 1: no tool 'bsah'; there are read, ls, find, grep, edit, ",
        ),
        ([{"tool": "bsah", "then": "ask"}], "write, bash, or * for all; did you mean bash?"),
        ([{"tool": "Bash", "then": "deny", "match": "rm *"}], "did you mean bash?"),
        ([{"tool": "write", "then": "deny", "match": "*.py"}], "write takes files: write `path`"),
        ([{"tool": "bash", "then": "deny", "path": "/etc/**"}], "bash takes commands: write `match`"),
    ],
)
def test_a_wrong_rule_is_named(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        rules_from(value)
    assert str(error.value).startswith("[agent] rules")
    assert words in str(error.value)


# --- commands -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "git log",
        "git log | git shortlog",
        "git add . && git commit -m 'a; b & c'",
        'git commit -m "it (really) works > before"',
        "git log 2>&1 >/dev/null",
        "git log; git status # rm -rf /",
        "git log \\\n  --oneline",
        "(git fetch; git log)",
        "git show $(git rev-parse HEAD)",
        "git show `git rev-parse HEAD`",
        "git log $BRANCH ${OTHER}",
        "git fetch &",
    ],
)
def test_a_compound_command_is_allowed_if_every_part_is(command: str) -> None:
    assert decide(Policy(PROJECT, (bash("allow", "git *"),)), command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git log; rm x",
        "git log\nrm x",
        "git log && rm x",
        "git log || rm x",
        "git log | sh",
        "git log |& sh",
        "git log & rm x",
        "git log $(rm x)",
        'git log "$(rm x)"',
        'git log "`rm x`"',
        "git log `rm x`",
        "git log <(rm x)",
        "git log > ~/.bashrc",
        "git log>x",
        "git log &> x",
        "git log 2>> x",
        "git log < /etc/passwd",
        "(git log; rm x)",
        "git log # comment\nrm x",
        "git log # comment \\\nrm x",
        "git log a\\\\\nrm x",
        "git log ${X:-$(rm x)}",
        "git log $((`rm x`))",
        "git log $'\\''; rm x #'",
        'git log "$\\\n(rm x)"',
        "git log $\\\n'\\''; rm x #'",
        "git log <<EOF\n$(rm x)\nEOF",
        "GIT_PAGER=evil git log",
        "PATH=. git log",
        "if git log; then rm x; fi",
        "git log 'unclosed",
        'git log "unclosed',
        "git log $(unclosed",
        "git() { rm x; }; git log",
        "git log )",
        "{ git log; rm x; }",
        "! git log",
        "\\git log",
    ],
)
def test_a_command_with_another_part_asks(command: str) -> None:
    assert decide(Policy(PROJECT, (bash("allow", "git *"),)), command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "ls; rm x",
        "ls && (cd y; rm x)",
        "echo $(rm x)",
        "echo `rm x`",
        "/bin/rm x",
        "'rm' x",
        "\\rm x",
        "X=1 rm x",
        "sudo -n rm x",
        "env A=b rm x",
        "if true; then rm x; fi",
        "for f in *; do rm $f; done",
        "cat <<EOF\nEOF\nrm x",
        "f() { rm x; }; f",
        "find . | xargs rm",
        "echo ${X:-$(rm x)}",
    ],
)
def test_a_denied_command_is_found_in_disguise(command: str) -> None:
    policy = Policy(PROJECT, (bash("deny", "rm *"), bash("allow")))
    assert decide(policy, command) == "deny"


def test_words_that_only_look_like_a_denied_command_are_no_reason_to_deny() -> None:
    policy = Policy(PROJECT, (bash("deny", "rm *"),))
    for command in ("git rm x", "echo 'rm x'", "rmdir x", "grep -r rm ."):
        assert decide(policy, command) == "ask", command


def test_redirections_can_be_allowed_by_a_rule_of_their_own() -> None:
    policy = Policy(PROJECT, (bash("allow", "git *"), bash("allow", "> out/*")))
    assert decide(policy, "git log > out/log.txt") == "allow"
    assert decide(policy, "git log > log.txt") == "ask"


@given(st.text(alphabet="ab ;&|$(){}`'\"\\\n<>#=!1"))
def test_no_command_is_too_strange_to_be_judged(command: str) -> None:
    assert decide(Policy(PROJECT, (bash("deny", "zz *"),)), command) == "ask"


@given(
    st.lists(st.sampled_from(["git a", "git 'b;c'", 'git "$(git d)"']), min_size=1, max_size=20),
    st.sampled_from([";", "&&", "|", "\n"]),
)
def test_a_part_that_is_not_allowed_is_found_anywhere(parts: list[str], separator: str) -> None:
    policy = Policy(PROJECT, (bash("allow", "git *"),))
    assert decide(policy, separator.join(parts)) == "allow"
    for at in range(len(parts) + 1):
        assert decide(policy, separator.join([*parts[:at], "rm x", *parts[at:]])) == "ask"


def test_deeply_nested_commands_are_not_understood() -> None:
    assert not take_apart("$(" * 5000 + ")" * 5000).is_understood


# --- answers for the session ----------------------------------------------------------------------------


def test_an_answer_for_the_session_wins_over_ask_but_not_over_deny() -> None:
    policy = Policy(PROJECT, (bash("ask", "git push*"), bash("deny", "rm *")))
    answered = policy
    for command in ("git push origin", "rm x"):
        answered = answered.remembering("bash", running(command), "allow")
    assert decide(policy, "git push origin") == "ask"
    assert decide(answered, "git push origin") == "allow"
    assert decide(answered, "rm x") == "deny"


@pytest.mark.parametrize("command", ["make test", "for x in *.py; do echo [$x]; done", "ls > a; ls *"])
def test_a_remembered_command_is_allowed_again_as_it_was_and_not_otherwise(command: str) -> None:
    policy = Policy(PROJECT).remembering("bash", running(command), "allow")
    assert decide(policy, command) == "allow"
    assert decide(policy, f"{command} x") == "ask"
    assert decide(policy, f"{command}; rm x") == "ask"


def test_a_remembered_path_is_that_path_even_if_it_looks_like_a_glob() -> None:
    policy = Policy(PROJECT).remembering("write", on("a[1]*.py", "write"), "allow")
    assert policy.judge("write", on("a[1]*.py", "write")).decision == "allow"
    assert policy.judge("write", on("a1x.py", "write")).decision == "ask"
    secret = Policy(PROJECT).remembering("read", on(".env"), "allow")
    assert secret.judge("read", on(".env")).decision == "allow"
    assert secret.judge("read", on("sub/.env")).decision == "ask"


def test_a_remembered_no_holds() -> None:
    policy = Policy(PROJECT, (bash("allow", "make *"),)).remembering("bash", running("make all"), "deny")
    assert decide(policy, "make all") == "deny"
    assert decide(policy, "make") == "allow"


def test_rules_can_be_written_down_and_read_again() -> None:
    policy = Policy(PROJECT).remembering(
        "write", Write().touches({"path": "x", "content": ""}, PROJECT), "allow"
    )
    written = msgspec.to_builtins(policy.remembered)
    assert rules_from(list(written)) == policy.remembered


def test_the_configuration_of_fairlead_is_written_only_with_consent(tmp_path: Path) -> None:
    policy = Policy(tmp_path, (ConsentRule("edit", "allow"), ConsentRule("write", "allow", path="**")))
    own = tmp_path / ".config/fairlead/config.toml"
    for tool in ("edit", "write"):
        assert policy.judge(tool, Touch("write", "", (own,))).decision == "ask"
        assert policy.judge(tool, Touch("write", "", (tmp_path / "config.toml",))).decision == "allow"
