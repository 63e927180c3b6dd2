"""What a person asks for in the dashboard, as requests to the daemon.

Each is run in a thread of its own, with a connection of its own, and returns what is shown of it. No Textual.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import time
from collections.abc import Callable, Iterator

from ...client.calls import Call
from ...client.connection import DaemonConnection, RequestError
from ...formats.ladder import word_for
from ...formats.shown import one_line
from ..plot import Look
from ..reports import PlottedReport, plots
from ..timeline import plots as turn_plots
from ..timeline import timeline as timeline_lines
from .model import ListEntry, Row
from .texts import diff_lines, folded

TURNS = 50
"""How many turns a timeline shows."""
REPORTS = 200
"""How many reports are shown."""
ACCEPT_SECONDS = 20.0
"""For how long it is waited until an agent has taken a prompt; what becomes of it is said later, too."""
MAX_SAID = 200
Lines = Callable[[int, Look], list[str]]


class NotDone(Exception):
    """Something that a person wants can't be done. Says why."""


# --- questions ----------------------------------------------------------------------------------------------


def see(control: DaemonConnection, token: str) -> Row:
    """The whole of a question, which a person sees now."""
    [question] = control.ask("approvals", token=token)["approvals"]
    with contextlib.suppress(RequestError):  # an older daemon
        control.ask("approval_seen", token=token)
    found: Row = question
    return found


_SHOWN = (
    *("token", "kind", "session_id", "session_name", "project", "title", "summary", "reason", "options"),
    *("labels", "takes_text", "asked_at", "lost"),
)
"""What is shown of a question, but for what may be long."""


def is_same(question: Row, listed: Row) -> bool:
    """Whether a list has a question as it was shown; of what is long it may have less."""
    return all(question.get(name) == listed.get(name) for name in _SHOWN)


def settle(control: DaemonConnection, question: Row, answer: str, text: str) -> str:
    """Answer a question if it is still open, with every word as it was shown. Returns what to say of that."""
    try:
        [now] = control.ask("approvals", token=question["token"])["approvals"]
    except RequestError as error:
        raise NotDone(f"it is not open any more ({error})") from None
    if not is_same(question, now) or now["preview"] != question["preview"]:
        raise NotDone("it has changed meanwhile; y shows what it is now")
    option = answer if answer not in ("allow", "always", "deny") else None
    settled = control.ask(
        "approval_settle",
        token=question["token"],
        allowed=answer != "deny",
        always=answer == "always" or None,
        option=option,
        text=text or None,
    )["approval"]
    words = {"allow": "allowed", "always": "always allowed", "deny": "denied", "answer": "answered"}
    done = words.get(answer, f"answered with {answer}")
    if question["lost"] or question["kind"] == "escalation":
        done = "dismissed"
    return f"{done}: {one_line(settled['summary'], MAX_SAID)}"


# --- prompts ------------------------------------------------------------------------------------------------


def new_prompt_id() -> str:
    return secrets.token_hex(16)


def prompt(control: DaemonConnection, entry: ListEntry, id: str, text: str) -> str:
    """Prompt a session, and see that its agent takes it. Returns what to say of that."""
    asked = {"session_id": entry.id, "text": text, "prompt_id": id, "timeout": 0.0}
    answer: Row = control.call(Call("session_prompt", asked, dict))
    if answer.get("queued"):
        return f"{entry.name}: the prompt is queued, and said when the agent is ready"
    given = {"session_id": entry.id, "prompt_id": id, "stage": "accepted", "timeout": ACCEPT_SECONDS}
    receipt: Row = control.call(Call("prompt_receipt", given, dict))
    if receipt.get("outcome") == "dropped":
        raise NotDone(receipt.get("reason") or "it was dropped")
    if receipt.get("accepted"):
        return f"{entry.name} has taken the prompt"
    return f"{entry.name}: the prompt was {receipt['state']}, and is not taken yet"


# --- sessions -----------------------------------------------------------------------------------------------


def doubt(entry: ListEntry) -> tuple[Lines, str]:
    """What to show before a session is stopped, and what stopping it does."""
    is_program = "screen" in entry.row["can"]
    what = "ends its program, and the session with it" if is_program else "ends what its agent does now"

    def lines(width: int, look: Look) -> list[str]:
        row = entry.row
        about = " ".join(row.get("argv") or [row.get("what") or ""])
        return [
            look.paint("bold", look.fit(f"Stop {entry.name}?", width)),
            *folded(f"{row['kind']} session in {row['project']}", width),
            *folded(about, width),
        ]

    return lines, what


def stop(control: DaemonConnection, entry: ListEntry) -> str:
    """Stop what was shown, and not what has been started under its name since."""
    now = control.ask("session_find", session_id=entry.id)["session"]
    if any(now.get(name) != entry.row.get(name) for name in ("kind", "name", "started_at", "argv")):
        raise NotDone("it is another session by now; x shows which")
    answer = control.ask("session_stop", session_id=entry.id)
    if "exit_code" in answer:
        return f"{entry.name} ended with {answer['exit_code']}"
    dropped = len(answer.get("dropped") or ())
    said = f"stopped {entry.name}'s turn" if answer["stopped"] else f"{entry.name} was idle"
    return said + (
        f"; {dropped} queued prompt{'s were' if dropped > 1 else ' was'} dropped" if dropped else ""
    )


def kinds(control: DaemonConnection) -> list[str]:
    """What can be started: a terminal, our agent, and the third-party agents that are here."""
    found = control.ask("agents")["agents"]
    return ["terminal", "agent", *(each["name"] for each in found if each["path"])]


