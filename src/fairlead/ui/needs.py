"""Who needs a person: the order of sessions in lists, and what each of them is and does in a few words.

`ls`, `next` and the dashboard show the same from here. `ls` uses it, so it imports little. Does no I/O.
"""

from __future__ import annotations

import time

from ..formats.columns import printable
from ..formats.ladder import LADDER, word_for
from .plot import dollars, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

WAITS, CALLED, DONE, WORKING, UNKNOWN, IDLE, ENDED = range(7)
"""Who comes first: a session that waits for an answer, one whose verifier calls for a person, one whose turn
ended and that nobody has looked at since; the others don't need anybody."""
STATE_LOOKS = {"waits": "1;7;33", "done": "1;32", "failed": "31", "lost,": "31", "working": "36"}
"""How the first words of a session's state are shown, as terminals number it: who waits stands out."""
_NUMBERS = {"red": "31", "green": "32", "yellow": "33"}
_RANKS = {"waits": WAITS, "working": WORKING, "unknown": UNKNOWN, "ended": ENDED}

COMMIT_LENGTH, SHORT_COMMIT = 40, 7
"""How long a commit is that is checked out without a branch, and how much of it is shown."""
SHORT_ID = 8
"""How much of the id of a session without a name is shown; it is found by that."""
UUID_LENGTH, UUID_DASHES = 36, 4
"""What such an id looks like."""


LOCAL = "local"
"""The name of this host, among those of others."""


def host_of(session: Row) -> str:
    """The host that a session is on; empty for this one."""
    host = session.get("host") or ""
    return "" if host == LOCAL else host


def own_id(session: Row, key: str = "id") -> str:
    """The id of a session, or of another thing, on the host that it is on."""
    id: str = session[key] or ""
    return id.removeprefix(f"{session['host']}:") if session.get("host") else id


def is_away(session: Row) -> bool:
    """Whether it is on a host that is away, so that it is shown as it was known last."""
    return bool(session.get("away"))


def host_line(host: Row) -> str:
    """What is to be said of a host whose sessions can't be used now; empty if they can."""
    if host["state"] == "here":
        return ""
    name, why = printable(host["name"]), printable(host["why"])
    if host["state"] == "connecting":
        said = f"{name} is being connected to"
    else:
        state = "is away" if host["state"] == "away" else "can't be used"
        since = f" for {span(max(0.0, time.time() - host['seen_at']))}" if host["seen_at"] else ""
        said = f"{name} {state}{since}: {why}"
    counts = ((host["sessions"], "session"), (host["questions"], "question"))
    known = [f"{count} {what}{'s' * (count != 1)}" for count, what in counts if count]
    return f"{said} ({', '.join(known)} when it was seen last)" if known else said


def activity_of(session: Row) -> Row:
    """What a session does. An older daemon does not say it."""
    return session.get("activity") or {"state": "unknown", "since": None, "question": "", "seen": True}


def rank(session: Row) -> int:
    """How much a session needs a person. Nothing can be done about one on a host that is away."""
    if is_away(session):
        return ENDED
    activity = activity_of(session)
    state: str = "ended" if session["exit_code"] is not None else activity["state"]
    if state != "waits" and (session.get("verdict") or {}).get("escalated"):
        return CALLED
    if state == "idle":
        return IDLE if activity["seen"] else DONE
    return _RANKS[state]


def by_need(sessions: list[Row]) -> list[Row]:
    """Sessions in the order in which they need a person: who has waited longest is the first, and those that
    somebody has looked at come after those that nobody has."""

    def order(session: Row) -> tuple[int, bool, float]:
        needs, since = rank(session), activity_of(session)["since"] or 0.0
        if needs in (WAITS, DONE):
            return needs, needs == WAITS and activity_of(session)["seen"], since or time.time()
        return needs, False, -since if needs == IDLE else 0.0  # the last used first

    return sorted(sessions, key=order)


def only_reads(activity: Row) -> bool:
    """Whether all that is known of a program is that it reads its terminal, as `cat` and `less` do: it has
    printed no question."""
    return activity["state"] == "unknown" and activity.get("evidence") is not None


def is_done_with(session: Row) -> bool:
    """Whether a script opened it for one prompt, which was answered well."""
    verdict = session.get("verdict")
    is_well = not verdict or (
        LADDER.get(word_for(verdict["confidence"])) == "green" and not verdict["escalated"]
    )
    is_one_shot = session.get("one_shot") and session["name"] == own_id(session)
    return bool(is_one_shot and session["state"] == "idle" and is_well)


