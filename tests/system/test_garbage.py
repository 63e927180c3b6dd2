"""Tests for `system/garbage.py`."""

import gc
import threading

from fairlead.system.garbage import lasting


class _Node:
    pass


def test_nothing_is_collected_within_and_what_was_made_is_not_looked_at_afterwards() -> None:
    with lasting():
        assert not gc.isenabled()
        made = _Node()
    assert gc.isenabled()
    assert not any(each is made for each in gc.get_objects())
    gc.unfreeze()
    assert any(each is made for each in gc.get_objects())


def test_collections_begin_again_when_the_last_of_several_threads_is_done() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with lasting():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with lasting():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
    gc.unfreeze()
