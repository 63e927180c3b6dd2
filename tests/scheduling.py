"""Which process runs which tests. xdist 3.8 hangs when one of its processes crashes: it gives the test at
which it crashed to the next process again, and gives that one too little, as a process runs a test only when
it knows the next one, or that there is none."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadGroupScheduling


class Groups(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """Groups of tests stay together, and a process that crashes is replaced and costs one test."""

    def remove_node(self, node: Any) -> str | None:
        left = {scope: unit for scope, unit in self.assigned_work[node].items() if not all(unit.values())}
        self.assigned_work[node] = left
        if not left:
            super().remove_node(node)
            return None
        unit = next(iter(left.values()))
        crashed: str = next(name for name, is_done in unit.items() if not is_done)
        unit[crashed] = True
        if all(unit.values()):
            del left[next(iter(left))]
        super().remove_node(node)
        return crashed

    def schedule(self) -> None:
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)
