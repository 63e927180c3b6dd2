"""`fairlead prompt`: prompt an agent of any kind, and see what comes of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, SESSION, Argument, Command, Failure, Option, UsageError, parsed, seconds
from .given_text import given_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.connection import DaemonConnection

BLOCKED = 3
TIMED_OUT = 124  # as timeout(1) has it
INTERRUPTED = 130
LONGEST = 24 * 3600.0
"""Seconds that the daemon waits for a prompt."""
GRACE = 10.0
"""Seconds that the daemon has, after a prompt's time, to say what came of it."""
LOOK = 1.0
"""Seconds after which it is looked at again what a prompt waits for."""
MAX_SHOWN = 200
"""How many characters of what a prompt waits for are shown."""
SHORT_ID = 8
"""How much of a prompt's id is shown."""

COMMAND = Command(
    "prompt",
    "Prompt an agent: our own, a third-party one, or one in a terminal. Returns when the agent has taken\n"
    "the prompt, or when it is queued because the agent works. In a terminal it is pasted and submitted\n"
    "only if the agent shows its empty input; a dialog, a menu or a draft there is an error that says what\n"
    "is in the way, and with --wait or --timeout it waits until the way is free. A shell takes a command at\n"
    "its prompt. The prompt is said once, even if the daemon is killed meanwhile.\n"
    "\n"
    "While it waits, what it waits for is told on stderr, and again when that changes. ^C, or the end of\n"
    "--timeout, withdraws a prompt that was not typed yet.",
    takes=(
        SESSION,
        Argument(
            "text", "the prompt; - reads it from standard input; with --cancel, a prompt's id", optional=True
        ),
    ),
    options=(
        Option(
            "-w",
            "--wait",
            help="until the turn has ended; prints the answer of Fairlead's own and of third-party agents",
        ),
        Option("--timeout", value="SECONDS", kind=seconds, help="give up after this long"),
        Option("--cancel", help="withdraw a prompt that waits: the only one, or the one with this id"),
        Option("--receipts", help="list the last prompts and what became of them"),
        JSON,
    ),
    either=("cancel", "receipts", "wait"),
    examples=(
        ("fairlead prompt work 'now the tests'", "returns when the agent has taken it"),
        ("git diff | fairlead prompt work - --wait", "wait until the turn has ended"),
        ("fairlead prompt work next --timeout 60 --json", "the receipt: how far it got, and when"),
        ("fairlead prompt work --receipts", "what became of earlier prompts"),
        ("fairlead prompt work --cancel", "withdraw the one that waits"),
    ),
    codes={
        0: "accepted or queued; with --wait, the turn is done",
        1: "refused or dropped, with the reason; or with --wait, the turn failed or was aborted",
        BLOCKED: "not delivered: a dialog, a menu, a draft or another program is (still) in the way",
        TIMED_OUT: "timed out while the agent worked, or asked something in the turn that the prompt began;\n"
        "stderr says whether it has got the prompt, and what it asks",
        INTERRUPTED: "^C; stderr says whether the prompt was withdrawn",
    },
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if options.receipts or options.cancel:
        if options.timeout is not None:
            raise UsageError("--timeout is for prompts that are sent")
        if options.receipts and options.text is not None:
            raise UsageError("--receipts takes no TEXT")
        return _list(options) if options.receipts else _cancel(options)
    if options.text is None:
        raise UsageError(f"missing TEXT; usage: {COMMAND.usage}")
    text = given_text(options.text)
    if not text.strip():
        raise UsageError("missing TEXT: the prompt is empty")
    return _prompt(options, text)


def _prompt(options: Any, text: str) -> int:
    from ..client.connection import DaemonConnection, RequestError

    with DaemonConnection() as control:
        sent = _Sent(control, options)
        try:
            try:
                receipt = sent.send(text)
            except RequestError as error:
                if isinstance(error.data, dict) and error.data.get("blocked"):
                    _tell(f"{sent.name}: not delivered: {error}")
                    return BLOCKED
                raise
        except KeyboardInterrupt:
            _tell(sent.interrupted())
            return INTERRUPTED
    if options.json:
        import json

        print(json.dumps({"name": sent.name, "prompt_id": sent.prompt} | receipt))
    elif options.wait and receipt.get("text"):
        print(receipt["text"])
    code = sent.code(receipt)
    if not options.json:
        print(sent.said(receipt, code), file=sys.stderr)
    return code


class _Sent:
    """A prompt that is sent, until what the options wait for."""

    def __init__(self, control: DaemonConnection, options: Any) -> None:
        import secrets
        import time

        self._control = control
        self._is_wait = options.wait
        self._timeout = options.timeout
        self._deadline = time.monotonic() + (LONGEST if options.timeout is None else options.timeout)
        self._shown = ""
        self._is_late = False
        self._is_queued = False
        self.name: str = options.name
        self.prompt = secrets.token_hex(16)
        self._session: dict[str, str] = {"name": options.name}

    def send(self, text: str) -> dict[str, Any]:
        """Send it, and return its receipt when it is as far as the options want, or is ended."""
        import time

        from ..client.calls import Call

        patience = self._timeout if self._timeout is not None else LONGEST if self._is_wait else None
        given = {"name": self.name, "text": text, "prompt_id": self.prompt, "timeout": patience}
        answer: dict[str, Any] = self._control.call(Call("session_prompt", given, dict))
        self.name, self.prompt = answer["session"]["name"], answer["prompt_id"]
        self._session = {"session_id": answer["session"]["id"]}
        self._is_queued = bool(answer.get("queued")) and patience is None
        if self._is_queued:
            return self._receipt(0.0)
        while True:
            left = self._deadline - time.monotonic()
            receipt = self._receipt(max(0.0, min(LOOK, left)))
            if self._is_there(receipt):
                return receipt
            if left <= 0:
                return self._given_up(receipt)
            self._follow(receipt)

    def _is_there(self, receipt: dict[str, Any]) -> bool:
        return receipt["state"] == "ended" or (not self._is_wait and "accepted" in receipt)

    def _receipt(self, timeout: float) -> dict[str, Any]:
        from ..client.calls import Call

        given = {**self._session, "prompt_id": self.prompt, "timeout": timeout}
        given["stage"] = "ended" if self._is_wait else "accepted"
        return self._control.call(Call("prompt_receipt", given, dict))

    def _given_up(self, receipt: dict[str, Any]) -> dict[str, Any]:
        """Its time is over: one that waits is withdrawn, and one that is being typed gets a moment."""
        import time

        self._is_late = True
        reason = f"{receipt.get('waits_for') or 'the agent is busy'}, and it was not sent in time"
        if receipt["state"] == "queued" and self._withdraw(reason):
            # also if an earlier prompt's turn asks something, of which this one's receipt will say nothing
            return self._receipt(0.0) | ({"blocked": True} if receipt.get("blocked") else {})
        if "accepted" in receipt:
            return receipt
        deadline = time.monotonic() + GRACE
        while not (receipt["state"] == "ended" or "accepted" in receipt) and time.monotonic() < deadline:
            receipt = self._receipt(LOOK)
        return receipt

    def _withdraw(self, reason: str | None = None) -> bool:
        from ..client.calls import Call

        given = {**self._session, "prompt_id": self.prompt, "reason": reason}
        return bool(self._control.call(Call("prompt_withdraw", given, dict))["withdrawn"])

    def _follow(self, receipt: dict[str, Any]) -> None:
        """Say what it waits for, if that is something new."""
        waits_for, state = receipt.get("waits_for", ""), receipt["state"]
        if state == "queued":
            before = _before(receipt.get("place", 1))
            shown = f"queued{before}{': ' if waits_for else ''}{waits_for}" if before or waits_for else ""
        elif waits_for:
            shown = f"{waits_for}; `fairlead approvals` or `fairlead attach {self.name}` answers it"
        else:
            shown = "" if state == "written" else state
        if shown and shown != self._shown:
            self._shown = shown
            _tell(f"{self.name}: {shown}")

    def interrupted(self) -> str:
        """What became of it when ^C was pressed."""
        from ..client.connection import RequestError

        try:
            is_withdrawn = self._withdraw()
            if is_withdrawn:
                return f"{self.name}: withdrawn; it was not sent"
            receipt = self._receipt(0.0)
        except RequestError as error:
            return f"{self.name}: it is not known whether it was sent: {error}"
        if receipt["state"] == "ended":
            return f"{self.name}: it was over already: {_ended(receipt)}"
        return f"{self.name}: it was sent already, and the agent goes on with it"

    def code(self, receipt: dict[str, Any]) -> int:
        is_taken = "accepted" in receipt
        if receipt["state"] == "ended":
            if receipt["outcome"] == "done" or (not self._is_wait and is_taken):
                return 0
            if receipt["outcome"] == "dropped" and receipt.get("blocked"):
                return BLOCKED
            return TIMED_OUT if self._is_late and receipt["outcome"] == "dropped" else 1
        if self._is_wait:
            return TIMED_OUT
        return 0 if self._is_queued or is_taken else TIMED_OUT

    def said(self, receipt: dict[str, Any], code: int) -> str:
        """What a person is told of a receipt, in a line."""
        from ..formats.columns import printable
        from ..formats.shown import one_line

        state: str = receipt["state"]
        if state == "ended" and (code or "accepted" not in receipt):
            return f"fairlead prompt: {printable(self.name)}: {_ended(receipt)}"
        if state == "queued":
            said = f"queued: {printable(self.name)} is busy{_before(receipt.get('place', 1))}"
        elif state == "ended":
            said = f"{receipt['outcome']} after {receipt['ended'] - receipt['accepted']:.1f} s"
        else:
            said = state
        if code != TIMED_OUT:
            return said
        if state != "queued" and receipt.get("waits_for"):
            said += f"; {one_line(printable(receipt['waits_for']), MAX_SHOWN)}"
        return f"fairlead prompt: timed out; {said}"


def _before(place: int) -> str:
    from ..formats.shown import counted

    return f" ({counted(place - 1, 'prompt')} before it)" if place > 1 else ""


def _ended(receipt: dict[str, Any]) -> str:
    from ..formats.columns import printable

    return _outcome(receipt) + (f": {printable(receipt['reason'])}" if receipt.get("reason") else "")


def _outcome(receipt: dict[str, Any]) -> str:
    outcome: str = receipt["outcome"]
    return "not delivered" if outcome == "dropped" else outcome


def _tell(line: str) -> None:
    from ..formats.shown import one_line
    from .far import hinted

    print(f"fairlead prompt: {one_line(hinted(line), MAX_SHOWN)}", file=sys.stderr, flush=True)


# --- earlier prompts --------------------------------------------------------------------------------------


def _list(options: Any) -> int:
    import time

    from ..client.connection import DaemonConnection
    from ..formats.columns import printable
    from ..ui.needs import span
    from .columns import table

    with DaemonConnection() as control:
        answer = control.ask("prompt_receipts", name=options.name)
    rows: list[dict[str, Any]] = answer["receipts"]
    if options.json:
        import json

        print(json.dumps(rows, indent=2))
        return 0
    if not rows:
        print(f"no prompts of {printable(answer['session']['name'])} are known", file=sys.stderr)
        return 0
    cells = [("ID", "AGE", "STATE", "PROMPT", "WHY")]
    for row in rows:
        age = span(max(0.0, time.time() - row["asked"])) if row.get("asked") else "-"
        state = _outcome(row) if row["state"] == "ended" else row["state"]
        why = printable(row.get("reason") or row.get("waits_for") or "-")
        cells.append((_short(row["id"]), age, state, printable(row["words"]), why))
    table(cells, drops=("ID", "AGE"), flexible="PROMPT")
    return 0


def _short(id: str) -> str:
    return id.removeprefix("auto-")[:SHORT_ID]


def _cancel(options: Any) -> int:
    from ..client.connection import DaemonConnection
    from ..formats.columns import printable

    with DaemonConnection() as control:
        answer = control.ask("prompt_receipts", name=options.name)
        name = printable(answer["session"]["name"])
        waiting = [row for row in answer["receipts"] if row["state"] == "queued"]
        found = [row for row in waiting if row["id"].removeprefix("auto-").startswith(options.text or "")]
        if not found:
            which = f"of id {options.text!r} " if options.text else ""
            raise Failure(f"no prompt {which}waits for {name}; see `fairlead prompt {name} --receipts`")
        if len(found) > 1:
            ids = ", ".join(_short(row["id"]) for row in found)
            raise Failure(f"{len(found)} prompts wait for {name}; give the id of one: {ids}")
        [row] = found
        given = {"session_id": answer["session"]["id"], "prompt_id": row["id"]}
        if not control.ask("prompt_withdraw", **given)["withdrawn"]:
            raise Failure(f"{name} has got it meanwhile: {printable(row['words'])}")
    if options.json:
        import json

        print(json.dumps({"name": name, "prompt_id": row["id"], "withdrawn": True}))
    else:
        print(f"withdrawn: {printable(row['words'])}", file=sys.stderr)
    return 0
