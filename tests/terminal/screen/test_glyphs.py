"""What programs draw has a picture on every machine: shapes that join, and fonts that are in the package."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest

from fairlead.terminal.screen import picture
from fairlead.terminal.screen.glyphs import Box, shapes
from fairlead.terminal.screen.screen import Screen

Image = pytest.importorskip("PIL.Image")

WIDTH, HEIGHT = picture.CELL_WIDTH, picture.CELL_HEIGHT
DRAWN = "⏺⎿✳✻❯✅☐☒☑⏵⏸✓✗✔✘★⚠❌✨⚡🎉🔥🚀🤖📁🐛🔧📝💡🔍👍😀🟢📦🔒⏳●○▶λжüé→≈"
"""What agents draw beside letters."""


def cells(char: str) -> set[tuple[int, int]]:
    """The pixels of a cell that a character's shapes cover."""
    found = shapes(char, WIDTH, HEIGHT)
    assert found is not None
    return {(x, y) for box in found for x in range(box.left, box.right) for y in range(box.top, box.bottom)}


def edges(char: str) -> dict[str, set[int]]:
    """Where a character's lines meet each edge of its cell."""
    covered = cells(char)
    return {
        "l": {y for x, y in covered if x == 0},
        "r": {y for x, y in covered if x == WIDTH - 1},
        "u": {x for x, y in covered if y == 0},
        "d": {x for x, y in covered if y == HEIGHT - 1},
    }


def test_every_line_block_and_braille_is_drawn_within_its_cell() -> None:
    for code in (*range(0x2500, 0x25A0), *range(0x2801, 0x2900)):
        covered = cells(chr(code))
        assert covered, hex(code)
        assert all(0 <= x < WIDTH and 0 <= y < HEIGHT for x, y in covered), hex(code)
    assert cells("⠀") == set()
    assert shapes("a", WIDTH, HEIGHT) is None
    assert shapes("⎿", WIDTH, HEIGHT) is None
    assert shapes("é̂", WIDTH, HEIGHT) is None


@pytest.mark.parametrize(
    ("left", "right"), ["┌─", "─┐", "├┤", "╔═", "╚╝", "╠╣", "┏━", "┗┛", "╒╕", "╓╖", "╭╮", "━┫", "╾─", "┍┑"]
)
def test_lines_side_by_side_join(left: str, right: str) -> None:
    assert edges(left)["r"] == edges(right)["l"] != set()


@pytest.mark.parametrize(("above", "below"), ["┌│", "│└", "╔║", "║╚", "┃┗", "╥║", "╫╨", "╭╰", "╽┃", "┬┴"])
def test_lines_above_each_other_join(above: str, below: str) -> None:
    assert edges(above)["d"] == edges(below)["u"] != set()


@pytest.mark.parametrize("char", "┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬╒╓╕╖╘╙╛╜╞╟╡╢╤╥╧╨╪╫╭╮╯╰┏┓┗┛╋┍┑┡╊")
def test_the_lines_of_a_character_are_connected(char: str) -> None:
    rest = cells(char)
    parts = 0
    while rest:
        parts += 1
        waiting = [rest.pop()]
        while waiting:
            x, y = waiting.pop()
            near = {(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)} & rest
            rest -= near
            waiting += near
    doubles = {**dict.fromkeys("╔╗╚╝╟╢╤╧", 2), **dict.fromkeys("╠╣╦╩", 3), "╬": 4}
    assert parts == doubles.get(char, 1)


def test_blocks_are_as_large_as_they_say() -> None:
    assert shapes("█", 8, 16) == (Box(0, 0, 8, 16),)
    assert shapes("▄", 8, 16) == (Box(0, 8, 8, 16),)
    assert shapes("▁", 8, 16) == (Box(0, 14, 8, 16),)
    assert shapes("▌", 8, 16) == (Box(0, 0, 4, 16),)
    assert shapes("▏", 8, 16) == (Box(0, 0, 1, 16),)
    assert shapes("▒", 8, 16) == (Box(0, 0, 8, 16, 0.5),)
    assert shapes("▚", 8, 16) == (Box(0, 0, 4, 8), Box(4, 8, 8, 16))
    assert shapes("⠃", 8, 16) == (Box(1, 1, 3, 3), Box(1, 5, 3, 7))


def ink(text: str) -> bytes:
    """The pixels of a text in the corner of a screen; the cursor is hidden."""
    with Screen(4, 1) as screen:
        screen.feed(b"\x1b[?25l" + text.encode())
        image = Image.open(io.BytesIO(screen.png()))
        return bytes(image.convert("L").tobytes())


def test_what_agents_draw_has_glyphs_without_any_font_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "_FONT_FILES", ())
    monkeypatch.setattr(picture, "_MORE_FONTS", ())
    blank = ink(" ")
    missing = {ink("\U0010fffd"), ink("\u0378")}  # in no font
    assert blank not in missing
    for char in DRAWN:
        assert ink(char) not in {blank, *missing}, char
    assert len({ink(char) for char in "abc⏺✻☒🔥"}) == 7


def test_a_font_that_lacks_a_character_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    mono, symbols = picture._OUR_FONTS
    monkeypatch.setattr(picture, "_FONT_FILES", ())
    monkeypatch.setattr(picture, "_MORE_FONTS", ())
    both = ink("☒")
    monkeypatch.setattr(picture, "_OUR_FONTS", (mono,))
    assert ink("☒") != both
    monkeypatch.setattr(picture, "_OUR_FONTS", (mono, "nowhere.ttf", symbols))
    assert ink("☒") == both


def test_the_fonts_and_their_licences_are_in_the_package() -> None:
    root = Path(__file__).parents[3]
    fonts = root / "src/fairlead/fonts"
    for font in picture._OUR_FONTS:
        path = Path(font)
        assert path.parent == fonts
        assert path.stat().st_size < 700_000
        assert (fonts / f"{path.stem}.LICENSE.txt").exists()
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "fonts/*" in project["tool"]["setuptools"]["package-data"]["fairlead"]