def is_inner(session: Row) -> bool:
    """Whether it is a command that an agent's tool runs, and nothing that a person is needed for: lists leave
    it out, or have it below its agent."""
    return bool(session.get("tool_of")) and rank(session) not in (WAITS, CALLED)


def below_agents(sessions: list[Row]) -> list[Row]:
    """The same sessions, with the commands of agents' tools below their agents, if these are listed."""
    listed = {each["id"] for each in sessions}
    below: dict[str, list[Row]] = {}
    for each in sessions:
        if is_inner(each) and each["tool_of"] in listed:
            below.setdefault(each["tool_of"], []).append(each)
    inner = {id(each) for rows in below.values() for each in rows}
    return [
        each
        for session in sessions
        if id(session) not in inner
        for each in (session, *below.get(session["id"], ()))
    ]


def about(session: Row) -> str:
    """What a session runs, or what was said to it last."""
    argv = session.get("argv") or [session.get("what") or ""]
    return argv[-1] if session.get("tool_of") else " ".join(argv)  # a command of a shell


def subtitle_of(session: Row) -> str:
    """What else is known of that: the last prompt of an agent whose hooks tell it, or a terminal's title."""
    return session.get("prompt") or session.get("title") or session.get("fault") or ""


def state_word(session: Row) -> str:
    """What a session does, in a word. Of a program of which nothing is known it is whether it runs."""
    if is_away(session):
        return "away"
    if pid := session.get("stray_pid"):
        return f"lost, pid {pid} runs"
    if session["exit_code"] is not None:
        return f"exit {session['exit_code']}"
    activity = activity_of(session)
    word: str = activity["state"]
    if only_reads(activity):
        word = "reads"
    elif word == "unknown" or session["state"] == "failed":
        word = session["state"]
    elif word == "idle" and not activity["seen"]:
        word = "done"
    return word


def state_cell(session: Row) -> str:
    """The same with how long it has done that, and how many prompts wait."""
    word, activity = state_word(session), activity_of(session)
    if queued := session.get("queued"):
        word += f"+{queued}"
    is_known = activity["state"] != "unknown" or only_reads(activity)
    if not activity["since"] or not is_known or rank(session) == ENDED:
        return word
    return f"{word} {span(max(0.0, time.time() - activity['since']))}"


def question_of(session: Row) -> str:
    """What a session needs a person for, in one line; empty if it does not."""
    needs = rank(session)
    if needs == WAITS:
        activity = activity_of(session)
        evidence = activity.get("evidence") or {}
        words = evidence.get("words", "") if evidence.get("source") in ("hook", "osc") else ""
        return printable(activity["question"] or session["waits_for"] or words) or "an answer"
    return printable(session["verdict"]["escalated"]) if needs == CALLED else ""


def check_cell(session: dict[str, Any]) -> str:
    """What was said of its last turn, if anything was; with a mark if a person is needed."""
    verdict = session.get("verdict")
    if not verdict:
        return "-"
    said = "-" if verdict.get("stale") else word_for(verdict["confidence"])
    return f"{said}!" if verdict["escalated"] else said


def cost_cell(session: dict[str, Any]) -> str:
    """What it has cost, or how many tokens it has used if no price is known; empty if neither is."""
    if cost := session.get("cost"):
        return dollars(cost)
    return f"{short(tokens)} tok" if (tokens := session.get("tokens")) else ""


def check_look(cell: str) -> str:
    """The colour of that, as terminals number it; empty if it has none."""
    return _NUMBERS.get(LADDER.get(cell.rstrip("!").lower()) or "", "")


def branch_cell(session: dict[str, Any]) -> str:
    """The branch that is checked out, or the beginning of a commit."""
    if session.get("directory_gone"):
        return "directory gone"
    branch = printable(session.get("branch") or "-")
    is_commit = len(branch) == COMMIT_LENGTH and not branch.strip("0123456789abcdef")
    shown = branch[:SHORT_COMMIT] if is_commit else branch
    if (worktree := session.get("worktree")) is None:
        return shown
    return f"{shown} [+{worktree.get('ahead', '?')} ~{worktree.get('changed', '?')}]"


def shown_name(session: dict[str, Any]) -> str:
    """What a session is called in a table."""
    name: str = session["name"]
    is_made_up = name == own_id(session) and len(name) == UUID_LENGTH and name.count("-") == UUID_DASHES
    is_chosen = "screen" in session["can"]  # people give programs their names
    return printable(name[:SHORT_ID] if is_made_up and not is_chosen else name)


def from_home(path: str) -> str:
    import os

    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(f"{home}/") else path


def span(seconds: float | None) -> str:
    """How long something took, in its largest unit."""
    if seconds is None:
        return "-"
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
