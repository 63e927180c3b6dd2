"""What test runners and checkers print, and the part of it that helps."""

import pytest

from fairlead.verify.checks.output import MAX_USEFUL, OutputSummary, coverage, summaries, useful_part


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("===== 3 passed in 0.12s =====", OutputSummary("pytest", 3)),
        ("3 passed, 1 skipped in 0.12s", OutputSummary("pytest", 3, 0, 1)),
        (
            "= 1 failed, 2 passed, 1 xfailed, 4 deselected, 2 warnings, 1 error in 1.0s =",
            OutputSummary("pytest", 2, 2, 5),
        ),
        ("=== 2 passed, 1 warning in 61.02s (0:01:01) ===", OutputSummary("pytest", 2)),
        ("===== no tests ran in 0.01s =====", OutputSummary("pytest", 0)),
        ("Ran 4 tests in 0.001s\n\nOK", OutputSummary("unittest", 4)),
        ("Ran 4 tests in 0.001s\n\nOK (skipped=1, expected failures=1)", OutputSummary("unittest", 2, 0, 2)),
        ("Ran 4 tests in 0.001s\n\nFAILED (failures=1, errors=1)", OutputSummary("unittest", 2, 2)),
        ("Tests:       1 failed, 2 skipped, 1 todo, 3 passed, 7 total", OutputSummary("jest", 3, 1, 3)),
        ("      Tests  3 passed | 1 skipped (4)", OutputSummary("jest", 3, 0, 1)),
        (
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out",
            OutputSummary("cargo", 5, 0, 3),
        ),
        ("ok  \texample.org/a\t0.01s\nok  \texample.org/b\t(cached)", OutputSummary("go", 2)),
        ("--- SKIP: TestX (0.00s)\nok  \texample.org/a\t0.01s", OutputSummary("go", 1, 0, 1)),
        (
            "ok  \texample.org/a\t0.01s [no tests to run]\nFAIL\texample.org/b\t0.1s",
            OutputSummary("go", 0, 1, 1),
        ),
        ("# pass 3\n# fail 0\n# skipped 1\n# todo 0", OutputSummary("node", 3, 0, 1)),
    ],
)
def test_summaries_of_test_runners_are_understood(text: str, expected: OutputSummary) -> None:
    assert summaries(f"noise\n{text}\nmore noise") == [expected]


def test_text_that_only_talks_of_tests_is_no_summary() -> None:
    assert summaries("I think 3 passed and OK\nall passed\nTests are good\n3 passed") == []


def test_cargo_programs_without_tests_do_not_count() -> None:
    line = "test result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"
    assert summaries(f"{line.format(2)}\n{line.format(0)}") == [OutputSummary("cargo", 2)]
    assert summaries(line.format(0)) == [OutputSummary("cargo", 0)]


def test_coverage_tables_say_which_files_were_run_in_full() -> None:
    python = (
        "Name     Stmts   Miss  Cover\nsrc/a.py    10      0   100%\nsrc/b.py    10      3    70%   4-6\n"
    )
    assert coverage(python) == {"src/a.py": True, "src/b.py": False}
    branches = "src/a.py   10   0   4   1   97%\nsrc/c.py   10   0   4   0   100%"
    assert coverage(branches) == {"src/a.py": False, "src/c.py": True}
    head = "File | % Stmts | % Branch | % Funcs | % Lines | Uncovered"
    jest = f"{head}\n a.js | 100 | 100 | 100 | 100 |\n b.js | 80 | 100 | 100 | 80 | 4"
    assert coverage(jest) == {"a.js": True, "b.js": False}


# --- the useful part --------------------------------------------------------------------------------------

