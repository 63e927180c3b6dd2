"""A model's answer as it grows, piece by piece, until it is a message."""

from __future__ import annotations

from .messages import Assistant, StopReason, Text, Thinking, ToolCall, Usage, now
from .models import ModelInfo, ToolCallMade

NOTHING_USED = Usage()


class AnswerSoFar:
    """An answer as it grows."""

    def __init__(self, taken: set[str] | None = None) -> None:
        """`taken` are the ids of calls that there are already: others are found for those that repeat."""
        self._taken = taken if taken is not None else set()
        self._names: dict[str, str] = {}
        self._parts: list[Text | Thinking | ToolCall] = []
        self._pieces: list[str] = []
        self._thinks = False
        self.errors: dict[str, str] = {}
        """What is wrong with calls that can't be run, by their ids."""

    def text(self, piece: str) -> None:
        self._add(piece, thinks=False)

    def thought(self, piece: str) -> None:
        self._add(piece, thinks=True)

    def _add(self, piece: str, *, thinks: bool) -> None:
        if self._thinks is not thinks:
            self._end()
        self._thinks = thinks
        self._pieces.append(piece)

    def _end(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        if text:
            self._parts.append(Thinking(text) if self._thinks else Text(text))

    def id_of(self, id: str) -> str:
        """The id by which we know the call that the model gives this one. It is unique in a session."""
        if id not in self._names:
            unique = id
            while unique in self._taken:
                unique += "+"
            self._taken.add(unique)
            self._names[id] = unique
        return self._names[id]

    def call(self, made: ToolCallMade) -> None:
        """A call is whole."""
        self._end()
        id = self.id_of(made.id)
        del self._names[made.id]
        self._parts.append(ToolCall(id, made.name, made.arguments))
        if made.error:
            self.errors[id] = made.error

    @property
    def reply(self) -> str:
        """The text so far."""
        said = [part.text for part in self._parts if isinstance(part, Text)]
        return "".join(said if self._thinks else [*said, *self._pieces])

    @property
    def last_thought(self) -> str:
        """The last block of thoughts so far."""
        if self._thinks and self._pieces:
            return "".join(self._pieces)
        return next((part.thinking for part in reversed(self._parts) if isinstance(part, Thinking)), "")

    @property
    def pieces(self) -> list[tuple[bool, str]]:
        """What was said so far: whether it is thought, and the text."""
        whole = [
            (True, part.thinking) if isinstance(part, Thinking) else (False, part.text)
            for part in self._parts
            if not isinstance(part, ToolCall)
        ]
        return [*whole, (self._thinks, "".join(self._pieces))] if self._pieces else whole

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that are whole."""
        return [part for part in self._parts if isinstance(part, ToolCall)]

    @property
    def whole_text(self) -> str:
        self._end()
        return "".join(part.text for part in self._parts if isinstance(part, Text))

    def assistant(
        self,
        info: ModelInfo,
        stop_reason: StopReason,
        error: str | None = None,
        usage: Usage = NOTHING_USED,
        signature: str | None = None,
    ) -> Assistant:
        """The message. One that did not end well calls nothing, as its calls may not be whole."""
        self._end()
        parts = self._parts
        if stop_reason in ("error", "aborted"):
            parts = [part for part in parts if not isinstance(part, ToolCall)]
        if signature is not None and not any(isinstance(part, Thinking) for part in parts):
            parts = [Thinking("", signature), *parts]  # a thought that is kept from us
        elif signature is not None:
            parts = [
                Thinking(part.thinking, signature) if isinstance(part, Thinking) else part for part in parts
            ]
        return Assistant(tuple(parts), info.provider, info.id, usage, stop_reason, error, now())
