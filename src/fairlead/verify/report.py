"""What a verifier found about a turn: status, confidence, sections, and what it is based on.

A report is Markdown in the form of Pi's verifiers and a value with everything that is known about how it came
to be. The wire's parser reads the Markdown; here are the ladder of confidence, the rules that cap it, and the
text that goes back to the builder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from ..formats.ladder import word_for
from ..sessions.timeline import NOT_RIGHT
from ..wire import verifier as wire
from ..wire.verifier import ReportError

__all__ = [
    "CommandRun",
    "Confidence",
    "Report",
    "ReportError",
    "Section",
    "Status",
    "capped",
    "correction",
    "facts",
    "fenced",
    "from_wire",
    "lowered",
    "not_verified",
    "parse_report",
    "render",
    "sections_of",
    "to_wire",
    "with_evidence",
]

MAX_RAW = 256 * 1024
"""How many characters of a verifier's message are kept."""
MAX_SECTIONS = 64
"""How many sections a report may have,"""
MAX_SECTION = 32 * 1024
"""and how many characters each; what is longer is cut."""
MAX_TITLE = 200
MAX_SUMMARY = 500
MAX_REFUSED = 100
"""How many refused things a report lists."""
MAX_CORRECTION = 16 * 1024
"""How many characters go back to the builder."""

FOCUS = "What did you verify?"
"""The section whose first line is the summary."""


class Status(StrEnum):
    """Whether the work is right."""

    VERIFIED = "verified"
    FAILED = "failed"
    UNSURE = "unsure"


class Confidence(StrEnum):
    """How sure the verifier is, from the best to the worst.

    FAILED means that the verifier could not do its job, not that the work is wrong: that is FEEDBACK.
    """

    PERFECT = "perfect"
    VERIFIED = "verified"
    PARTIAL = "partial"
    FEEDBACK = "feedback"
    FAILED = "failed"

    @property
    def rank(self) -> int:
        """4 for the best, 0 for the worst."""
        return _RANKS[self]

    @property
    def word(self) -> str:
        """What people read: FEEDBACK is `failed`, and FAILED `error`."""
        return word_for(self.value)

    @property
    def colour(self) -> str:
        """green, orange or red."""
        return _COLOURS[self]

    def at_most(self, limit: Confidence) -> Confidence:
        """The lower of two."""
        return self if self.rank <= limit.rank else limit


_RANKS = {each: rank for rank, each in enumerate(reversed(Confidence))}
_COLOURS = {
    Confidence.PERFECT: "green",
    Confidence.VERIFIED: "green",
    Confidence.PARTIAL: "orange",
    Confidence.FEEDBACK: "orange",
    Confidence.FAILED: "red",
}


class Section(Struct, frozen=True):
    """A part of a report below its own heading."""

    title: str
    text: str


class CommandRun(Struct, frozen=True):
    """A command that was run, and how it ended. Without a code it did not end by itself."""

    command: str
    code: int | None
    seconds: float = 0.0


class Report(Struct, frozen=True, kw_only=True):
    """A judgement about a turn, and all that is known about how it came to be."""

    status: Status
    confidence: Confidence
    summary: str
    sections: tuple[Section, ...] = ()
    raw: str = ""
    """The verifier's whole message."""
    kind: str = "model"
    """`model`, `command`, `panel`, or `remote` for one that came over the wire."""
    verifier: str = ""
    """The name of the persona or of the command verifier."""
    model: str = ""
    cost: float = 0.0
    """Dollars."""
    duration: float = 0.0
    """Seconds."""
    turn: int = 0
    session_id: str = ""
    project: str = ""
    lines: tuple[int, int] | None = None
    """The lines of the session's file that were judged, from 1, both included."""
    tree: str = ""
    """The hash of the project's files that were judged."""
    diff_stat: str = ""
    commands: tuple[CommandRun, ...] = ()
    tool_calls: int = 0
    """How many calls of tools a model made and got an answer to."""
    refused: tuple[str, ...] = ()
    """What was not done because a verifier may only read."""
    claimed: Confidence | None = None
    """What the verifier itself said, if a rule has lowered it,"""
    capped_by: str = ""
    """and the rule."""
    time: float = 0.0
    """When it was made, in seconds since 1970."""


# --- making -----------------------------------------------------------------------------------------------


def parse_report(text: str, turn: int, session_id: str = "") -> Report:
    """The report in a verifier's message: what stands below its last heading `## Report`.

    STATUS must be there, CONFIDENCE and sections may be. Raises ReportError. Nothing is capped yet: add what
    is known with `msgspec.structs.replace`, then call `capped`.

    >>> parse_report("## Report\\nSTATUS: verified\\n### What did you verify?\\nThe schema.", 3).summary
    'The schema.'
    """
    return msgspec.structs.replace(from_wire(wire.parse_report(text, session_id, turn)), kind="model")