def starting(fields: dict[str, str], columns: int, rows: int) -> Callable[[DaemonConnection], str]:
    """What starts a session; that returns by which key it is listed. Raises NotDone if a field is wrong."""
    name, kind = fields["name"].strip(), fields["kind"]
    cwd = os.path.abspath(os.path.expanduser(fields["cwd"].strip() or "."))
    if not name:
        raise NotDone("a name is missing")
    if not os.path.isdir(cwd):
        raise NotDone(f"{cwd} is not a directory")
    has_worktree = fields.get("worktree") == "yes"
    if kind != "terminal":

        def opened(control: DaemonConnection) -> str:
            agent = None if kind == "agent" else kind
            with _place(control, name, cwd, has_worktree) as place:
                answer = control.ask("open_session", name=name, cwd=place, agent=agent)
            return f"{'agent' if agent is None else 'hosted'} {answer['session_id']}"

        return opened
    try:
        argv = shlex.split(fields["command"]) or [os.environ.get("SHELL") or "/bin/sh"]
    except ValueError as error:
        raise NotDone(f"the command can't be read: {error}") from None

    def started(control: DaemonConnection) -> str:
        size = {"cols": columns, "rows": rows}
        with _place(control, name, cwd, has_worktree) as place:
            control.ask("terminal_start", name=name, argv=argv, cwd=place, env=dict(os.environ), **size)
        return f"terminal {name}"

    return started


@contextlib.contextmanager
def _place(control: DaemonConnection, name: str, cwd: str, has_worktree: bool) -> Iterator[str]:
    """Where a session is started: in the directory, or in a worktree that is made for it, and is removed
    again if it can't be started."""
    if not has_worktree:
        yield cwd
        return
    made = control.ask("worktree_add", name=name, project=cwd)
    try:
        yield made["project"]
    except RequestError:
        if made["created"]:
            with contextlib.suppress(RequestError):
                control.ask("worktree_remove", name=made["worktree"]["name"])
        raise


# --- what is shown ------------------------------------------------------------------------------------------


def timeline(control: DaemonConnection, entry: ListEntry) -> Lines:
    """A session's turns, and time, tokens and cost by turn."""
    answer = control.ask("timeline", session_id=entry.id, limit=TURNS)
    now = time.time()

    def lines(width: int, look: Look) -> list[str]:
        if not answer["turns"] and not answer["aside"]:
            return [look.fit(f"{entry.name} has had no turns yet", width)]
        return [*timeline_lines(answer, now, width, look), "", *turn_plots(answer, now, width, look)]

    return lines


def changes(control: DaemonConnection, entry: ListEntry) -> Lines:
    """What has changed in a session's directory since it began there."""
    answer = control.ask("session_diff", session_id=entry.id)
    return lambda width, look: diff_lines(entry.name, answer, width, look)


def reports(control: DaemonConnection, entry: ListEntry) -> Lines:
    """What verifiers said of a session, with confidence and cost over time."""
    rows = control.ask("verify_reports", session_id=entry.id, limit=REPORTS)["reports"]
    found = [PlottedReport(row["time"], row["confidence"], row.get("cost") or 0.0) for row in rows]

    def lines(width: int, look: Look) -> list[str]:
        if not rows:
            return [look.fit(f"no verifier has said anything of {entry.name}", width)]
        listed = plots(entry.name, found, width, look)
        for row in rows:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["time"]))
            head = f"{when}  turn {row['turn']:<4} {word_for(row['confidence']).upper():<9} "
            listed.append(head + look.fit(row["summary"], max(8, width - len(head))))
        return listed

    return lines


# --- what happened ------------------------------------------------------------------------------------------

_TOLD: dict[str, Callable[[Row], tuple[str, str]]] = {
    "opened": lambda data: (f"{data['kind']} session opened in {data['project']}", ""),
    "closed": lambda data: ("closed", ""),
    "state": lambda data: (f"{data['state']}{': ' + data['question'] if data['question'] else ''}",
                           "yellow" if data["state"] == "waits" else ""),
    "prompt-started": lambda data: ("a prompt was taken", ""),
    "prompt-ended": lambda data: (f"a prompt ended: {data['outcome']} {data['reason'] or ''}", ""),
    "turn-began": lambda data: (f"turn {data['turn']} began", ""),
    "turn-ended": lambda data: (f"turn {data['turn']} ended: {data['outcome']}",
                                "" if data["outcome"] == "done" else "red"),
    "failed": lambda data: (f"failed: {data['reason']}", "red"),
    "correction": lambda data: (f"sent back ({data['state']}): {data['reason']}", "yellow"),
    "exited": lambda data: (f"ended with {data['exit_code']}", "red" if data["exit_code"] else ""),
    "judged": lambda data: (f"{word_for(data['confidence']).upper()}: {data['summary']}", ""),
    "needs-person": lambda data: (f"needs a person: {data['reason']}", "yellow"),
}  # fmt: skip


def told(topic: str, data: Row) -> tuple[str, str] | None:
    """What the log has of an event, and in which colour; None if nothing."""
    if topic == "hosts/state":
        why = f": {data['why']}" if data["why"] else ""
        return f"the host {data['host']} is {data['state']}{why}", ""
    make = _TOLD.get(topic.partition("/")[2])
    return make(data) if make is not None else None


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Let ^C and what quits be for the program that has the terminal now.

    By handlers, as what is ignored stays ignored in programs that are started.
    """
    signals = (signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(each, lambda number, frame: None) for each in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before):
            signal.signal(number, handler)