PYTEST = """\
============================= test session starts ==============================
platform linux -- Python 3.11
collected 400 items

tests/test_a.py ............................................................ [ 15%]
tests/test_b.py ..........F.                                                 [100%]

=================================== FAILURES ===================================
__________________________________ test_sum ___________________________________

    def test_sum():
>       assert add(1, 2) == 4
E       assert 3 == 4

tests/test_b.py:7: AssertionError
=========================== short test summary info ============================
FAILED tests/test_b.py::test_sum - assert 3 == 4
========================= 1 failed, 399 passed in 2.11s ========================
"""
UNITTEST = """\
..F.
======================================================================
FAIL: test_sum (test_b.Sums.test_sum)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/p/test_b.py", line 7, in test_sum
    self.assertEqual(3, 4)
AssertionError: 3 != 4

----------------------------------------------------------------------
Ran 4 tests in 0.001s

FAILED (failures=1)
"""
CARGO = """\
   Compiling p v0.1.0 (/p)
error[E0308]: mismatched types
 --> src/main.rs:2:18
  |
2 |     let x: i32 = "a";
  |                  ^^^ expected `i32`, found `&str`

error: could not compile `p` (bin "p") due to 1 previous error
"""
CARGO_TEST = """\
running 2 tests
test sums ... FAILED
test other ... ok

failures:

---- sums stdout ----
thread 'sums' panicked at src/lib.rs:9:9:
assertion `left == right` failed
  left: 3
 right: 4

failures:
    sums

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
"""
GO = """\
=== RUN   TestSum
    a_test.go:9: got 3, want 4
--- FAIL: TestSum (0.00s)
    a_test.go:9: got 3, want 4
FAIL
FAIL\texample.org/p\t0.002s
"""
MYPY = "src/a.py:3: error: Incompatible return value type  [return-value]\nFound 1 error in 1 file\n"
RUFF = (
    "F401 [*] `os` imported but unused\n --> a.py:1:8\n  |\n1 | import os\n  |        ^^\n\nFound 1 error.\n"
)
TSC = "src/a.ts(3,7): error TS2322: Type 'string' is not assignable to type 'number'.\n"
ESLINT = "/p/src/a.js\n  3:7  error  'x' is never used  no-unused-vars\n\n✖ 1 problem (1 error, 0 warnings)\n"
JEST = """\
PASS src/b.test.js
FAIL src/a.test.js
  ● adds

    expect(received).toBe(expected)

    Expected: 4
    Received: 3

Tests:       1 failed, 9 passed, 10 total
"""
MAKE = "cc -c a.c\na.c:3:5: error: expected ';' before 'return'\nmake: *** [Makefile:4: a.o] Error 1\n"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    boom()\nValueError: no boom\n'
)
NOISE = "".join(f"downloading part {number} of the world\n" for number in range(300))


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        (
            PYTEST,
            [
                "assert add(1, 2) == 4",
                "E       assert 3 == 4",
                "FAILED tests/test_b.py::test_sum",
                "1 failed",
            ],
        ),
        (UNITTEST, ["FAIL: test_sum", "AssertionError: 3 != 4", "FAILED (failures=1)"]),
        (CARGO, ["error[E0308]: mismatched types", "src/main.rs:2:18", "could not compile"]),
        (CARGO_TEST, ["panicked at src/lib.rs:9:9", "right: 4", "test result: FAILED"]),
        (GO, ["--- FAIL: TestSum", "got 3, want 4", "FAIL\texample.org/p"]),
        (MYPY, ["src/a.py:3: error: Incompatible return", "Found 1 error"]),
        (RUFF, ["F401", "a.py:1:8", "Found 1 error."]),
        (TSC, ["error TS2322"]),
        (ESLINT, ["/p/src/a.js", "no-unused-vars", "1 problem"]),
        (JEST, ["● adds", "Expected: 4", "Received: 3", "Tests:       1 failed"]),
        (MAKE, ["a.c:3:5: error", "make: *** [Makefile:4: a.o] Error 1"]),
        (TRACEBACK, ['File "x.py", line 1', "ValueError: no boom"]),
    ],
    ids=[
        "pytest",
        "unittest",
        "rustc",
        "cargo",
        "go",
        "mypy",
        "ruff",
        "tsc",
        "eslint",
        "jest",
        "make",
        "traceback",
    ],
)
def test_failures_are_found_within_noise(output: str, wanted: list[str]) -> None:
    useful = useful_part(f"{NOISE}\n{output}\n{NOISE}")
    for each in wanted:
        assert each in useful, useful
    assert "of the world" not in useful
    assert "lines left out]" in useful
    assert len(useful) <= MAX_USEFUL


def test_an_output_that_is_not_understood_gives_its_beginning_and_end() -> None:
    lines = [f"step {number}" for number in range(1000)]
    useful = useful_part("\n".join(lines))
    assert useful.startswith("step 0\n")
    assert useful.endswith("step 999")
    assert "[945 lines left out]" in useful


def test_a_thousand_failures_are_bounded_and_the_summary_stays() -> None:
    many = "\n".join(f"FAILED tests/test_x.py::test_{n} - {'long ' * 30}" for n in range(1000))
    useful = useful_part(f"{many}\n====== 1000 failed in 9.99s ======\n")
    assert len(useful) <= MAX_USEFUL
    assert "test_0 " in useful
    assert "1000 failed in 9.99s" in useful


def test_a_short_output_is_given_as_it_is_and_progress_is_left_out() -> None:
    assert useful_part("one\ntwo\n").strip() == "one\ntwo"
    assert useful_part(".................... [ 50%]\nend\n").strip() == "end"
    assert useful_part("again\n" * 500).count("again") == 3