def from_wire(envelope: wire.Report) -> Report:
    """The report that another program's verifier sent."""
    confidence = envelope.confidence or wire.CONFIDENCE_OF[envelope.status]
    return Report(
        status=Status(envelope.status),
        confidence=Confidence(confidence),
        summary=_line(envelope.summary, MAX_SUMMARY),
        sections=sections_of(envelope.sections.items()),
        raw=envelope.raw[:MAX_RAW],
        kind="remote",
        turn=envelope.turn_index,
        session_id=envelope.session_id,
    )


_EVIDENCE = (
    *("kind", "verifier", "model", "cost", "duration", "lines", "tree", "diff_stat", "commands"),
    *("tool_calls", "refused", "claimed", "capped_by"),
)
"""What an envelope of ours says besides Pi's fields."""


def _as_json(report: Report) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(report))
    return values


def with_evidence(envelope: wire.Report) -> Report:
    """The report that a verifier sent, with what it is based on if that was one of ours."""
    report = from_wire(envelope)
    evidence = {name: value for name, value in (envelope.evidence or {}).items() if name in _EVIDENCE}
    try:
        return msgspec.convert(msgspec.to_builtins(report) | evidence, Report)
    except msgspec.ValidationError:
        return report


def to_wire(report: Report) -> wire.Report:
    """The report as an envelope for the builder."""
    return wire.Report(
        session_id=report.session_id,
        turn_index=report.turn,
        status=report.status.value,
        confidence=report.confidence.value,
        summary=report.summary,
        sections={section.title: section.text for section in report.sections},
        raw=report.raw or render(report),
        evidence={name: value for name, value in _as_json(report).items() if name in _EVIDENCE},
    )


def sections_of(pairs: Iterable[tuple[str, str]]) -> tuple[Section, ...]:
    """Sections with titles that differ and are one line each, cut where they are too long."""
    sections: list[Section] = []
    titles: set[str] = set()
    for title, text in pairs:
        if len(sections) == MAX_SECTIONS:
            break
        plain = _line(title.rstrip("# "), MAX_TITLE).lstrip("# ") or "Notes"
        unique, number = plain, 1
        while unique in titles:
            number += 1
            unique = f"{plain} ({number})"
        titles.add(unique)
        sections.append(Section(unique, _cut(text.strip(), MAX_SECTION)))
    return tuple(sections)


def not_verified(
    reason: str, *, turn: int = 0, session_id: str = "", project: str = "", verifier: str = ""
) -> Report:
    """The report for a turn that could not be judged at all."""
    summary = _line(f"could not verify: {reason}", MAX_SUMMARY)
    return Report(
        status=Status.UNSURE,
        confidence=Confidence.FAILED,
        summary=summary,
        sections=sections_of([(FOCUS, summary), ("Why not?", reason)]),
        turn=turn,
        session_id=session_id,
        project=project,
        verifier=verifier,
    )


# --- rules ------------------------------------------------------------------------------------------------


def capped(report: Report) -> Report:
    """The report with the confidence that its evidence allows. What was claimed is kept.

    1. `failed` is at most FEEDBACK, and `unsure` at most PARTIAL, whatever the verifier calls it.
    2. A model that got no answer of a tool and ran no command has seen nothing but words: `unsure`, at most
       PARTIAL. So is one whose commands were all refused or ended, and a command that did not exit with 0.
    3. What read-only refused was not checked: at most VERIFIED.
    4. A verifier of another program does not say what its report is based on: at most VERIFIED.
    """
    if report.status is Status.FAILED:
        return lowered(report, Confidence.FEEDBACK, "its status is failed")
    if report.status is Status.UNSURE:
        return lowered(report, Confidence.PARTIAL, "its status is unsure")
    codes = [each.code for each in report.commands]
    if report.kind in ("model", "panel") and not report.tool_calls and not codes:
        why = "no tool was called and no command was run: there is no evidence"
        return lowered(report, Confidence.PARTIAL, why, is_unsure=True)
    if report.kind == "model" and codes and all(code is None for code in codes):
        why = "every command that it wanted was refused or ended"
        return lowered(report, Confidence.PARTIAL, why, is_unsure=True)
    if report.kind == "command" and (not codes or any(codes) or None in codes):
        why = "not every command exited with 0"
        return lowered(report, Confidence.PARTIAL, why, is_unsure=True)
    if report.refused:
        return lowered(report, Confidence.VERIFIED, "something was refused, so it was not checked")
    if report.kind not in ("model", "panel", "command"):
        return lowered(report, Confidence.VERIFIED, "its verifier does not say what it is based on")
    return report


