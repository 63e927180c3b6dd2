"""Pictures: SVG that parses and shows every cell in its place, PNG where Pillow is installed."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fairlead.terminal.screen.picture import CELL_HEIGHT, CELL_WIDTH, MARGIN
from fairlead.terminal.screen.screen import Screen
from tests.installing import INSTALL
from tests.terminal.streams import COLS, MADE, ROWS, recorded, streams

SVG = "{http://www.w3.org/2000/svg}"


def screen_of(printed: str, cols: int = 20, rows: int = 4) -> Screen:
    screen = Screen(cols, rows)
    screen.feed(printed.encode())
    return screen


@pytest.mark.parametrize("name", [*recorded(), *MADE])
def test_a_screen_of_any_program_is_well_formed_xml(name: str) -> None:
    stream = recorded().get(name) or MADE[name]()
    screen = Screen(COLS, ROWS)
    for start in range(0, len(stream), len(stream) // 5 + 1):
        screen.feed(stream[start : start + len(stream) // 5 + 1])
        assert ElementTree.fromstring(screen.svg()).tag == f"{SVG}svg"


@given(st.one_of(streams, st.text().map(lambda text: text.encode("utf-8", "replace")), st.binary()))
def test_any_screen_is_well_formed_xml(stream: bytes) -> None:
    screen = Screen(20, 5)
    screen.feed(b"\x1b]2;" + stream[:50] + b"\x07" + stream)
    ElementTree.fromstring(screen.svg())
    ElementTree.fromstring(screen.html())


def test_what_xml_can_not_contain_is_replaced() -> None:
    screen = screen_of("a\ufffe\uffff\U0001ffffb\x1b]2;t\uffff\x07\x1b]8;;https://a/\uffff\x07link")
    for document in (screen.svg(), screen.html()):
        assert "\ufffd" in "".join(ElementTree.fromstring(document).itertext())


def test_every_text_is_in_its_place() -> None:
    root = ElementTree.fromstring(screen_of("ab 日x\r\n\x1b[5Cfar\x1b[?25l").svg())
    texts = {text.text: text for text in root.iter(f"{SVG}text")}
    assert texts["ab "].get("x") == "0"
    assert texts["日"].get("x") == str(3 * CELL_WIDTH)
    assert texts["日"].get("textLength") == str(2 * CELL_WIDTH)
    assert texts["x"].get("x") == str(5 * CELL_WIDTH)
    far = texts["far"]
    assert (far.get("x"), far.get("y")) == (
        str(5 * CELL_WIDTH),
        str(CELL_HEIGHT + int(texts["x"].get("y") or 0)),
    )
    assert root.get("width") == str(20 * CELL_WIDTH + 2 * MARGIN)


def test_colours_and_attributes_are_drawn() -> None:
    svg = screen_of(
        "\x1b[1;3;31mred\x1b[0;7minv\x1b[0;4mund\x1b[0;9mstr\x1b[0;8mhidden\x1b[0;48;2;1;2;3m\x1b[2X"
    ).svg()
    root = ElementTree.fromstring(svg)
    texts = {text.text: text for text in root.iter(f"{SVG}text")}
    red = texts["red"]
    assert (red.get("fill"), red.get("font-weight"), red.get("font-style")) == ("#cc6666", "bold", "italic")
    assert texts["inv"].get("fill") == "#101010"
    fills = [rect.get("fill") for rect in root.iter(f"{SVG}rect")]
    assert "#010203" in fills
    assert "hidden" not in texts
    assert len(list(root.iter(f"{SVG}path"))) == 2


def test_what_the_program_changed_in_the_palette_is_drawn() -> None:
    svg = screen_of("\x1b]4;1;#00ff11\x07\x1b]11;#223344\x07\x1b[31mx").svg()
    assert 'fill="#00ff11"' in svg
    assert 'fill="#223344"' in svg
    assert 'height="100%" fill="#d8d8d8"' in screen_of("\x1b[?5h").svg()


def test_the_cursor_is_drawn_in_its_shape_or_not_at_all() -> None:
    def boxes(printed: str) -> list[tuple[str | None, str | None]]:
        root = ElementTree.fromstring(screen_of(printed).svg())
        return [(rect.get("width"), rect.get("height")) for rect in root.iter(f"{SVG}rect")][1:]

    assert boxes("ab") == [(f"{CELL_WIDTH}", f"{CELL_HEIGHT}")]
    assert boxes("ab\x1b[?25l") == []
    assert boxes("\x1b[5 q") == [("2.0", f"{CELL_HEIGHT}")]
    assert boxes("日\x1b[D\x1b[3 q") == [(f"{2 * CELL_WIDTH}", "3")]


def test_every_kind_of_line_is_drawn() -> None:
    printed = "".join(f"\x1b[0;4:{kind}ma" for kind in range(1, 6)) + "\x1b[0;53;58:5:1;4mb\x1b[58:2::1:2:3mc"
    root = ElementTree.fromstring(screen_of(printed).svg())
    strokes = [path.get("stroke") for path in root.iter(f"{SVG}path")]
    assert len(strokes) == 6 + 2 + 2
    assert {"#cc6666", "#010203"} <= set(strokes)


def test_links_are_kept_if_they_are_harmless() -> None:
    svg = screen_of("\x1b]8;;https://a/\x07good\x1b]8;;file:///etc\x07bad\x1b]8;;\x07").svg()
    assert [link.get("href") for link in ElementTree.fromstring(svg).iter(f"{SVG}a")] == ["https://a/"]


@pytest.mark.parametrize("shape", range(7))
def test_a_png_shows_attributes_and_the_cursor(shape: int) -> None:
    printed = f"\x1b[1ma\x1b[3mb\x1b[22mc\x1b[0;4:2;9;53md\x1b[0;8mx\x1b[0m日\x1b[D\x1b[{shape} q"
    with_cursor, without = screen_of(printed), screen_of(printed + "\x1b[?25l")
    assert with_cursor.png() != without.png()


def test_a_png_has_the_pixels_of_the_screen() -> None:
    picture = Image.open(BytesIO(screen_of("\x1b[44m\x1b[K\r\n\x1b[0mtext\x1b[?25l").png()))
    assert picture.format == "PNG"
    assert picture.size == (20 * CELL_WIDTH + 2 * MARGIN, 4 * CELL_HEIGHT + 2 * MARGIN)
    assert picture.getpixel((MARGIN + 30, MARGIN + 5)) == (0x81, 0xA2, 0xBE)
    assert picture.getpixel((MARGIN + 30, MARGIN + 3 * CELL_HEIGHT + 5)) == (0x10, 0x10, 0x10)
    letters = picture.crop((MARGIN, MARGIN + CELL_HEIGHT, MARGIN + 4 * CELL_WIDTH, MARGIN + 2 * CELL_HEIGHT))
    assert len(letters.getcolors(1000) or []) > 3


def test_a_png_of_any_program_can_be_made() -> None:
    for stream in (*recorded().values(), *(make() for make in MADE.values())):
        screen = Screen(COLS, ROWS)
        screen.feed(stream[: len(stream) * 2 // 3])
        assert Image.open(BytesIO(screen.png())).size[0] == COLS * CELL_WIDTH + 2 * MARGIN


def test_a_png_that_would_be_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="a PNG of 10000×100 cells would have more than"):
        Screen(10_000, 10_000).png()


@pytest.mark.parametrize(
    ("missing", "code", "sentence"),
    [
        (
            "PIL",
            "from fairlead.terminal.screen.screen import Screen; Screen(5, 2).png()",
            "'fairlead[picture]'",
        ),
        ("pyghostty", "import fairlead.terminal.screen.screen", "--force-reinstall pyghostty"),
    ],
)
def test_without_a_package_one_sentence_names_it(missing: str, code: str, sentence: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{missing!r}] = None\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert last.endswith(f": {INSTALL} {sentence}")
