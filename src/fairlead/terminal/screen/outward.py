"""What a program in a session may say to the terminals of those attached to it. Does no I/O.

A program's output is not trusted: whoever can make it print something (a log, a file, a web page) would
otherwise reach the clipboard, the printer or the keyboard of whoever looks at it. `Outward` passes text and
the sequences on its lists, drops every other sequence, and holds back an unfinished one until its end is
seen. So what it has passed always ends with a whole sequence and a whole character, and no terminal can read
it differently. docs/security.md has the table.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from ...formats.patterns import BytesSearch
from .keyframe import PRIVATE_MODES, SavedMode

MAX_CONTROL = 256
"""How many bytes an escape or control sequence may have; a longer one is dropped."""
MAX_STRING = 16 * 1024
"""How many bytes a command string (OSC, DCS) may have; a longer one is dropped."""
MAX_CLIPBOARD = 256 * 1024
"""The same if programs may set the clipboard."""
MAX_TITLE = 1024
"""How many characters of a title are passed."""
MAX_LINK = 4096
"""How many bytes a link or a directory may have; a longer one is dropped."""
LARGE = 1024
"""From how many bytes on a quicker search with a longer run-up is worth it."""
MAX_KNOWN = 1024
"""How many decisions about sequences are remembered; when there are more, it starts anew."""

_ENQ, _BELL, _ESC = b"\x05", b"\x07", b"\x1b"
_ST = b"\x1b\\"
_C1 = re.compile(rb"\xc2[\x80-\x9f]")

# In a sequence these are carried out (C0) or ignored; CAN, SUB and ESC end it.
_INSIDE = rb"\x00-\x17\x19\x1c-\x1f\x7f-\xff"
_ABORT = rb"(?=[\x18\x1a\x1b])"
# Nearly all that programs print. What has none but these is passed as it is.
_COMMON_ENDS, _MAX_COMMON = rb"@-HJ-MPSXZ`abdefgmrsu", MAX_CONTROL - 3
_COMMON = (
    rb"\[[0-9;:]{0,%d}[%b]" % (_MAX_COMMON, _COMMON_ENDS)
    + rb"|\[\?(?:1|7|12|25|1049|2004|2026)[hl]|[78=>DEHMc]|[()][0B]"
)
# True for all that has any but the first and the last of these, and for some that has not.
_has_rare = BytesSearch(
    rb"\x1b(?:\[[0-9;:]*(?:[^0-9;:%b]|\z)|\[[0-9;:]{%d}|[()](?:[^0B]|\z)|[^\[()78=>DEHMc]|\z)"
    % (_COMMON_ENDS, _MAX_COMMON)
)
# A whole sequence that is not common, or as much of it as there is.
_TOKEN = re.compile(
    rb"\x1b(?!%(common)b)[%(in)b]*(?:"
    rb"\[[ -?%(in)b]*(?:[@-~]|%(abort)b|\Z)"
    rb"|(?P<kind>[\]PX^_])(?:(?<=\])(?P<osc>[^\x07\x18\x1a\x1b]*)(?P<bell>\x07)?|(?P<string>[^\x18\x1a\x1b]*))"
    rb"|[ -/][ -/%(in)b]*(?:[0-~]|%(abort)b|\Z)"
    rb"|[0-~]|%(abort)b|\Z)" % {b"common": _COMMON, b"in": _INSIDE, b"abort": _ABORT}
)
_WHOLE = re.compile(rb"\x1b(?:\[[ -?]*[@-~]|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])")
_OSC_ENDS, _STRING_ENDS = re.compile(rb"[\x07\x18\x1a\x1b]"), re.compile(rb"[\x18\x1a\x1b]")
_IGNORED = bytes((*range(0x18), 0x19, *range(0x1C, 0x20), *range(0x7F, 0x100)))
_CARRIED_OUT = b"\a\b\t\n\v\f\r\x0e\x0f"
_NOT_CARRIED_OUT = bytes(set(range(256)) - set(_CARRIED_OUT))

_CONTROLS = bytes((*range(0x20), 0x7F))

_CSI = re.compile(rb"\x1b\[([<-?]?)([0-9:;]*)([ -/]*)([@-~])")
_CSI_FORMS = frozenset(
    [bytes((final,)) for final in b"@ABCDEFGHIJKLMPSXZ`abcdefgmrsu"]
    + [b">c", b"=c", b">q"]  # who are you
    + [b"$p", b"?$p", b"?m", b"?u"]  # which mode, which keys
    + [b">m", b">n", b">s", b">u", b"<u", b"=u"]  # keys
    + [b" q", b'"q', b"?J", b"?K", b"?W", b"!p", b"$}"]
)
"""Control sequences that are passed whatever their parameters, by prefix, intermediates and final."""
_PRIVATE_MODES = frozenset(
    b"%d" % number
    for mode, number in PRIVATE_MODES.items()
    if mode not in (SavedMode.COLUMNS_132, SavedMode.ALLOW_COLUMNS_132, SavedMode.PASTE_EVENTS)
)
"""Those the emulator has, but not those that resize the window or tell what the clipboard has."""
_CSI_LISTED = {
    b"h": frozenset((b"4", b"20")),
    b"l": frozenset((b"4", b"20")),
    b"?h": _PRIVATE_MODES,
    b"?l": _PRIVATE_MODES,
    b"?r": _PRIVATE_MODES,
    b"?s": _PRIVATE_MODES,
    b"n": frozenset((b"5", b"6")),
    b"?n": frozenset((b"6", b"996")),
}
"""Those of which only parameters on a list are passed."""
_CSI_EXACT = {
    b"t": re.compile(rb"(?:14|16|18)(?:;[0-2])?|2[23](?:;[0-9]{1,2}){0,2}"),  # sizes, title stack
    b"T": re.compile(rb"[0-9]*"),
}
_ESCAPES = re.compile(rb"\x1b(?:[78=>DEHMNOVWcno|}~]|[()*+][0AB]|#8)")
_OSC = re.compile(rb"([0-9]{1,4})(?:;(.*))?", re.DOTALL)
_COLORS = re.compile(rb"[0-9A-Za-z#:/;?.,% -]*")
_COLOR_COMMANDS = (4, 10, 11, 12, 104, 110, 111, 112)
_POINTER = re.compile(rb"[a-z-]{0,32}")
_MARK = re.compile(rb"([ABCDILNP])((?:;(?:k=[a-z]|[0-9]{1,10})(?=;|\Z))*)")
_CLIPBOARD = re.compile(rb"[cpqs0-7]{0,16};[A-Za-z0-9+/]*={0,2}")
# Not of kitty's: what the terminal would answer. Not of ConEmu's: macros, programs, message boxes.
_NOTIFICATIONS = {
    9: re.compile(rb"4;[0-4](?:;[0-9]{1,3})?|(?![0-9]+(?:;|\Z)).*", re.DOTALL),
    99: re.compile(rb"(?!(?:[^;]*:)?(?:p=(?!title|body)|a=[^:;]*report)).*", re.DOTALL),
    777: re.compile(rb"notify;.*", re.DOTALL),
}
_SETTING = re.compile(rb"\$q(?:m|r|s| q|\"q)")
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class Allowed(NamedTuple):
    """What programs may do beyond what is always passed."""

    clipboard: bool = False
    """Set the clipboard; never read it."""
    notifications: bool = False
    """Show notifications and progress on the desktop of those attached."""


NOTHING_MORE = Allowed()


class Outward:
    """The filter of one stream of output. Cut anywhere, a stream gives the same bytes.

    >>> outward = Outward()
    >>> outward.feed(b"one \\x1b[1mtwo\\x1b[0m \\x1b]52;c;ZXZpbA")
    b'one \\x1b[1mtwo\\x1b[0m '
    >>> outward.feed(b"==\\x07three")
    b'three'
    """

    def __init__(self, allowed: Allowed = NOTHING_MORE) -> None:
        self._allowed = allowed
        self._max_string = MAX_CLIPBOARD if allowed.clipboard else MAX_STRING
        self.restart()

    def restart(self, unfinished: bytes = b"") -> None:
        """Begin anew, in the middle of a sequence or character if there is one."""
        self._character = b""  # the beginning of a character
        self._control = b""  # the beginning of a sequence
        self._string: bytearray | None = None  # the beginning of a command string
        self._kind = b""  # what introduced it
        self.feed(unfinished)

    def feed(self, data: bytes) -> bytes:
        """Take what the program printed; returns what the terminals may see of it now."""
        if self._character or not data.isascii():
            data = self._characters(self._character + data)
        if _ENQ in data:
            data = data.replace(_ENQ, b"")
        before = b""
        if self._string is not None:
            before, data = self._end_string(data)
        elif self._control:
            data = self._control + data
            self._control = b""
        if (len(data) < LARGE or _has_rare(data)) and _TOKEN.search(data) is not None:
            data = _TOKEN.sub(self._token, data)
        return before + data if before else data

    def alone(self, data: bytes) -> bytes:
        """What terminals may see of output that stands for itself; its unfinished end is left out."""
        return Outward(self._allowed).feed(data)

    def _characters(self, data: bytes) -> bytes:
        """Whole characters without C1 controls; what is no UTF-8 becomes U+FFFD, as terminals show it."""
        try:
            size = codecs.utf_8_decode(data, "strict", False)[1]
            whole = data[:size]
        except UnicodeDecodeError:
            text, size = codecs.utf_8_decode(data, "replace", False)
            whole = text.encode()
        self._character = data[size:]
        return _C1.sub(b"", whole) if b"\xc2" in whole else whole

    # --- sequences ----------------------------------------------------------------------------------------

    def _token(self, found: re.Match[bytes]) -> bytes:
        """What is passed of a sequence, or of a command string, and what it does at once."""
        token, is_last = found[0], found.end() == len(found.string)
        if token in _known and not is_last:
            return _known[token]
        if found["kind"] is None:
            return self._sequence(token, is_last=is_last)
        start, kind, body = found.start(), found["kind"], found["osc"]
        if body is None:
            body = found["string"]
        done = token[: found.end("kind") - start].translate(None, _NOT_CARRIED_OUT)
        end = found["bell"] or found.string[found.end() : found.end() + 1]
        if end:
            return done + self._judge(kind, body, end)
        self._kind, self._string = kind, bytearray(body[: self._max_string + 1])
        return done

    def _sequence(self, token: bytes, *, is_last: bool) -> bytes:
        passed = token.translate(None, _NOT_CARRIED_OUT)
        plain = token.translate(None, _IGNORED)
        if _WHOLE.fullmatch(plain):
            if len(plain) <= MAX_CONTROL:
                passed += _passed(plain)
        elif is_last:  # else it is given up for what follows
            self._control = plain[: MAX_CONTROL + 1]
        if len(token) <= MAX_CONTROL and not is_last:
            if len(_known) >= MAX_KNOWN:
                _known.clear()
            _known[token] = passed
        return passed

    # --- command strings ----------------------------------------------------------------------------------

    def _end_string(self, data: bytes) -> tuple[bytes, bytes]:
        """Go on with a command string: what is passed of it, and what comes after it."""
        assert self._string is not None
        found = (_OSC_ENDS if self._kind == b"]" else _STRING_ENDS).search(data)
        end = len(data) if found is None else found.start()
        self._string += data[: min(end, self._max_string + 1 - len(self._string))]
        if found is None:
            return b"", b""
        body = bytes(self._string)
        self._string = None
        return self._judge(self._kind, body, found[0]), data[end + (found[0] == _BELL) :]

    def _judge(self, kind: bytes, body: bytes, end: bytes) -> bytes:
        """What is passed of a whole command string. An ESC that ended it is not yet the end's."""
        if len(body) > self._max_string or end not in (_BELL, _ESC):  # CAN and SUB give it up
            return b""
        if kind == b"P":
            passed = body if _SETTING.fullmatch(body) else None
        elif kind == b"]" and (command := _OSC.fullmatch(body)):
            passed = self._command(int(command[1]), command[2], body)
        else:
            passed = None
        if passed is None:
            return b""
        return b"\x1b" + kind + passed + (_BELL if end == _BELL else _ST)

    def _command(self, number: int, rest: bytes | None, body: bytes) -> bytes | None:
        """An operating system command as it is passed, or None."""
        match number:
            case 0 | 1 | 2:
                return b"%d;%b" % (number, _cleaned(rest or b"", MAX_TITLE))
            case 7 | 8:
                body = body.translate(None, _CONTROLS)
                return body if len(body) <= MAX_LINK else None
            case _ if number in _COLOR_COMMANDS:
                return body if _COLORS.fullmatch(body) else None
            case 22:
                return body if _POINTER.fullmatch(rest or b"") else None
            case 133:
                mark = _MARK.match(rest or b"")
                return b"133;" + mark[0] if mark else None
            case 52 if self._allowed.clipboard:
                return body if _CLIPBOARD.fullmatch(rest or b"") else None
            case 9 | 99 | 777 if self._allowed.notifications:
                return _cleaned(body, MAX_STRING) if _NOTIFICATIONS[number].fullmatch(rest or b"") else None
        return None


_known: dict[bytes, bytes] = {}
"""What is passed of escape and control sequences that came lately."""


def _passed(sequence: bytes) -> bytes:
    """What is passed of a whole escape or control sequence."""
    control = _CSI.fullmatch(sequence)
    if control is None:
        return sequence if _ESCAPES.fullmatch(sequence) else b""
    prefix, parameters, intermediates, final = control.groups()
    form = prefix + intermediates + final
    if form in _CSI_FORMS:
        return sequence
    if form in _CSI_LISTED:
        allowed = [each for each in parameters.split(b";") if each.lstrip(b"0") in _CSI_LISTED[form]]
        return b"\x1b[" + prefix + b";".join(allowed) + intermediates + final if allowed else b""
    if form in _CSI_EXACT and _CSI_EXACT[form].fullmatch(parameters):
        return sequence
    return b""


def _cleaned(text: bytes, size: int) -> bytes:
    """A text without controls and changes of writing direction, cut to so many characters."""
    return _UNSAFE.sub("", text.decode("utf-8", "replace"))[:size].encode()
