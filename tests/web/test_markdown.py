"""What agents write as Markdown: what becomes of it, and that none of it can stall a page."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import fairlead

PAGE = Path(fairlead.__file__).parent / "web/pages/markdown.js"
DRAWS = Path(__file__).parent / "markdown.mjs"
SHORT, LONG = 20_000, 80_000
"""Characters of the texts whose times are compared."""
MOST = 5000.0
"""Milliseconds that any of them may take on a busy machine; what was quadratic took minutes."""

TEXTS = {
    "# One #": "<h3>One</>",
    "## a # b ##  ": "<h4>a # b</>",
    "#no": "<p>#no</>",
    "#\tTab": "<h3>Tab</>",
    "a `code` and ``two ` ticks`` b": "<p>a <code>code</> and <code>two ` ticks</> b</>",
    "**bold `x*y` more** `open": "<p><strong>bold <code>x*y</> more</> `open</>",
    r"\`a` b`": "<p>`a<code> b</></>",
    "*em* _em_ ~~gone~~ __b__": "<p><em>em</> <em>em</> <del>gone</> <strong>b</></>",
    "[a `b`](https://x.example) `c`": "<p><a>a <code>b</></> <code>c</></>",
    "<https://x.example> https://y.example.": "<p><a>https://x.example</> <a>https://y.example</>.</>",
    "a  \nb": "<p>a<br></>b</>",
    "- a\n- b\n\nend": "<ul><li>a</><li>b</></><p>end</>",
    "- a\n\n- b\n  c": "<ul><li>a</><li>b\nc</></>",
    "a|b\n-|-\nc|d": "<div><table><thead><tr><th>a</><th>b</></></><tbody><tr><td>c</><td>d</></></></></>",
    "| a |\n|:-:|\n| c |": "<div><table><thead><tr><th>a</></></><tbody><tr><td>c</></></></></>",
    "a|b\nno rule": "<p>a|b\nno rule</>",
}


def drawn(texts: list[str], sizes: list[int]) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    command = [node, str(DRAWS), str(PAGE), json.dumps(texts), json.dumps(sizes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_markdown_is_drawn() -> None:
    assert dict(zip(TEXTS, drawn(list(TEXTS), [0, 0])["drawn"])) == TEXTS


def test_no_text_stalls_a_page() -> None:
    times = drawn([], [SHORT, LONG])["times"]
    assert len(times) > 20
    slow = {name: taken for name, taken in times.items() if max(taken) > MOST}
    assert not slow, times
