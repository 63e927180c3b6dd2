"""A process that dies at a step of its work, as a daemon does that is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

from fairlead.system.repository import Shadow

DEAD = 9
"""The exit code of the one that died."""
WRITING = ("update-ref", "commit-tree", "read-tree", "merge-tree", "update-index", "checkout-index")


def dies(work: Callable[[], object], at: int) -> bool:
    """Do some work in another process, which dies before the step of this number: a call of git that writes,
    a rename, a removal, a write to the disk. Returns false if it was done before that."""
    child = os.fork()
    if child == 0:
        try:
            _count(at)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, DEAD), code
    return code == DEAD


def _count(at: int) -> None:
    left = at

    def step(real: Callable[..., Any], matters: Callable[..., bool] = lambda *given: True) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal left
            if matters(*given):
                left -= 1
                if left < 0:
                    os._exit(DEAD)
            return real(*given, **more)

        return call

    Shadow.run = step(Shadow.run, lambda shadow, *words: words[0] in WRITING)  # type: ignore[method-assign]
    os.rename = step(os.rename)
    os.replace = step(os.replace)
    os.unlink = step(os.unlink)
    os.fsync = step(os.fsync)
    shutil.rmtree = step(shutil.rmtree)
