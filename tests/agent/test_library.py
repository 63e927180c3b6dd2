"""Prompts and skills that people have written down."""

from __future__ import annotations

from pathlib import Path

from fairlead.agent.instructions import system_prompt
from fairlead.agent.library import MAX_FILES, Library


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_projects_own_come_before_those_of_the_configuration(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    written(home / "prompts/review.md", "of home")
    written(home / "prompts/other.md", "# Other\n\ntext")
    written(project / ".pi/prompts/review.md", "---\ndescription: 'look at it'\n---\nReview $1 and $2: $@")
    shelf = Library(str(home)).shelf(project)
    assert sorted(shelf.prompts) == ["other", "review"]
    review = shelf.prompts["review"]
    assert review.description == "look at it"
    assert review.said(["a", "b", "c"]) == "Review a and b: a b c"
    assert review.said([]) == "Review  and :"
    assert shelf.prompts["other"].description == "Other"


def test_models_are_told_of_skills(tmp_path: Path) -> None:
    path = written(tmp_path / ".fairlead/skills/release/SKILL.md", "---\ndescription: how to release\n---\nx")
    shelf = Library(str(tmp_path / "home")).shelf(tmp_path)
    assert f"- {path}: how to release\n" in system_prompt(tmp_path, ["read"], shelf)[0]


def test_what_is_no_prompt_is_left_out(tmp_path: Path) -> None:
    written(tmp_path / ".fairlead/prompts/no-markdown.txt", "x")
    written(tmp_path / ".fairlead/prompts/a b.md", "x")
    (tmp_path / ".fairlead/prompts/directory.md").mkdir()
    (tmp_path / ".fairlead/prompts/gone.md").symlink_to(tmp_path / "nowhere")
    written(tmp_path / ".fairlead/prompts/binary.md", "").write_bytes(b"\xff\xfe\x00")
    assert list(Library("").shelf(tmp_path).prompts) == ["binary"]


def test_their_number_is_bounded(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        written(tmp_path / f".fairlead/prompts/p{number}.md", "x")
    assert len(Library("").shelf(tmp_path).prompts) == MAX_FILES


def test_a_description_may_have_several_lines_and_a_bad_head_is_told(tmp_path: Path) -> None:
    library = Library(str(tmp_path / "config"))
    written(tmp_path / ".fairlead/skills/deploy/SKILL.md", "---\ndescription: >\n  how to\n  deploy\n---\nx")
    written(tmp_path / ".fairlead/skills/odd/SKILL.md", "---\ndescription: &x\n---\nWhat to do")
    shelf = library.shelf(tmp_path)
    assert shelf.skills["deploy"].description == "how to deploy"
    assert shelf.skills["odd"].description == "What to do"
    (fault,) = shelf.faults
    assert "line 2: '&' starts a YAML construct" in fault
