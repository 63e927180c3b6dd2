"""Diffs as rows: headings, numbers, words that changed, and files that try to look like diffs."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.tools.diff import between
from fairlead.formats.columns import width_of
from fairlead.ui.diff import drawn, is_diff
from fairlead.ui.styled import plain

PATCH = """diff --git a/src/garden.py b/src/garden.py
index 1234567..89abcde 100644
--- a/src/garden.py
+++ b/src/garden.py
@@ -98,3 +98,3 @@ def water():
 roses
-two red tulips
+two white tulips
 weeds
diff --git a/old.txt b/new.txt
similarity index 90%
rename from old.txt
rename to new.txt
diff --git a/pear.png b/pear.png
new file mode 100644
Binary files /dev/null and b/pear.png differ
"""


def shown(text: str, width: int = 60, *, is_whole: bool = False) -> str:
    return "\n".join(plain(row).rstrip() for row in drawn(text, width, is_whole=is_whole))


def test_files_have_headings_and_lines_their_numbers() -> None:
    assert shown(PATCH) == (
        "src/garden.py\n@@ line 98 def water():\n 98   roses\n 99 - two red tulips\n 99 + two white tulips\n"
        "100   weeds\nnew.txt\nrename from old.txt\nrename to new.txt\npear.png\nnew file mode 100644\n"
        "Binary files /dev/null and b/pear.png differ"
    )
    assert shown("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+y") == "x\n@@ line 1\n1 + y"


def test_words_that_changed_are_marked_if_enough_is_the_same() -> None:
    old, new = [row for row in drawn(PATCH, 60) if "tulips" in plain(row)]
    assert old[2:] == [("two ", "red"), ("red", "red reverse"), (" tulips", "red")]
    assert new[2:] == [("two ", "green"), ("white", "green reverse"), (" tulips", "green")]
    old, new = drawn("@@ -1 +1 @@\n-all is\n+other words", 60)[1:]
    assert (old[2:], new[2:]) == ([("all is", "red")], [("other words", "green")])


def test_long_lines_are_wrapped_below_their_number() -> None:
    full, rest = "x" * 21, "x" * 7
    text = "@@ -1 +1 @@\n+" + "x" * 70
    assert shown(text, 25) == f"@@ line 1\n1 + {full}\n    {full}\n    {full}\n    {rest}"
    assert shown("@@ -1 +1 @@\n+" + "x" * 12, 10) == "@@ line 1\n+ xxxxxxxx\n  xxxx"


def test_a_file_that_looks_like_a_diff_is_content() -> None:
    text = "@@ -1,3 +1,3 @@\n-- a/secret\n--- a/x\n-@@ -1 +1 @@\n+++ b/x\n+diff --git a/y b/y\n+z\u202e\n"
    assert shown(text) == (
        "@@ line 1\n1 - - a/secret\n2 - -- a/x\n3 - @@ -1 +1 @@\n"
        "1 + ++ b/x\n2 + diff --git a/y b/y\n3 + z<U+202E>"
    )


def test_lines_that_are_left_out_take_the_numbers_with_them() -> None:
    text = "@@ -1,900 +1,900 @@\n a\n[890 lines of the diff are hidden here]\n-b\n+c\n@@ -950 +950 @@\n d"
    assert shown(text) == (
        "@@ line 1\n  1   a\n[890 lines of the diff are hidden here]\n    - b\n    + c\n@@ line 950\n950   d"
    )


def test_who_is_asked_sees_every_line() -> None:
    text = "--- rm -rf /\nindex of it\n+++ more\n" + PATCH
    assert shown(text, 80, is_whole=True).count("\n") == text.count("\n") - 1
    for line in (
        "--- rm -rf /",
        "index of it",
        "+++ more",
        "diff --git a/old.txt b/new.txt",
        "index 1234567",
    ):
        assert line in shown(text, 80, is_whole=True)
    assert not is_diff("a @@ -1 +1 @@")


TEXTS = ["a b c", "a x c", "", "--- x", "+++ y", "@@ -1 +1 @@", "日本 " * 9, "\x1b[2J"]
LINES = st.lists(st.sampled_from(TEXTS), max_size=9)


@given(LINES, LINES, st.sampled_from([12, 40]))
def test_every_changed_line_is_there_and_no_row_is_too_wide(
    old: list[str], new: list[str], width: int
) -> None:
    diff = between("\n".join(old), "\n".join(new))
    rows = drawn(diff.text, width)
    text = [plain(row) for row in rows]
    assert all(width_of(each) <= width and not re.search(r"[\x00-\x1f\x7f-\x9f]", each) for each in text)
    signs = [re.match(r" *\d* *([-+]) ", each) for each in text if not each.startswith("@@")]
    assert sum(found is not None and found[1] == "+" for found in signs) >= diff.added
    assert sum(found is not None and found[1] == "-" for found in signs) >= diff.removed
