"""Questions that a machine's daemon asks a person."""

from __future__ import annotations

import threading
from typing import Any

from tests.fleet.machines import Machine

WAIT = 30.0


class AskedPerson:
    """A question with two answers. It waits until it is answered."""

    def __init__(self, machine: Machine, token: str) -> None:
        self.token = token
        self.answer: dict[str, Any] = {}
        self._machine = machine
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        machine.until(lambda: self.is_open)

    def _ask(self) -> None:
        options = ["red", "blue"]
        self.answer = self._machine.ask(
            "ask_person", token=self.token, text="which roses?", project="/tmp", options=options
        )

    @property
    def is_open(self) -> bool:
        return any(each["token"] == self.token for each in self._machine.ask("approvals")["approvals"])

    def settle(self) -> None:
        """Answer it here if nobody has, and wait until it has its answer."""
        if self.is_open:
            self._machine.ask("approval_settle", token=self.token, allowed=False, option="deny")
        self._thread.join(WAIT)
