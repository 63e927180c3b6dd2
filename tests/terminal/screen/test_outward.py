"""What programs can't do to the terminals of those attached: the rows of docs/security.md, byte for byte.

Every row is printed by a real program in a real session. It is read by keepty's own SDK, by `fairlead attach`
on a real terminal, by a client that comes later, and by `fairlead play` of the recording.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import keepty as sdk
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from keepty.protocol import Frame, MsgKind

from fairlead.terminal.screen.outward import (
    LARGE,
    MAX_CLIPBOARD,
    MAX_CONTROL,
    MAX_KNOWN,
    MAX_LINK,
    MAX_STRING,
    MAX_TITLE,
    Allowed,
    Outward,
)
from fairlead.terminal.screen.screen import Screen
from fairlead.ui.translate import Translator
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting
from tests.recordings import recorded_output
from tests.terminal import streams

END = b"<the end>"
DROPPED = {
    # clipboard
    "clipboard set": b"\x1b]52;c;aGVsbG8=\x07",
    "clipboard set, ended by ST": b"\x1b]52;p;aGVsbG8=\x1b\\",
    "clipboard query": b"\x1b]52;c;?\x07",
    "clipboard, zeros in front": b"\x1b]0052;c;?\x07",
    "kitty clipboard": b"\x1b]5522;type=read;Lg==\x1b\\",
    "paste events": b"\x1b[?5522h",
    # printer, files, logs, programs
    "print the screen": b"\x1b[i",
    "print what follows": b"\x1b[5i",
    "print the line": b"\x1b[?1i",
    "print, a control inside": b"\x1b[5\x00i",
    "print, an ESC before": b"\x1b\x1b[4i",
    "print extent": b"\x1b[?19h",
    "log to a file": b"\x1b[?46h",
    "name of the log": b"\x1b]46;/tmp/log\x07",
    "iTerm2 file": b"\x1b]1337;File=name=eA==;inline=1:AAAA\x07",
    "iTerm2 report": b"\x1b]1337;ReportVariable=cGF0aA==\x07",
    "kitty file transfer": b"\x1b]5113;ac=send;id=x\x1b\\",
    "X property": b"\x1b]3;_NET_WM_NAME=x\x07",
    "emacs": b"\x1b]51;E(delete-file)\x07",
    # what the terminal would type
    "title report": b"\x1b[21t",
    "icon title report": b"\x1b[20t",
    "window state": b"\x1b[11t",
    "window position": b"\x1b[13t",
    "answerback": b"\x05",
    "user keys": b"\x1bP0;1|17/41\x1b\\",
    "macro": b"\x1bP1;0;0!z6563686f\x1b\\",
    "run macro": b"\x1b[1*z",
    "checksum of the screen": b"\x1b[1;1;1;1;2;2*y",
    "terminal parameters": b"\x1b[x",
    "capabilities": b"\x1bP+q544e\x1b\\",
    "unknown setting": b"\x1bP$qecho\x1b\\",
    "saved tabs": b"\x1b[2$w",
    "kitty colours": b"\x1b]21;foreground=?\x07",
    "font": b"\x1b]50;?\x07",
    "locator": b"\x1b['|",
    "mouse highlight": b"\x1b[?1001h\x1b[1;1;1;2;2T",
    "printer status": b"\x1b[?15n",
    "title modes": b"\x1b[>0t",
    # the window
    "resize": b"\x1b[8;50;132t",
    "iconify": b"\x1b[2t",
    "move": b"\x1b[3;0;0t",
    "132 columns": b"\x1b[?40h\x1b[?3h",
    # the keyboard and how bytes are read
    "keyboard lock": b"\x1b[2h",
    "local echo": b"\x1b[12l",
    "VT52": b"\x1b[?2l",
    "Tektronix": b"\x1b[?38h",
    "not UTF-8": b"\x1b%@",
    "8-bit answers": b"\x1b G",
    "conformance": b'\x1b[62;0"p',
    "lights": b"\x1b[1q",
    "self test": b"\x1b[4;1y",
    "console": b"\x1b[12;3]",
    # notifications
    "iTerm2 notification": b"\x1b]9;hello\x07",
    "progress": b"\x1b]9;4;1;50\x07",
    "ConEmu macro": b"\x1b]9;6;Shell\x07",
    "kitty notification": b"\x1b]99;i=1;hello\x1b\\",
    "rxvt notification": b"\x1b]777;notify;title;body\x07",
    # pictures, and strings for somebody else
    "sixel": b"\x1bPq#0;2;0;0;0~~@@\x1b\\",
    "kitty picture": b"\x1b_Gf=24,s=1,v=1;AAAA\x1b\\",
    "tmux passthrough": b"\x1bPtmux;\x1b\x1b]52;c;aGVsbG8=\x07\x1b\\",
    "APC": b"\x1b_anything\x1b\\",
    "PM": b"\x1b^anything\x1b\\",
    "SOS": b"\x1bXanything\x1b\\",
}
CHANGED = {
    # printed, and what comes through
    "title": (b"\x1b]0;a\x01\xc2\x9bb\xe2\x80\xaec\x07", b"\x1b]0;abc\x07"),
    "long title": (b"\x1b]2;%b\x07" % (b"x" * 5000), b"\x1b]2;%b\x07" % (b"x" * MAX_TITLE)),
    "screen's title": (b"\x1bkname\x1b\\", b"name"),
    "link": (b"\x1b]8;;http://a\tb\x1b\\x\x1b]8;;\x1b\\", b"\x1b]8;;http://ab\x1b\\x\x1b]8;;\x1b\\"),
    "directory": (b"\x1b]7;file:///a\nb\x07", b"\x1b]7;file:///ab\x07"),
    "prompt": (b"\x1b]133;A;click_events=1\x07", b"\x1b]133;A\x07"),
    "modes": (b"\x1b[?25;46;7h\x1b[2;4h\x1b[4l", b"\x1b[?25;7h\x1b[4h\x1b[4l"),
    "C1 in UTF-8": (b"\xc2\x9b5i\xc2\x9d52;c;?\xc2\x9c\xc2\x90q\xc2\x9c", b"5i52;c;?q"),
    "C1 in 8 bits": (b"\x9b5i\x9d52;c;?\x9c", b"\xef\xbf\xbd5i\xef\xbf\xbd52;c;?\xef\xbf\xbd"),
    "no UTF-8": (b"caf\xe9 \xe2\x94 \xc0\x9b5i", "caf\ufffd \ufffd \ufffd\ufffd5i".encode()),
    "given up": (b"\x1b]52;c;aGk\x18=\x1b[5\x1ai\x1b]2;x\x1b[m", b"\x18=\x1ai\x1b]2;x\x1b\\\x1b[m"),
    "controls inside": (b"a\x1b[1\b;3\x7f1mb\x1b[m", b"a\b\x1b[1;31mb\x1b[m"),
}
PASSED = {
    "text": "Grüße, 日本 ─│ 👩🏽‍💻\a\b\t".encode(),
    "colours": b"\x1b[1;38;5;39m\x1b[48:2::1:2:3m\x1b[4:3m\x1b[0m",
    "which terminal": b"\x1b[c\x1b[>c\x1b[=c\x1b[>0q",
    "status and cursor": b"\x1b[5n\x1b[6n\x1b[?6n",
    "keyboard": b"\x1b[?u\x1b[>1u\x1b[<u\x1b[>4;2m\x1b[?4m\x1b[>4m",
    "modes asked": b"\x1b[?2026$p\x1b[4$p",
    "settings asked": b"\x1bP$qm\x1b\\\x1bP$q q\x1b\\",
    "colours asked": b"\x1b]10;?\x07\x1b]11;?\x1b\\\x1b]4;1;?\x07\x1b[?996n",
    "sizes asked": b"\x1b[14t\x1b[16t\x1b[18t",
    "title kept": b"\x1b[22;0;0t\x1b[23;0;0t",
    "palette": b"\x1b]4;1;rgb:aa/bb/cc\x07\x1b]104\x07\x1b]11;#102030\x07\x1b]111\x07",
    "mouse and paste": b"\x1b[?1000;1006h\x1b[?2004h\x1b[?2004l\x1b[?1000;1006l",
    "cursor": b"\x1b[5 q\x1b7\x1b8\x1b[?25l\x1b[?25h\x1b[0 q",
    "character sets": b"\x1b(0\x1b(B\x1b)0\x0e\x0f\x1b)B",
    "pointer": b"\x1b]22;pointer\x07\x1b]22;text\x07",
}
OPENED = {
    "clipboard set": (b"\x1b]52;c;aGVsbG8=\x07", b"\x1b]52;c;aGVsbG8=\x07"),
    "clipboard query": (b"\x1b]52;c;?\x07", b""),
    "clipboard, no base64": (b"\x1b]52;c;!\x07", b""),
    "kitty clipboard": (b"\x1b]5522;type=read;Lg==\x1b\\", b""),
    "notification": (b"\x1b]9;hello\x02\x07", b"\x1b]9;hello\x07"),
    "rxvt notification": (b"\x1b]777;notify;title;body\x07", b"\x1b]777;notify;title;body\x07"),
    "rxvt program": (b"\x1b]777;precmd\x07", b""),
    "progress": (b"\x1b]9;4;1;50\x07", b"\x1b]9;4;1;50\x07"),
    "ConEmu program": (b"\x1b]9;7;rm\x07", b""),
    "kitty notification": (b"\x1b]99;i=1:d=0;p=a\x1b\\", b"\x1b]99;i=1:d=0;p=a\x1b\\"),
    "kitty report": (b"\x1b]99;i=evil:a=focus,report;x\x1b\\", b""),
    "kitty question": (b"\x1b]99;i=evil:p=?;\x1b\\", b""),
}
ROWS = {
    **{name: (printed, b"") for name, printed in DROPPED.items()},
    **CHANGED,
    **{name: (printed, printed) for name, printed in PASSED.items()},
}


class Seen(NamedTuple):
    """What reached each kind of client."""

    sdk: bytes
    attached: bytes
    later: bytes
    played: bytes
    piped: bytes
    jumped: bytes
    recording: str


def _row(name: str, content: bytes) -> bytes:
    return b"<%b>%b</%b>" % (name.encode(), content, name.encode())


def _slice(seen: bytes, name: str) -> bytes:
    return seen.partition(b"<%b>" % name.encode())[2].partition(b"</%b>" % name.encode())[0]


def _read(session: sdk.Session, last: bytes) -> bytes:
    seen = b""
    while last not in seen:
        frame = Frame.read_from(session._sock)
        assert frame is not None, seen
        if frame.kind == MsgKind.OUTPUT:
            seen += frame.payload
    return seen


def _connected(role: sdk.Role = sdk.Role.WATCHER) -> sdk.Session:
    session = sdk.Session.connect("work", role, 80, 24)
    session._sock.settimeout(WAIT)
    return session


def _shown(hosting: Hosting, rows: dict[str, tuple[bytes, bytes]]) -> Seen:
    """Print all rows, and collect what all clients get."""
    begin, text, cast = (hosting.directory / name for name in ("begin", "text", "work.cast"))
    os.mkfifo(begin)
    text.write_bytes(b"".join(_row(name, printed) for name, (printed, _) in rows.items()) + END)
    script = f"stty raw -echo; printf ready; read go < {begin}; cat {text}; exec sleep 1000"
    hosting.start("work", script, f"--record={cast}")
    hosting.wait_text("work", "ready")
    with _connected(sdk.Role.WRITER) as writer, Person(hosting, "attach", "-w", "work") as watcher:
        watcher.until("ready")
        begin.write_text("go\n")
        live = _read(writer, END)
        watcher.until(END.decode())
        with _connected() as late:
            later = _read(late, END)
        attached = watcher.seen
    hosting.run("record", "work", "--stop")
    with Person(hosting, "play", str(cast), "--speed", "1000") as player:
        player.until(END.decode())
        played = player.seen
    play = [sys.executable, "-m", "fairlead", "play", str(cast)]
    piped = subprocess.run(play, capture_output=True, env=hosting.environment, timeout=WAIT, check=True)
    play += ["--from", "1000000"]
    jumped = subprocess.run(play, capture_output=True, env=hosting.environment, timeout=WAIT, check=True)
    return Seen(live, attached, later, played, piped.stdout, jumped.stdout, recorded_output(cast))


def _hosted(rows: dict[str, tuple[bytes, bytes]], **settings: str) -> Iterator[Seen]:
    hosting = Hosting(settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", hosting.environment["XDG_RUNTIME_DIR"])
        try:
            yield _shown(hosting, rows)
        finally:
            hosting.close()


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    yield from _hosted(ROWS)


@pytest.fixture(scope="module")
def seen_opened() -> Iterator[Seen]:
    yield from _hosted(OPENED, FAIRLEAD_ATTACH_CLIPBOARD="true", FAIRLEAD_ATTACH_NOTIFICATIONS="true")


def _check(seen: Seen, name: str, printed: bytes, passed: bytes) -> None:
    for client in ("sdk", "attached", "played", "piped"):
        bytes_seen = getattr(seen, client)
        if client in ("played", "piped"):  # a recording is text
            passed = passed.decode("utf-8", "replace").encode()
        assert _slice(bytes_seen, name) == passed, f"{client}, of {printed!r}"
    if not passed:
        assert printed not in seen.later
        assert printed not in seen.jumped


@pytest.mark.parametrize("name", DROPPED)
def test_what_a_terminal_must_not_act_on_reaches_no_client(seen: Seen, name: str) -> None:
    _check(seen, name, *ROWS[name])


@pytest.mark.parametrize("name", CHANGED)
def test_what_can_be_made_harmless_is_cleaned_for_every_client(seen: Seen, name: str) -> None:
    _check(seen, name, *ROWS[name])


@pytest.mark.parametrize("name", PASSED)
def test_what_programs_need_comes_through_as_it_is(seen: Seen, name: str) -> None:
    _check(seen, name, *ROWS[name])


@pytest.mark.parametrize("name", OPENED)
def test_settings_open_the_clipboard_and_notifications_but_no_way_back(seen_opened: Seen, name: str) -> None:
    _check(seen_opened, name, *OPENED[name])


def test_a_recording_has_all_that_was_printed(seen: Seen) -> None:
    for name in ("clipboard set", "tmux passthrough", "sixel"):
        assert _row(name, DROPPED[name]).decode() in seen.recording


def test_a_redraw_of_hostile_titles_links_and_modes_is_clean(seen: Seen) -> None:
    cleared = Translator(alternate=False).translate(b"\x1bc")  # the player's own
    for redraw in (seen.later, seen.jumped.replace(cleared, b"")):
        assert b"\x1b]2;" in redraw
        assert b"\x1b]2;%b" % (b"x" * (MAX_TITLE + 1)) not in redraw
        assert Outward().feed(redraw) == redraw


def test_a_sequence_cut_by_a_client_that_comes_and_a_daemon_that_dies_is_still_dropped() -> None:
    hosting = Hosting()
    gates = [hosting.directory / f"gate{number}" for number in range(3)]
    for gate in gates:
        os.mkfifo(gate)
    script = (
        rf"stty raw -echo; printf 'ready\033]52;c;c2Vj'; read go < {gates[0]}; "
        rf"printf 'cmV0\007between\342'; read go < {gates[1]}; printf '\224\202after\033]52;c;bW9y'; "
        rf"read go < {gates[2]}; printf 'ZQ==\007<the end>'; exec sleep 1000"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", hosting.environment["XDG_RUNTIME_DIR"])
        try:
            hosting.start("work", script)
            hosting.wait_text("work", "ready")
            with _connected() as first:
                assert b"c2Vj" not in _read(first, b"ready")
                gates[0].write_text("go\n")
                seen = _read(first, b"between")
                with _connected() as second:
                    _read(second, b"between")
                    gates[1].write_text("go\n")
                    assert _read(first, b"after") == "\u2502after".encode()
                    assert _read(second, b"after") == "\u2502after".encode()
            assert b"cmV0" not in seen
            with sdk.Session.connect("work", sdk.Role.WRITER, 90, 24) as writer:
                writer._sock.settimeout(WAIT)  # a new size needs a keyframe, and that is in the sequence
                while (frame := Frame.read_from(writer._sock)) and frame.kind != MsgKind.RESIZE_ACK:
                    pass
            hosting.kill_daemon()
            hosting.wait_text("work", "after")
            with _connected() as third:
                redraw = _read(third, b"after")
                gates[2].write_text("go\n")
                rest = _read(third, END)
            assert b"bW9y" not in redraw
            assert rest == END
        finally:
            hosting.close()


def test_an_emulated_terminal_types_neither_title_nor_clipboard() -> None:
    with Screen(80, 24) as screen:
        screen.feed(b"\x1b]2;evil\x07\x1b]52;c;ZXZpbA==\x07\x1b[21t\x1b[20t\x1b]52;c;?\x07\x05\x1b]50;?\x07")
        assert screen.take_replies() == b""


# --- the filter alone --------------------------------------------------------------------------------------


def _cut(data: bytes, cuts: list[int], allowed: Allowed) -> bytes:
    outward = Outward(allowed)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return b"".join(outward.feed(data[start:end]) for start, end in pairwise(places))


PIECES = st.sampled_from(
    [
        *(bytes((byte,)) for byte in range(256)),
        *(
            b"\x1b[",
            b"\x1b]",
            b"\x1b]52;c;",
            b"\x1b]2;",
            b"\x1bP",
            b"\x1b\\",
            b"\x1b[?",
            b"\xc2\x9b",
            b"\xe2\x94",
        ),
        *(printed for printed, _ in ROWS.values()),
        b"x" * MAX_CONTROL,
        b"1" * (MAX_CONTROL - 3),
    ]
)


@given(st.lists(PIECES | st.binary(max_size=8)).map(b"".join), st.lists(st.integers(0, 400)), st.booleans())
@example(b"\x1b[" + b"1" * 300 + b"mx", [1, 2, 290], False)
@example(b"\x1b[5ix", [], False)
@example(b"\x1b(%x", [], False)
@example(b"\x1b(", [], False)
@example(b"\x1bZx", [], False)
@example(b"\x1b", [], False)
@example(b"\x1b[3", [], False)
@example(b"\x1b" + b"\n" * 300 + b"[5mx", [280], False)
@example(b"\x1b]2;" + b"t" * (MAX_STRING + 9) + b"\x07x", [100, MAX_STRING], False)
def test_cut_anywhere_a_stream_gives_the_same_and_passes_a_second_time(
    data: bytes, cuts: list[int], is_open: bool
) -> None:
    allowed = Allowed(is_open, is_open)
    whole = Outward(allowed).feed(data)
    assert _cut(data, cuts, allowed) == whole
    assert _cut(data, list(range(len(data))), allowed) == whole
    text = b"x" * LARGE  # in much text it is searched for in another way
    assert Outward(allowed).feed(text + data) == text + whole
    assert Outward(allowed).feed(whole) == whole  # so nothing new has come about by leaving something out
    whole.decode("utf-8")


@pytest.mark.parametrize("name", streams.recorded())
def test_what_real_programs_print_looks_the_same(name: str) -> None:
    data = streams.recorded()[name]
    passed = Outward().feed(data)
    for dropped in (b"\x1b[?7727h", b"\x1b[?7727l", b"\x1bPzz\x1b\\", b"\x1b[0%m"):
        data = data.replace(dropped, b"")
    assert passed == data


def test_what_never_ends_is_not_kept() -> None:
    outward = Outward(Allowed(clipboard=True))
    assert outward.feed(b"\x1b]52;c;") == b""
    for _ in range(64):
        assert outward.feed(b"A" * MAX_STRING) == b""
    assert len(outward._string or b"") <= MAX_CLIPBOARD + 1
    assert outward.feed(b"\x07on") == b"on"
    assert outward.feed(b"\x1b[") == b""
    for _ in range(64):
        assert outward.feed(b"1;" * MAX_CONTROL) == b""
    assert len(outward._control) <= MAX_CONTROL + 1
    assert outward.feed(b"mon") == b"on"


def test_what_is_too_long_is_dropped_and_what_just_fits_is_not() -> None:
    for command, size in ((b"8;;", MAX_LINK), (b"7;", MAX_LINK)):
        body = command + b"x" * (size - len(command))
        assert Outward().feed(b"\x1b]%b\x07" % body) == b"\x1b]%b\x07" % body
        assert Outward().feed(b"\x1b]%bx\x07" % body) == b""
    sequence = b"\x1b[" + b"1" * (MAX_CONTROL - 3) + b"m"
    assert Outward().feed(sequence) == sequence
    assert Outward().feed(sequence[:-1] + b"1m") == b""


def test_many_different_sequences_are_judged_right() -> None:
    outward = Outward()
    for number in range(3 * MAX_KNOWN):
        asked = b"\x1b[?%d$p" % number
        assert outward.feed(b"\x1b[%di" % number + asked + b"x") == asked + b"x"
