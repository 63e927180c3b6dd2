"""Several verifiers about one turn: their reports joined into one.

The quorum says how many must have verified a turn: `all`, `majority`, or a number. Disagreement is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ..report import (
    FOCUS,
    MAX_REFUSED,
    Confidence,
    Report,
    Status,
    render,
    sections_of,
)

MAX_MEMBERS = 32
"""How many reports can be joined."""

Quorum = Literal["all", "majority"] | int


class PanelError(ValueError):
    """A panel that can't judge. Says why."""


def needed(quorum: Quorum, members: int) -> int:
    """How many of the members must have verified. Raises PanelError.

    >>> needed("majority", 4), needed("all", 4), needed(1, 4)
    (3, 4, 1)
    """
    if quorum == "all":
        return members
    if quorum == "majority":
        return members // 2 + 1
    if isinstance(quorum, bool) or not isinstance(quorum, int) or not 1 <= quorum <= members:
        numbers = "1" if members == 1 else f"a number from 1 to {members}"
        raise PanelError(f"a quorum is all, majority or {numbers}, as that many check, not {quorum!r}")
    return quorum


def parse_quorum(text: str) -> Quorum:
    """The quorum in a setting or a flag. Raises PanelError."""
    word = text.strip().casefold()
    if word == "all":
        return "all"
    if word == "majority":
        return "majority"
    if word.isascii() and word.isdigit() and int(word) > 0:
        return int(word)
    raise PanelError(f"a quorum is all, majority or a number, not {text!r}")


def join(reports: Sequence[Report], quorum: Quorum = "all", *, name: str = "panel") -> Report:
    """One report of several. Raises PanelError.

    Status: `verified` if at least the quorum verified; else `failed` if any member failed; else `unsure`.

    Confidence of `verified`: with the quorum `all` the lowest, else the median of those who verified, the
    lower one of two. A member that failed makes it at most PARTIAL, an unsure one at most VERIFIED. Of
    `failed` it is FEEDBACK, of `unsure` the lowest, and at most PARTIAL.
    """
    if not 1 <= len(reports) <= MAX_MEMBERS:
        raise PanelError(f"a panel has 1 to {MAX_MEMBERS} reports, not {len(reports)}")
    first = reports[0]
    if any((each.session_id, each.turn) != (first.session_id, first.turn) for each in reports):
        raise PanelError("the reports of a panel must be about the same turn of the same session")
    least = needed(quorum, len(reports))
    sides = {status: [each for each in reports if each.status is status] for status in Status}
    status = _status(sides, least)
    confidence = _confidence(status, sides, quorum)
    summary = f"{len(sides[Status.VERIFIED])} of {len(reports)} verified, {least} needed"
    dissent = _dissent(sides, status)
    pairs = [(FOCUS, f"{summary}\n\n" + "\n".join(_line(each) for each in reports))]
    if dissent:
        pairs.append(("Disagreement", dissent))
    pairs += [
        (f"{_name(each)}: {section.title}", section.text)
        for each in _worst_first(reports)
        for section in each.sections
    ]
    trees = {each.tree for each in reports if each.tree}
    if len(trees) > 1:
        pairs.insert(1, ("Not the same files", "The members judged different states of the project."))
        confidence = confidence.at_most(Confidence.PARTIAL)
        status = Status.UNSURE if status is Status.VERIFIED else status
    joined = Report(
        status=status,
        confidence=confidence,
        summary=summary + (", and they disagree" if dissent else ""),
        sections=sections_of(pairs),
        kind="panel",
        verifier=name,
        model=", ".join(dict.fromkeys(each.model for each in reports if each.model)),
        cost=sum(each.cost for each in reports),
        duration=max(each.duration for each in reports),
        turn=first.turn,
        session_id=first.session_id,
        project=first.project,
        lines=first.lines,
        tree=trees.pop() if len(trees) == 1 else "",
        diff_stat=first.diff_stat,
        commands=tuple(run for each in reports for run in each.commands),
        tool_calls=sum(each.tool_calls for each in reports),
        refused=tuple(what for each in reports for what in each.refused)[:MAX_REFUSED],
        time=max(each.time for each in reports),
    )
    return msgspec.structs.replace(joined, raw=render(joined))


def _status(sides: dict[Status, list[Report]], least: int) -> Status:
    if len(sides[Status.VERIFIED]) >= least:
        return Status.VERIFIED
    return Status.FAILED if sides[Status.FAILED] else Status.UNSURE


def _confidence(status: Status, sides: dict[Status, list[Report]], quorum: Quorum) -> Confidence:
    if status is Status.FAILED:
        return Confidence.FEEDBACK
    side = sides[Status.VERIFIED] + (sides[Status.UNSURE] if status is Status.UNSURE else [])
    ranked = sorted((each.confidence for each in side), key=lambda each: each.rank)
    if status is Status.UNSURE:
        return ranked[0].at_most(Confidence.PARTIAL)
    chosen = ranked[0] if quorum == "all" else ranked[(len(ranked) - 1) // 2]
    if sides[Status.FAILED]:
        return chosen.at_most(Confidence.PARTIAL)
    return chosen.at_most(Confidence.VERIFIED) if sides[Status.UNSURE] else chosen


def _dissent(sides: dict[Status, list[Report]], status: Status) -> str:
    """Who sees it otherwise, if anybody does."""
    others = [each for side, members in sides.items() if side is not status for each in members]
    if not others:
        return ""
    told = "\n".join(f"- {_name(each)} says {each.status.value}: {each.summary}" for each in others)
    return f"The panel says {status.value}, but not all members do:\n\n{told}"


def _worst_first(reports: Sequence[Report]) -> list[Report]:
    order = {Status.FAILED: 0, Status.UNSURE: 1, Status.VERIFIED: 2}
    return sorted(reports, key=lambda each: order[each.status])


def _line(report: Report) -> str:
    words = dict.fromkeys((report.status.value, report.confidence.word))
    return f"- {_name(report)}: {', '.join(words)}: {report.summary}"


def _name(report: Report) -> str:
    return report.verifier or report.model or report.kind
