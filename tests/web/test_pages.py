"""The pages of the console as files: what is shipped, what its policy allows, and what others wrote of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fairlead
from tools import vendor_xterm

PAGES = Path(fairlead.__file__).parent / "web/pages"
OURS = sorted(path for path in PAGES.rglob("*") if path.is_file() and "vendor" not in path.parts)
SCRIPTS = [path for path in OURS if path.suffix == ".js"]
MAX_LINES = 800


def test_what_others_wrote_is_as_their_packages_have_it() -> None:
    assert vendor_xterm.differences() == []


def test_each_package_of_others_has_its_licence() -> None:
    for directory in (PAGES / "vendor").iterdir():
        assert (
            directory.name == "CHECKSUMS"
            or "Permission is hereby granted" in (directory / "LICENSE").read_text()
        )


def test_a_changed_file_of_others_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "vendor"
    place.mkdir()
    for path in (PAGES / "vendor").rglob("*"):
        copy = place / path.relative_to(PAGES / "vendor")
        copy.mkdir() if path.is_dir() else copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(vendor_xterm, "PLACE", place)
    monkeypatch.setattr(vendor_xterm, "SUMS", place / "CHECKSUMS")
    assert vendor_xterm.differences() == []
    (place / "xterm/xterm.mjs").write_bytes(b"export {}")
    assert vendor_xterm.differences() == ["CHECKSUMS differs from the files"]
    (place / "xterm/more.mjs").write_bytes(b"")
    assert vendor_xterm.differences() == ["xterm/more.mjs is of no package"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_parses_no_html_and_no_code(path: Path) -> None:
    text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "DOMParser", "document.write", "srcdoc"):
        assert word not in text, word
    assert not re.search(r"\beval\(|new Function\(|setAttribute\(\"on|javascript:", text)
    assert len(text.splitlines()) < MAX_LINES


@pytest.mark.parametrize(
    "path", [path for path in OURS if path.suffix == ".html"], ids=lambda path: path.name
)
def test_a_page_has_nothing_that_its_policy_forbids(path: Path) -> None:
    text = path.read_text()
    assert "<style" not in text
    assert not re.search(r"\s(style|on\w+)=", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert not re.search(r"(src|href)=\"(https?:)?//", text)


def test_the_worker_keeps_every_file_that_the_pages_need() -> None:
    listed = set(re.findall(r'^  "([^"]+)",$', (PAGES / "sw.js").read_text(), re.MULTILINE))
    needed = {
        str(path.relative_to(PAGES))
        for path in PAGES.rglob("*")
        if path.suffix in (".js", ".mjs", ".css", ".svg") and path.name not in ("sw.js", "in.js")
    }
    assert needed <= listed
    assert all((PAGES / each).is_file() for each in listed)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_what_a_script_imports_is_there(path: Path) -> None:
    text = path.read_text()
    for name in re.findall(r"(?:from|import\()\s*\"(\.[^\"]+)\"", text):
        assert (path.parent / name).is_file(), name


def test_what_the_pages_link_to_is_there() -> None:
    for page in ("index.html", "in.html", "manifest.webmanifest"):
        for name in re.findall(r"\{\{static\}\}/([^\"]+)", (PAGES / page).read_text()):
            assert (PAGES / name).is_file(), name
