"""The line that a person types in a chat: keys out of bytes, editing, and what was typed before.

It is ours and not `readline`'s, because that one blocks until Enter: what other clients say, a question that
somebody else answered and the loss of the daemon could not be shown meanwhile. Only `InputHistory` touches a
file.
"""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Sequence

from ...formats.columns import printable, width_of
from ..keys import ALT, BACK_TAB, DELETE, DOWN, END, ESC, HOME, LEFT, PASTE, RIGHT, UP, KeyReader
from .view import wrapped

MAX_TYPED = 1024 * 1024
"""How many characters a line may have; more is not taken."""
MAX_HISTORY = 1000
"""How many lines are remembered."""
MAX_HISTORY_BYTES = 1024 * 1024

Key = tuple[str, str]
"""Its kind and what it is: `("text", "a")`, `("paste", "…")` or `("key", "enter")`."""

_NAMES = {
    0x01: "home", 0x02: "left", 0x03: "interrupt", 0x04: "end-of-input", 0x05: "end", 0x06: "right",
    0x07: "cancel", 0x08: "backspace", 0x09: "tab", 0x0A: "enter", 0x0B: "kill", 0x0C: "redraw",
    0x0D: "enter", 0x0E: "down", 0x0F: "open", 0x10: "up", 0x12: "search", 0x15: "kill-before",
    0x17: "kill-word", 0x19: "yank", 0x1A: "suspend", 0x7F: "backspace", ESC: "escape", BACK_TAB: "back-tab",
    UP: "up", DOWN: "down", RIGHT: "right", LEFT: "left", HOME: "home", END: "end", DELETE: "delete",
    ALT | RIGHT: "word-right", ALT | ord("f"): "word-right", ALT | LEFT: "word-left",
    ALT | ord("b"): "word-left", ALT | 0x7F: "kill-word", ALT | 0x0D: "newline", ALT | 0x0A: "newline",
}  # fmt: skip


class LineKeys:
    """Names the keys of what is typed, across reads."""

    def __init__(self) -> None:
        self._keys = KeyReader(MAX_TYPED)
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_pending(self) -> bool:
        """True after an Escape of which it is not known whether more follows; `flush` returns it, some time
        later."""
        return self._keys.is_pending

    def feed(self, data: bytes) -> list[Key]:
        return [key for code, _ in self._keys.read(data) if (key := self._named(code))[1] or key[0] == "key"]

    def flush(self) -> list[Key]:
        """No more came: it was the key Escape, or one with Alt."""
        return [("key", _NAMES.get(self._keys.flush(), ""))]

    def _named(self, code: int) -> Key:
        """The key of a code; without a text if a character is not whole yet."""
        if code == PASTE:
            text = self._keys.pastes.pop(0).decode("utf-8", "replace")
            return "paste", text.replace("\r\n", "\n").replace("\r", "\n")
        if 0x20 <= code < 0x100 and code != 0x7F:
            return "text", self._text.decode(bytes((code,)))
        return "key", _NAMES.get(code, "")


class InputHistory:
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


class InputLine:
    """What is being typed, with a cursor in it."""

    def __init__(self, history: InputHistory) -> None:
        self.text = ""
        self.is_secret = False
        """Whether it is a key or the like: it is not shown, and nothing of it is kept to come back."""
        self._at = 0
        self._killed = ""
        self._history = history
        self._back = 0  # how far back in the history we are
        self._draft = ""

    @property
    def entries(self) -> Sequence[str]:
        """What was typed before."""
        return self._history.entries

    @property
    def before(self) -> str:
        """What stands before the cursor."""
        return self.text[: self._at]

    def set(self, text: str) -> None:
        self.text = text
        self._at = len(text)

    def replace(self, start: int, text: str) -> None:
        """Put a text in the place of what stands between a character and the cursor."""
        after = self.text[self._at :]
        self.text = (self.text[:start] + text)[: max(0, MAX_TYPED - len(after))] + after
        self._at = len(self.text) - len(after)

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
        while 0 < self._at < len(self.text) and width_of(self.text[self._at]) == 0:
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
            shown = "•" * len(line) if self.is_secret else printable(line)
            if seen <= self._at <= seen + len(line):
                head = wrapped(shown[: self._at - seen], room)
                cursor = len(rows) + len(head) - 1, width_of(head[-1]) + len(mark)
            indent = " " * len(mark) if rows else mark
            for row in wrapped(shown, room):
                rows.append(indent + row)
                indent = " " * len(mark)
            seen += len(line) + 1
        first = max(0, cursor[0] - limit + 1)
        return rows[first : first + limit], (cursor[0] - first, cursor[1])


def _word_start(before: str) -> int:
    kept = before.rstrip()
    return max(kept.rfind(" "), kept.rfind("\n")) + 1


def _first_word(after: str) -> str:
    words = after.split(maxsplit=1)
    return words[0] if words else ""
