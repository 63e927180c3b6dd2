"""The line that a person types in a chat: keys out of bytes, editing, and what was typed before.

It is ours and not `readline`'s, because that one blocks until Enter: what other clients say, a question that
somebody else answered and the loss of the daemon could not be shown meanwhile. Only `History` touches a file.
"""

from __future__ import annotations

import codecs
import contextlib
import os

from .view import width, wrapped

MAX_TYPED = 1024 * 1024
"""How many characters a line may have; more is not taken."""
MAX_SEQUENCE = 64
"""How many bytes of an escape sequence are looked at."""
MAX_HISTORY = 1000
"""How many lines are remembered."""
MAX_HISTORY_BYTES = 1024 * 1024

Key = tuple[str, str]
"""Its kind and what it is: `("text", "a")`, `("paste", "…")` or `("key", "enter")`."""

_CONTROLS = {
    0x01: "home",
    0x02: "left",
    0x03: "interrupt",
    0x04: "end-of-input",
    0x05: "end",
    0x06: "right",
    0x08: "backspace",
    0x0A: "enter",
    0x0B: "kill",
    0x0C: "redraw",
    0x0D: "enter",
    0x0E: "down",
    0x10: "up",
    0x15: "kill-before",
    0x17: "kill-word",
    0x19: "yank",
    0x1A: "suspend",
    0x7F: "backspace",
}
_SEQUENCES = {
    b"[A": "up",
    b"[B": "down",
    b"[C": "right",
    b"[D": "left",
    b"[H": "home",
    b"[F": "end",
    b"[1~": "home",
    b"[7~": "home",
    b"[4~": "end",
    b"[8~": "end",
    b"[3~": "delete",
    b"[1;5C": "word-right",
    b"[1;3C": "word-right",
    b"[1;5D": "word-left",
    b"[1;3D": "word-left",
    b"f": "word-right",
    b"b": "word-left",
    b"\x7f": "kill-word",
    b"\r": "newline",
    b"\n": "newline",
}
_PASTE, _PASTED = b"[200~", b"\x1b[201~"


class Keys:
    """Gives the keys of what is typed, across reads."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._sequence: bytearray | None = None
        self._paste: bytearray | None = None

    @property
    def is_pending(self) -> bool:
        """Whether an Escape has come of which it is not known whether more follows; `flush` gives it."""
        return self._sequence is not None

    def feed(self, data: bytes) -> list[Key]:
        keys: list[Key] = []
        for value in data:
            if self._paste is not None:
                self._pasted(value, keys)
            elif self._sequence is not None:
                self._followed(value, keys)
            elif value == 0x1B:
                self._sequence = bytearray()
            elif value < 0x20 or value == 0x7F:
                keys.append(("text", "\t") if value == 9 else ("key", _CONTROLS.get(value, "")))
            elif text := self._text.decode(bytes((value,))):
                keys.append(("text", text))
        return keys

    def flush(self) -> list[Key]:
        """No more came: it was the key Escape."""
        self._sequence = None
        return [("key", "escape")]

    def _pasted(self, value: int, keys: list[Key]) -> None:
        assert self._paste is not None
        self._paste.append(value)
        if len(self._paste) > MAX_TYPED + len(_PASTED):  # the rest is dropped, but its end must be seen
            del self._paste[MAX_TYPED : -len(_PASTED)]
        if self._paste.endswith(_PASTED):
            text = bytes(self._paste[: -len(_PASTED)]).decode("utf-8", "replace")
            keys.append(("paste", text.replace("\r\n", "\n").replace("\r", "\n")))
            self._paste = None

    def _followed(self, value: int, keys: list[Key]) -> None:
        sequence = self._sequence
        assert sequence is not None
        if value == 0x1B:  # the one before was a key of its own
            keys += self.flush()
            self._sequence = bytearray()
            return
        sequence.append(value)
        is_control = sequence.startswith((b"[", b"O"))
        if is_control and (len(sequence) == 1 or 0x20 <= value < 0x40) and len(sequence) < MAX_SEQUENCE:
            return
        self._sequence = None
        if sequence == _PASTE:
            self._paste = bytearray()
            return
        found = bytes(sequence)
        if found[:1] == b"O":  # as some terminals have it for the arrows
            found = b"[" + found[1:]
        keys.append(("key", _SEQUENCES.get(found, "")))


class History:
    """What was typed before, in a file that only our user may read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.entries: list[str] = []
        with contextlib.suppress(OSError), open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_HISTORY_BYTES))
            lines = file.read(MAX_HISTORY_BYTES).decode("utf-8", "replace").removesuffix("\n").split("\n")
            self.entries = [_unescaped(line) for line in lines[-MAX_HISTORY:] if line]
            os.fchmod(file.fileno(), 0o600)  # whoever made it
            if size > MAX_HISTORY_BYTES or len(lines) > MAX_HISTORY:
                self._rewrite()

    def add(self, text: str) -> None:
        """Remember a line, if it is not the last one again."""
        if not text.strip() or self.entries[-1:] == [text]:
            return
        self.entries.append(text)
        del self.entries[:-MAX_HISTORY]
        with contextlib.suppress(OSError):
            self._write([text], os.O_APPEND)

    def _rewrite(self) -> None:
        self._write(self.entries[-MAX_HISTORY // 2 :], os.O_TRUNC)

    def _write(self, entries: list[str], flag: int) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flag, 0o600)
        with open(file, "wb", buffering=0) as out:
            out.write("".join(f"{_escaped(each)}\n" for each in entries).encode("utf-8", "replace"))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "")


