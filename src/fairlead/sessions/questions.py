"""What waits for a person, and what a person said to it. Plain values, the same for every kind and door."""

from __future__ import annotations

import time
from typing import Literal

from msgspec import Struct

from ..formats.shown import answers, asked_about, asker, middle

Kind = Literal["consent", "action", "escalation", "permission", "dialog"]
"""Consent to an agent's tool call, an action of the daemon's own, a verifier that needs somebody, a
permission that a third-party agent asks for, or what an agent wants to know from a person."""

MAX_WHOLE = 256 * 1024
"""How many characters of what will happen a question carries."""
SHORT_ID = 8
"""How many characters of a session's id lists show."""
WHOLE_LINES, WHOLE_CHARACTERS = 200, 16_000
"""How much of that is shown where there is much room."""


class AnswerOption(Struct, frozen=True):
    """One of the answers that a question has."""

    value: str
    label: str


ALLOW, ALWAYS, DENY = (
    AnswerOption("allow", "Allow"),
    AnswerOption("always", "Always allow this"),
    AnswerOption("deny", "Deny"),
)
CONSENT = (ALLOW, ALWAYS, DENY)
DISMISS = AnswerOption(DENY.value, "Dismiss")
"""The one answer to what only has to be seen."""
ANSWER = "answer"
"""The option of a dialog that was answered in a person's own words."""
MAX_ANSWER = 16_384
"""How many characters such an answer may have."""
WITHDRAWN = "withdrawn"
"""The option of a question that nobody answered: who asked gave it up, and `by` says why."""


class Question(Struct, frozen=True, kw_only=True):
    """Something that waits for a person."""

    id: str
    kind: Kind
    session: str | None = None
    """The id of the session that asks; None for the daemon itself."""
    session_name: str = ""
    """Its name, or what a program calls itself that is no session."""
    project: str = ""
    """The directory that it is about; empty if it is about none."""
    title: str
    """What asks, in a word: a tool, an actuator."""
    what: str
    """What will happen, in one honest line."""
    whole: str = ""
    """All of what will happen."""
    reason: str = ""
    """Why it is not simply done."""
    options: tuple[AnswerOption, ...] = CONSENT
    takes_text: bool = False
    """Whether it can be answered in a person's own words."""
    asked_at: float
    about: str = ""
    """The id of the tool call, if it is about one."""
    lost: str = ""
    """Why nobody is there any more to hear the answer; empty while somebody is."""

    @property
    def is_consent(self) -> bool:
        """True if something happens or does not, by the answer; else it only has to be seen."""
        return self.kind != "escalation"

    @property
    def is_dialog(self) -> bool:
        """True if an agent wants to know something: no answer allows or denies anything."""
        return self.kind == "dialog"

    @property
    def choices(self) -> list[str]:
        """The answers that a dialog offers; each has its number, from 1, as its value."""
        return [each.label for each in self.options if each.value != DENY.value] if self.is_dialog else []

    def reply(self, option: str, text: str = "") -> Answer | str:
        """An answer to it, without who gives it, or why this is none. What is said to a dialog is the number
        or the text of a choice, or else a person's own words if these are wanted."""
        if self.is_dialog and option == ANSWER:
            offered = [each for each in self.options if each.value != DENY.value]
            for name in ("value", "label"):  # a number is one, although another answer may be called so
                for each in offered:
                    if text.strip() == getattr(each, name):
                        return Answer(each.value, "", 0.0, each.label)
            if self.takes_text and 0 < len(text.strip()) <= MAX_ANSWER:
                return Answer(ANSWER, "", 0.0, text)
            words = [answers((each.value, each.label) for each in self.options)]
            words += [f"a text of 1 to {MAX_ANSWER} characters"] if self.takes_text else []
            return f"{text!r:.80} is no answer to {self.id}; it takes {', '.join(words)}"
        if self.is_dialog and option != DENY.value:
            return f"{self.id} is a question: `fairlead approvals answer {self.id} TEXT` answers it"
        values = [each.value for each in self.options]
        if option in values:
            return Answer(option, "", 0.0)
        if not self.is_consent:
            return f"this can only be dismissed: `fairlead approvals dismiss {self.id}`"
        return f"{option!r} is no answer to {self.id}; it takes {', '.join(values)}"

    @property
    def who(self) -> str:
        """Who asks, in which project."""
        return asker(self.session_name, self.session, self.project)

    def is_of(self, session: str, least: int = SHORT_ID) -> bool:
        """True if the session that asks has this name or id, or one that begins with so many of these
        characters at the `least`."""
        if self.session is None or not session:
            return False
        is_begun = len(session) >= least and self.session.startswith(session)
        return is_begun or session in (self.session, self.session_name)

    @property
    def see_all(self) -> str:
        """Where all of it is shown."""
        return f"`fairlead approvals show {self.id}` shows all"

    def text(self, *, lines: int = WHOLE_LINES, characters: int = WHOLE_CHARACTERS) -> str:
        """The whole question for a place with room for so much."""
        return asked_about(
            what=self.what,
            reason=self.reason,
            who=self.who,
            whole=self.whole,
            lines=lines,
            characters=characters,
            where=self.see_all,
        )


def bounded(whole: str, where: str) -> str:
    """All of what will happen, as long as a question may carry."""
    return middle(whole, MAX_WHOLE, where)


class Answer(Struct, frozen=True):
    """What was said to a question, by whom, and when."""

    option: str
    by: str
    at: float
    text: str = ""
    """What was said, if it was a dialog."""

    @property
    def allows(self) -> bool:
        return self.option.partition("-")[0] in (ALLOW.value, ALWAYS.value)

    @property
    def sentence(self) -> str:
        """What became of the question, after its id."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.at))
        if self.option == WITHDRAWN:
            return f"was withdrawn at {moment}: {self.by}"
        said = {"allow": "allowed", "always": "always allowed", "deny": "denied"}
        if self.text:
            return f"was answered already by {self.by} at {moment}"
        return f"was answered already: {said.get(self.option, self.option)} by {self.by} at {moment}"


class AskedQuestion(Struct, frozen=True):
    """A question of a session, and what became of it."""

    id: str
    title: str
    what: str
    asked_at: float
    answer: Answer | None = None


def asked_of(question: Question, answer: Answer | None = None) -> AskedQuestion:
    """A question without all that only who answers it needs."""
    return AskedQuestion(question.id, question.title, question.what, question.asked_at, answer)
