"""Command lines as words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.verify.checks import words
from fairlead.verify.checks.words import CheckWord, NotPlain, read


def plain(command: str) -> list[list[str]]:
    return [[word.text for word in program.words] for each in read(command) for program in each.programs]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -l", [["ls", "-l"]]),
        ("echo 'a b' \"c d\" e\\ f", [["echo", "a b", "c d", "e f"]]),
        ("""echo "it's" 'say "x"' a'b'"c" """, [["echo", "it's", 'say "x"', "abc"]]),
        ('echo "a\\"b\\\\c\\$d\\n"', [["echo", 'a"b\\c$d\\n']]),
        ("grep 'a$' \"b$\" c$ x", [["grep", "a$", "b$", "c$", "x"]]),
        ("echo '|;&&>' \"<()`'\"".replace("`", ""), [["echo", "|;&&>", "<()'"]]),
        ("a|b;c&&d||e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a\n\n\nb\n", [["a"], ["b"]]),
        ("a |\nb &&\nc;", [["a"], ["b"], ["c"]]),
        ("echo '' x", [["echo", "", "x"]]),
        ("cat a 2>/dev/null | wc 2>&1", [["cat", "a"], ["wc"]]),
        ("echo a2>&1".replace("2>&1", ""), [["echo", "a"]]),
    ],
)
def test_plain_commands_are_words(command: str, expected: list[list[str]]) -> None:
    assert plain(command) == expected


def test_line_breaks_end_a_command_but_not_after_an_operator() -> None:
    shape = [(each.after, len(each.programs)) for each in read("a |\n\nb &&\nc\nd || e; f")]
    assert shape == [(";", 2), ("&&", 1), (";", 1), ("||", 1), (";", 1)]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "no command"),
        (" \n ", "no command"),
        ("ls |", "nothing before"),
        ("| ls", "nothing before"),
        ("ls && ; ls", "nothing before"),
        ("ls &&", "nothing before"),
        ("ls ; ; ls", "nothing before"),
        ("2>&1", "nothing before"),
        ("ls 'x", "a quote that does not end"),
        ('ls "x', "a quote that does not end"),
        ("ls ~/x", "a home directory"),
        ("ls $HOME", "a variable"),
        ('ls "$HOME"', "a variable"),
        ("ls $'x'", "a variable"),
        ("ls x\\\ny", "a line that goes on"),
        ('ls "x\\\ny"', "a line that goes on"),
        ("ls > x", "a redirection"),
        ("ls x>y", "a redirection"),
        ("ls 2>x", "a redirection"),
        ("ls 2>/dev/nullx", "a redirection"),
        ("ls &", "in the background"),
        ("a |& b", "a pipe of errors"),
        ("(ls)", "a subshell"),
        ("ls `x`", "a command within"),
        ("# x", "a comment"),
        ("for x in y; do z; done", "the shell's 'for'"),
        ("ls\rls", "the control character"),
    ],
)
def test_everything_else_is_refused_by_name(command: str, why: str) -> None:
    with pytest.raises(NotPlain) as caught:
        read(command)
    assert why in str(caught.value)


@given(st.text(st.sampled_from("ab '\"\\|;&$`<>()\n*?[2/~#") | st.characters()))
def test_no_text_breaks_the_reader(command: str) -> None:
    try:
        found = read(command)
    except NotPlain:
        return
    assert all(program.words for each in found for program in each.programs)


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"])), min_size=1, max_size=5))
def test_quoted_words_come_through_as_they_are(texts: list[str]) -> None:
    quoted = " ".join("'" + text.replace("'", "'\\''") + "'" for text in texts)
    assert plain(f"echo {quoted}") == [["echo", *texts]]


def test_globs_stand_for_names_unless_they_are_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py", "-c.py", "[x].py"):
        (tmp_path / name).touch()

    def expanded(command: str) -> list[str]:
        (pipeline,) = read(command)
        return [name for word in pipeline.programs[0].words[1:] for name in word.expanded(tmp_path)]

    assert expanded("ls *.py") == ["./-c.py", "[x].py", "a.py", "b.py"]
    assert expanded("ls '*'.py \"*.py\" \\*.py") == ["*.py", "*.py", "*.py"]
    assert expanded("ls ?.py none*") == ["a.py", "b.py", "none*"]
    assert expanded("ls '[x]'.p?") == ["[x].py"]
    monkeypatch.setattr(words, "MAX_EXPANDED", 2)
    with pytest.raises(NotPlain, match="more than 2 names"):
        CheckWord("*", "*").expanded(tmp_path)
