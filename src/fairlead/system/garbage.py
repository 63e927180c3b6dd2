"""What lasts as long as the process, such as modules and journals, is left out of garbage collection.

Python looks for unreachable cycles each time that enough objects were made, and importing or reading makes
many that all stay: a daemon spent a third of its start on such looks, and a full one over a long journal
stops all threads for a second. May be used from any thread; imports nothing heavy.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside: list[object] = []
"""One for each block that is being run, in all threads."""


@contextmanager
def lasting() -> Iterator[None]:
    """Collect nothing during this block, and never look at what was made in it: it is expected to last."""
    block = object()
    with _lock:
        _inside.append(block)
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _inside.remove(block)
            if not _inside:
                gc.freeze()
                gc.enable()
