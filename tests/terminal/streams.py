"""Byte streams to test screens with: recorded from real programs, made by hand, and drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

RECORDINGS = Path(__file__).parents[1] / "data" / "streams"
COLS, ROWS = 80, 24


def recorded() -> dict[str, bytes]:
    """What `record.py` has recorded, by the program's name."""
    return {path.stem: path.read_bytes() for path in sorted(RECORDINGS.glob("*.bin"))}


def progress_bar() -> bytes:
    steps = (b"\r\x1b[32m%-40s\x1b[0m %3d%%" % (b"#" * (step * 2 // 5), step) for step in range(101))
    return b"".join(steps) + b"\r\x1b[Kdone\r\n"


def wide_characters() -> bytes:
    lines = ("日本語テキスト", "한국어 텍스트", "全角と半角 mixed ｆｕｌｌ", "éàü ñ ß ø", "ไทย हिन्दी עברית")
    return "".join(
        f"\x1b[3{number % 8}m{line * 5}\x1b[0m\r\n" for number, line in enumerate(lines * 8)
    ).encode()


def joined_emoji() -> bytes:
    emoji = "👨‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈 ❤️ ☎️ 🇩🇪🇯🇵 e\u0301 a\u0308\u0323 1️⃣"
    text = "".join(f"{number} {emoji} end\r\n" for number in range(20))
    return (text + "\x1b[?2027h" + text + "\x1b[?2027l" + text).encode()


def truecolor() -> bytes:
    rows = []
    for y in range(30):
        cells = (f"\x1b[38;2;{x * 3};{y * 8};128;48;2;{y * 4};0;{x * 2}m▀" for x in range(79))
        rows.append("".join(cells) + "\x1b[0m\r\n")
    return "".join(rows).encode()


def scroll_regions() -> bytes:
    out = b"the shell\r\n$ editor\r\n\x1b[?1049h\x1b[22;0;0t\x1b[1;1H\x1b[7mtop bar\x1b[K\x1b[m"
    out += b"\x1b[24;1H\x1b[44mbottom\x1b[K\x1b[m"
    out += b"\x1b[2;23r\x1b[2;1H" + b"".join(b"line %d\r\n" % number for number in range(40))
    out += b"\x1b[10;1H\x1b[3L\x1b[2M\x1bM\x1b[5S\x1b[2T\x1b[1;24r\x1b[12;40Hmiddle"
    return out + b"\x1b[?1049l\x1b[23;0;0tback in the shell\r\n"


def origin_mode() -> bytes:
    out = b"\x1b[5;15r\x1b[?6h\x1b[1;1Hat the region's top\x1b[11;1Hat its bottom\r\nscrolled\x1b7"
    out += b"\x1b[3;3H\x1b[32mgreen\x1b[?6l\x1b[1;1Habsolute\x1b[?69h\x1b[10;60s\x1b[?6h\x1b[2;2Hinside " * 3
    return out + b"words that wrap within margins " * 6 + b"\x1b[?6l\x1b[?69l\x1b[r\x1b[24;80HX"


def shell_with_marks() -> bytes:
    """What a shell with integration prints (OSC 133, OSC 7, titles)."""
    turn = (
        b"\x1b]133;D;0\x07\x1b]7;file://localhost/src/%d\x07\x1b]2;turn %d\x07"
        b"\x1b]133;A\x07\x1b[32muser\x1b[0m$ \x1b[?2004h\x1b]133;B\x07ls %d\x1b[?2004l\r\r\n"
        b"\x1b]133;C\x07\x1b[34mdir\x1b[0m file\r\n"
    )
    return b"".join(turn % (number, number, number) for number in range(15))


MADE: dict[str, Callable[[], bytes]] = {
    "progress bar": progress_bar,
    "wide characters": wide_characters,
    "joined emoji": joined_emoji,
    "truecolor": truecolor,
    "scroll regions": scroll_regions,
    "origin mode": origin_mode,
    "shell with marks": shell_with_marks,
}

# Small streams, each about one thing that a redraw has to get right. They are cut at every byte.
SMALL: dict[str, bytes] = {
    "nothing": b"",
    "text above blank rows": b"one\r\ntwo\r\n",
    "a blank row above text": b"\r\n\r\nbelow",
    "text that scrolled off": b"".join(b"line %d\r\n" % number for number in range(20)),
    "a long line that wraps": b"abcdefghij" * 9,
    "a wrap before a coloured cell": b"a" * 20 + b"\x1b[41mred\x1b[0m" + b"\r\nx" * 8,
    "a wrap before a coloured cell far down": b"x\r\n" * 8 + b"a" * 20 + b"\x1b[41mred\x1b[0m" + b"\r\ny" * 9,
    "a wrap before a blank": b"a" * 20 + b"b\r\x1b[K\x1b[3Cc",
    "a wide character that did not fit": b"a" * 19 + "日本".encode() + b"\r\n" * 7,
    "a full row that does not wrap": b"x" * 20 + b"\r\ny",
    "waiting to wrap": b"\x1b[3;1H" + b"z" * 20,
    "waiting to wrap after a wide one": b"z" * 18 + "語".encode(),
    "waiting to wrap with another pen": b"\x1b[31m" + b"z" * 20 + b"\x1b[32;44m",
    "blanks with a background": b"\x1b[44mab\x1b[K\r\n\x1b[48;2;9;8;7m\x1b[3;4H\x1b[5X",
    "a screen of one background": b"\x1b[45m\x1b[2J\x1b[4;4Hx",
    "gaps after underlined text": b"\x1b[4mfoo\x1b[0m\x1b[5Cbar\x1b[7m \x1b[0m\x1b[3Cbaz",
    "every attribute": b"\x1b[1ma\x1b[2mb\x1b[3mc\x1b[4md\x1b[5me\x1b[7mf\x1b[8mg\x1b[9mh\x1b[53mi\x1b[0mj",
    "kinds of underlines": b"\x1b[4:2ma\x1b[4:3mb\x1b[4:4mc\x1b[58:5:9md\x1b[4:5;58:2::1:2:3me\x1b[24mf",
    "colours": b"\x1b[31ma\x1b[97mb\x1b[38;5;200mc\x1b[38;2;1;2;3md\x1b[102me\x1b[48;5;17mf\x1b[39;49mg",
    "links": b"\x1b]8;;http://a\x1b\\one\x1b]8;id=x;http://b\x07two\x1b]8;;\x07 no \x1b]8;;http://c\x07open",
    "a link that wraps": b"\x1b]8;;http://long\x07" + b"link " * 9 + b"\x1b]8;;\x07.",
    "protected cells": b'\x1b[1"qsafe\x1b[0"qnot\x1b[?2J\x1bVguard\x1bW\r\n',
    "an alternate screen": b"below\r\n$ vi\x1b[?1049h\x1b[H\x1b[2J~\r\n~\x1b[3;3Habove",
    "back from the alternate screen": b"one\x1b[?1049h\x1b[Htwo\x1b[?1049lthree",
    "an alternate screen with 47": b"one\x1b[?47h\x1b[2Htwo\x1b[?47lthree\x1b[?47hfour",
    "an alternate screen with 1047": b"one\x1b[31m\x1b[?1047h\x1b[2Htwo\x1b7\x1b[?1047lthree",
    "an alternate screen cleared in colour": b"\x1b[44mone\x1b[?1049htwo\x1b[0m\x1b[3;3Hx",
    "a saved cursor": b"ab\x1b[31m\x1b7\x1b[5;5H\x1b[0mcd\x1b8ef",
    "a saved cursor that waits to wrap": b"\x1b[2;1H" + b"q" * 20 + b"\x1b7\x1b[H\x1b8r",
    "saved cursors on both screens": b"a\x1b7\x1b[?1049hb\x1b[4;4H\x1b7\x1b[Hc\x1b8d\x1b[?1049le\x1b8f",
    "a scroll region": b"top\x1b[2;4r\x1b[2;1Ha\r\nb\r\nc\r\nd\r\ne",
    "origin mode in a region": b"\x1b[2;5r\x1b[?6h\x1b[3;4Hx\x1b[?7l",
    "left and right margins": b"\x1b[?69h\x1b[3;12s\x1b[2;3Hwords that wrap inside\x1b[?6h\x1b[1;1Hy",
    "tab stops": b"\x1b[3g\x1b[5G\x1bH\x1b[11G\x1bH\r\ta\tb\x1b[?5W",
    "line drawing": b"\x1b(0lqqk\x1b(B\r\n\x1b)0\x0ex x\x0f\r\n\x0emj",
    "a single shift": b"\x1b*0\x1bNqq\x1bN",
    "insert and linefeed modes": b"abc\x1b[4h\x1b[20h\r123\nx",
    "keyboard modes": b"\x1b[?1h\x1b=\x1b[>1u\x1b[>5u\x1b[?1049h\x1b[>3u\x1b[=8;2u\x1b[>4;2m",
    "a keyboard stack that went round": b"".join(b"\x1b[>%du" % number for number in range(1, 12))
    + b"\x1b[<u",
    "mouse modes": b"\x1b[?1000h\x1b[?1003h\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[?1007l\x1b[>1s",
    "mouse modes given up": b"\x1b[?1003h\x1b[?1000h\x1b[?1000l\x1b[?1006h\x1b[?1015h\x1b[?1015l",
    "paste and other modes": b"\x1b[?2004h\x1b[?5h\x1b[?45h\x1b[?2026h\x1b[?2031h\x1b[?67h\x1b[12l",
    "kept modes": b"\x1b[?2004h\x1b[?2004;1s\x1b[?2004l\x1b[?1h\x1b[?2004r\x1b[?1r",
    "cursor shapes": b"\x1b[3 q\x1b[?25lx\x1b[?1049h\x1b[6 qy\x1b[?1049l\x1b[0 qz\x1b[?12h\x1b[?25h",
    "titles and directories": b"\x1b]0;a title\x07\x1b]7;file://localhost/a%20b\x1b\\\x1b]22;pointer\x07",
    "changed colours": b"\x1b]4;1;#123456;9;rgb:1/2/3\x07\x1b]10;#fefefe\x07\x1b]11;#101\x07\x1b]12;red\x07",
    "changed colours given up": b"\x1b]4;1;#123456\x07\x1b]11;#101010\x07\x1b]104\x07\x1b]111\x07",
    "a repeated character": b"ab\x1b[3b\x1b[2J\x1b[H\x1b[2b",
    "a repeated wide character": "語".encode() + b"\x1b[2b\r\n",
    "combining characters": "e\u0301x\u0308y\u20dd".encode(),
    "joined characters": "\x1b[?2027h👨‍👩‍👧❤️🇩🇪\x1b[?2027l👨‍👩‍👧❤️🇩🇪".encode(),
    "a bar that is erased": b"\x1b[7mstatus\x1b[0m\x1b[1K\x1b[5@\x1b[2P\x1b[3X",
    "other shifts": b"\x1b+0\x1bo\x1b|qq\x1b}\x1b*A\x1bn#\x1bOq\x1bO",
    "a status line": b"shown\x1b[1$}hidden\x1b[0$} again\x1b[1$}",
    "a blinking cursor": b"\x1b[?12hx\x1b[2 q\x1b[?12h\x1b[0 q",
    "a secondary prompt": b"\x1b]133;A\x07$ \x1b]133;B\x07for\r\n\x1b]133;P;k=c\x07> \x1b]133;B\x07x\x1b[K",
    "prompts": b"\x1b]133;A\x07$ \x1b]133;B\x07ls\x1b[K",
}


def _csi(finals: str, low: int = 0, high: int = 9) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda n, f: f"\x1b[{n}{f}".encode(), st.integers(low, high), st.sampled_from(list(finals))
    )


def _private(numbers: list[int]) -> st.SearchStrategy[bytes]:
    return st.builds(lambda n, f: f"\x1b[?{n}{f}".encode(), st.sampled_from(numbers), st.sampled_from("hl"))


def _among(*sequences: Any) -> st.SearchStrategy[bytes]:
    return st.sampled_from([each.encode() if isinstance(each, str) else each for each in sequences])


_text = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=30).map(str.encode),
    _among("日本語", "é", "e\u0301", "┌──┐", "word " * 6, "x" * 25, "🙂", "❤️", "\t"),
)
_moves = st.one_of(
    _among("\r\n", "\r\n\r\n\r\n", "\r", "\n", "\b", "\x1bM", "\x1bD", "\x1bE"),
    st.builds(lambda y, x: f"\x1b[{y};{x}H".encode(), st.integers(1, 9), st.integers(1, 24)),
    _csi("ABCDGdEF"),
)
_edits = st.one_of(
    _csi("XP@LMST", 1, 5), _csi("JK", 0, 2), _among("\x1b[3J", "\x1b[2b", "\x1b[?2J", "\x1b[?K")
)
_styles = st.builds(
    lambda codes: f"\x1b[{';'.join(codes)}m".encode(),
    st.lists(
        st.one_of(
            st.sampled_from((0, 1, 2, 3, 4, 7, 8, 9, 22, 24, 27, 31, 39, 44, 49, 53, 97, 103)).map(str),
            st.sampled_from(("38;5;99", "48;5;17", "48;2;1;2;3", "38;2;9;9;9")),
        ),
        min_size=1,
        max_size=3,
    ),
)
_regions = st.one_of(
    st.builds(lambda t, b: f"\x1b[{t};{b}r".encode(), st.integers(1, 4), st.integers(3, 7)),
    _among("\x1b[r", "\x1b[?6h", "\x1b[?6l"),
)
_modes = st.one_of(
    _private([1, 5, 7, 9, 12, 25, 45, 66, 1000, 1002, 1003, 1004, 1006, 1007, 1015, 2004, 2026, 2031]),
    _among("\x1b[4h", "\x1b[4l", "\x1b[20h", "\x1b[20l", "\x1b[?2004s", "\x1b[?2004r", "\x1b=", "\x1b>"),
)
_screens = _among(
    "\x1b[?1049h", "\x1b[?1049l", "\x1b[?1049h\x1b[H\x1b[2J", "\x1b7", "\x1b8", "\x1b[s", "\x1b[u"
)
_strings = _among(
    "\x1b]2;a title\x07", "\x1b]0;\x1b\\", "\x1b]8;;http://a\x07", "\x1b]8;;\x07", "\x1b]8;id=1;http://b\x1b\\",
    "\x1b]4;3;#334455\x07", "\x1b]104\x07", "\x1b]11;#001122\x07", "\x1b]111\x07", "\x1b]7;file:///x\x07",
    "\x1b]22;wait\x07", "\x1b]52;c;aGk=\x07", "\x1bP$qm\x1b\\", "\x1b_Gi=1;AAAA\x1b\\", "\x1b]9;note\x07",
    "\x07",
)  # fmt: skip
_other = st.one_of(
    _among("\x1b(0qxm\x1b(B", "\x1b)0\x0eab\x0f", "\x1bH", "\x1b[3g", "\x1b[g", "\x1b[I", "\x1b[!p", "\x1bc"),
    _among(
        '\x1b[1"q', '\x1b[0"q', "\x1b[>1u", "\x1b[>9u", "\x1b[<u", "\x1b[=5;1u", "\x1b[>4;2m", "\x1b[>4;0m"
    ),
    _among(*(f"\x1b[{shape} q" for shape in range(7))),
)

streams: st.SearchStrategy[bytes] = st.lists(
    st.one_of(
        _text,
        _text,
        _text,
        _moves,
        _moves,
        _edits,
        _styles,
        _styles,
        _regions,
        _modes,
        _screens,
        _strings,
        _other,
    ),
    max_size=40,
).map(b"".join)
"""What a program might print: text and sequences, each whole, in any order."""
