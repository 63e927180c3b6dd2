"""The pages of docs say what the code has: parts made from it, paths of files, and links between pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.cli import config
from fairlead.control.signals import FROM_INSIDE
from fairlead.system.settings import Settings
from tools import make_architecture, make_configuration

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
ROOMS = {"agent.md": "agent", "verify.md": "verify"}
"""The rooms that pages are about: their tables of modules name files from there."""
OF_OTHERS = {
    *("coverage.py", "pytest.py", "conftest.py", "setup.py"),
    *("noxfile.py", "sitecustomize.py", "usercustomize.py", "conf.py", "gunicorn.conf.py", "locustfile.py"),
    *("pdm_build.py", "tasks.py", "toxfile.py"),
}
"""Files that pages name and that are not ours."""


def test_the_rooms_are_those_of_the_imports() -> None:
    page = make_architecture.PAGE.read_text()
    assert page == make_architecture.with_rooms(page), "run `make pages`"


def test_the_settings_are_those_of_the_code() -> None:
    page = make_configuration.PAGE.read_text()
    assert page == make_configuration.with_tables(page), "run `make pages`"


def test_the_sensors_are_those_of_the_code() -> None:
    table = (ROOT / "docs/control.md").read_text().partition("## Sensors")[2].partition("## Rules")[0]
    firsts = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {*re.findall(r"`([\w-]+)`", "".join(firsts))} == {*FROM_INSIDE}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_settings_are_valid(page: Path, tmp_path: Path) -> None:
    settings = Settings({"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    path = Path(settings.config_path)
    path.parent.mkdir(mode=0o700, parents=True)
    for example in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        path.write_text(example)
        config.check(Settings(settings.environ))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    places = [ROOT, ROOT / "src/fairlead"]
    if page.name in ROOMS:
        places.append(ROOT / "src/fairlead" / ROOMS[page.name])
    named = set(re.findall(r"[\w./-]+\.py\b", page.read_text())) - OF_OTHERS
    missing = [each for each in sorted(named) if not any((place / each).is_file() for place in places)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    assert broken == []


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