def lowered(report: Report, limit: Confidence, why: str, *, is_unsure: bool = False) -> Report:
    """The report with at most this confidence, and why. `is_unsure` also takes a `verified` back."""
    status = Status.UNSURE if is_unsure and report.status is Status.VERIFIED else report.status
    if report.confidence.rank <= limit.rank and status is report.status:
        return report
    return msgspec.structs.replace(
        report,
        status=status,
        confidence=report.confidence.at_most(limit),
        claimed=report.claimed or report.confidence,
        capped_by=why,
    )


# --- showing ----------------------------------------------------------------------------------------------

_HEADING = re.compile(r"^ {0,3}#{1,3}[ \t]", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_BACKTICKS = re.compile(r"`{3,}")


def render(report: Report) -> str:
    """The report as Markdown that `parse_report` reads again."""
    sections = report.sections
    focus = next((each for each in sections if _is_focus(each.title)), None)
    if focus is None:
        sections = (Section(FOCUS, report.summary), *sections)
    parts = [f"## Report\n\nSTATUS: {report.status.value}\nCONFIDENCE: {report.confidence.name}"]
    parts += [f"### {section.title}\n\n{_safe(section.text)}".rstrip() for section in sections]
    return "\n\n".join(parts) + "\n"


def fenced(text: str, language: str = "") -> str:
    """A text as a block of code, in a fence that is longer than any in it."""
    longest = max((len(match) for match in _BACKTICKS.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def facts(report: Report) -> list[tuple[str, str]]:
    """What is known about how a report came to be, as names and values to show."""
    known = [
        ("verifier", report.verifier),
        ("kind", report.kind),
        ("model", report.model),
        ("cost", f"${report.cost:.4f}" if report.cost else ""),
        ("duration", f"{report.duration:.1f} s" if report.duration else ""),
        ("session", report.session_id),
        ("turn", str(report.turn) if report.turn else ""),
        ("lines", "{}-{}".format(*report.lines) if report.lines else ""),
        ("project", report.project),
        ("tree", report.tree),
        ("changed", report.diff_stat),
        ("claimed", f"{report.claimed.name}, but {report.capped_by}" if report.claimed else ""),
    ]
    known += [("command", f"{each.command} -> {_code(each.code)}") for each in report.commands]
    known += [("refused", each) for each in report.refused[:MAX_REFUSED]]
    return [(name, value) for name, value in known if value]


def correction(report: Report) -> str:
    """What goes back to the builder when its work failed.

    It says what was checked, what is wrong, and what is asked of it; the length is bounded.
    """
    who = f"The verifier {report.verifier!r}" if report.verifier else "A verifier"
    begin = f"{who} checked turn {report.turn}{NOT_RIGHT}{report.summary}"
    end = "Fix the cause, not the check. Then say what you changed and what you left."
    told = [section for section in report.sections if not _is_focus(section.title)] or list(report.sections)
    room = MAX_CORRECTION - len(begin) - len(end) - 100
    each = max(200, room // max(1, len(told)))
    parts, used = [], 0
    for section in told:
        part = f"### {section.title}\n\n{_safe(_cut(section.text, each - MAX_TITLE))}"
        if used + len(part) > room:
            parts.append("[Some sections are left out.]")
            break
        used += len(part)
        parts.append(part)
    return "\n\n".join([begin, *parts, end])


def _code(code: int | None) -> str:
    return "did not end by itself" if code is None else f"exit code {code}"


def _is_focus(title: str) -> bool:
    return title.casefold().rstrip(" ?:") == FOCUS.casefold().rstrip("?")


def _safe(text: str) -> str:
    """A section's text, in a fence if a heading or an open fence in it would end the section."""
    if _HEADING.search(_without_fences(text)) or _has_open_fence(text):
        return fenced(text)
    return text


def _without_fences(text: str) -> str:
    return "\n".join(line for line, is_code in _lines(text) if not is_code)


def _has_open_fence(text: str) -> bool:
    return any(is_code for _, is_code in list(_lines(text + "\n"))[-1:])


def _lines(text: str) -> Iterable[tuple[str, bool]]:
    """The lines, each with whether it is within a fence."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            closes = mark is not None and mark[1].startswith(fence) and not line.strip(" `~\r")
            yield line, not closes
            fence = "" if closes else fence
        else:
            fence = mark[1] if mark else ""
            yield line, bool(fence)


def _line(text: str, limit: int) -> str:
    """The text as one line."""
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def _cut(text: str, limit: int) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= limit:
        return text
    half = max(1, (limit - 40) // 2)
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