def _unescaped(line: str) -> str:
    parts = line.split("\\\\")
    return "\\".join(part.replace("\\n", "\n") for part in parts)


class Line:
    """What is being typed, with a cursor in it."""

    def __init__(self, history: History) -> None:
        self.text = ""
        self.is_secret = False
        """Whether it is a key or the like: it is not shown, and nothing of it is kept to come back."""
        self._at = 0
        self._killed = ""
        self._history = history
        self._back = 0  # how far back in the history we are
        self._draft = ""

    def set(self, text: str) -> None:
        self.text = text
        self._at = len(text)

    def take(self) -> str:
        """The line, which is empty then and part of the history."""
        text = self.text
        if not self.is_secret:
            self._history.add(text)
        self.set("")
        self._back = 0
        return text

    def press(self, key: Key) -> bool:
        """Edit. Gives whether it was Enter at the end of something to say."""
        kind, value = key
        if kind != "key":
            self._insert(value)
            return False
        before, after = self.text[: self._at], self.text[self._at :]
        match value:
            case "enter" if before.endswith("\\"):
                self.text, self._at = f"{before[:-1]}\n{after}", self._at
            case "enter":
                return True
            case "newline":
                self._insert("\n")
            case "left" | "right":
                self._step(-1 if value == "left" else 1)
            case "home":
                self._at = before.rfind("\n") + 1
            case "end":
                self._at += len(after.partition("\n")[0])
            case "word-left":
                self._at = _word_start(before)
            case "word-right":
                self._at += len(after) - len(after.lstrip()[len(_first_word(after)) :])
            case "backspace" if before:
                end = self._at
                self._step(-1)
                self.text = self.text[: self._at] + self.text[end:]
            case "delete":
                self._delete()
            case "kill":
                self._kill(self._at, self._at + len(after.partition("\n")[0] or after[:1]))
            case "kill-before":
                self._kill(before.rfind("\n") + 1, self._at)
            case "kill-word":
                self._kill(_word_start(before), self._at)
            case "yank":
                self._insert(self._killed)
            case "up" | "down" if not self.is_secret:
                self._recall(1 if value == "up" else -1)
        return False

    def _insert(self, text: str) -> None:
        text = text[: max(0, MAX_TYPED - len(self.text))]
        self.text = self.text[: self._at] + text + self.text[self._at :]
        self._at += len(text)

    def _step(self, step: int) -> None:
        """To the next character, over marks that belong to it."""
        self._at = min(max(0, self._at + step), len(self.text))
        while (
            0 < self._at < len(self.text) and width(self.text[self._at]) == 0 and self.text[self._at] != "\n"
        ):
            self._at += step

    def _delete(self) -> None:
        start = self._at
        self._step(1)
        self.text, self._at = self.text[:start] + self.text[self._at :], start

    def _kill(self, start: int, end: int) -> None:
        if not self.is_secret:
            self._killed = self.text[start:end]
        self.text, self._at = self.text[:start] + self.text[end:], start

    def _recall(self, step: int) -> None:
        entries = self._history.entries
        back = self._back + step
        if not 0 <= back <= len(entries):
            return
        if self._back == 0:
            self._draft = self.text
        self._back = back
        self.set(entries[-back] if back else self._draft)

    def rows(self, mark: str, columns: int, limit: int) -> tuple[list[str], tuple[int, int]]:
        """The line as rows below a mark, and where the cursor is in them; those around it if there are too
        many."""
        rows: list[str] = []
        cursor = (0, 0)
        room = columns - len(mark)
        seen = 0
        for line in self.text.split("\n"):
            shown = "•" * len(line) if self.is_secret else _shown(line)
            if seen <= self._at <= seen + len(line):
                head = wrapped(shown[: self._at - seen], room)
                cursor = len(rows) + len(head) - 1, width(head[-1]) + len(mark)
            indent = " " * len(mark) if rows else mark
            for row in wrapped(shown, room):
                rows.append(indent + row)
                indent = " " * len(mark)
            seen += len(line) + 1
        first = max(0, cursor[0] - limit + 1)
        return rows[first : first + limit], (cursor[0] - first, cursor[1])


def _shown(text: str) -> str:
    """What was typed or pasted, each character in its place."""
    return "".join(char if char.isprintable() else "·" for char in text)


def _word_start(before: str) -> int:
    kept = before.rstrip()
    return max(kept.rfind(" "), kept.rfind("\n")) + 1


def _first_word(after: str) -> str:
    words = after.split(maxsplit=1)
    return words[0] if words else ""
