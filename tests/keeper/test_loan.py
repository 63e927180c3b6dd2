"""A keeper lends its terminal to the daemon and has every byte again, however the loan ends."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.keeper.loan import SIZE, Loan, create
from fairlead.keeper.protocol import BORROW, LENT, MARK, RESIZE, FrameKind
from fairlead.wire.keepty import Role
from tests.doors.peer import Peer
from tests.hosting import WAIT, Hosting
from tests.keeper.nurseries import Daemon, Nursery

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the keeper has no memory to share")

ATTEMPTS = 20
ECHO_WAIT = 1.0
"""Seconds after which an echo needs the keeper."""
ECHO = "stty raw -echo; echo ready; exec cat"


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    nursery.close()


class Borrower:
    """A daemon that has borrowed the terminal of an echo."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        daemon.until(lambda: b"ready" in daemon.printed)
        daemon.tell(FrameKind.BORROW, BORROW.pack(7))
        self.number, self.offset = LENT.unpack(daemon.until_kind(FrameKind.LENT))
        self.terminal = daemon.handed[0]
        self.loan = Loan(os.dup(daemon.handed[1]))

    def read(self, count: int) -> bytes:
        """Read so many bytes of the terminal into the shared memory."""
        start = self.loan.count
        while self.loan.count < start + count:
            assert select.select([self.terminal], [], [], WAIT)[0]
            self.loan.read(self.terminal)
        return self.loan.since(start)


def test_what_a_daemon_read_itself_is_told_to_the_next_one(nursery: Nursery) -> None:
    borrower = Borrower(nursery.start("a", ECHO))
    assert (borrower.number, borrower.offset) == (7, len(b"ready\n"))
    os.write(borrower.terminal, b"first")
    assert borrower.read(5) == b"first"
    borrower.daemon.tell(FrameKind.RETURN)
    os.write(borrower.terminal, b"second")
    borrower.daemon.until(lambda: borrower.daemon.frames[-1][1].endswith(b"second"))
    borrower.daemon.close()
    following = nursery.connect_to("a")
    following.until(lambda: b"second" in following.printed)
    assert following.printed == b"ready\nfirstsecond"


def test_what_was_read_in_the_instant_of_a_kill_is_not_lost(nursery: Nursery) -> None:
    borrower = Borrower(nursery.start("a", ECHO))
    os.write(borrower.terminal, b"counted")
    borrower.read(7)
    os.write(borrower.terminal, b"uncounted")
    assert select.select([borrower.terminal], [], [], WAIT)[0]
    with open(f"/proc/self/fd/{borrower.daemon.handed[1]}", "r+b", buffering=0) as memory:
        before = os.pread(memory.fileno(), 8, 0)
        borrower.read(9)
        os.pwrite(memory.fileno(), before, 0)  # as if it had died before it counted
    borrower.daemon.close()
    following = nursery.connect_to("a")
    following.until(lambda: b"uncounted" in following.printed)
    assert following.printed == b"ready\ncounteduncounted"


def test_a_program_that_ends_while_its_terminal_is_lent_is_read_to_its_end(nursery: Nursery) -> None:
    borrower = Borrower(nursery.start("a", "stty raw -echo; echo ready; read x; printf bye; exit 3"))
    os.write(borrower.terminal, b"\n")
    daemon = borrower.daemon
    daemon.until_kind(FrameKind.ENDING)
    assert FrameKind.EXITED not in [kind for kind, _ in daemon.frames]
    daemon.tell(FrameKind.RETURN)
    assert daemon.exit_code() == 3
    assert daemon.printed.endswith(b"bye")


def test_a_loan_can_be_had_again_and_begins_with_clear_memory(nursery: Nursery) -> None:
    borrower = Borrower(nursery.start("a", ECHO))
    os.write(borrower.terminal, b"much more than the second time")
    borrower.read(30)
    borrower.daemon.tell(FrameKind.RETURN)
    borrower.daemon.frames = [each for each in borrower.daemon.frames if each[0] != FrameKind.LENT]
    again = Borrower(borrower.daemon)
    assert again.offset == len(b"ready\n") + 30
    os.write(again.terminal, b"short")
    again.read(5)
    again.daemon.close()
    following = nursery.connect_to("a")
    following.until(lambda: b"short" in following.printed)
    assert following.printed == b"ready\nmuch more than the second timeshort"


def test_a_size_that_comes_after_a_loan_is_in_order_with_what_was_read(nursery: Nursery) -> None:
    borrower = Borrower(nursery.start("a", ECHO))
    os.write(borrower.terminal, b"wide")
    borrower.read(4)
    borrower.daemon.tell(FrameKind.RETURN)
    borrower.daemon.tell(FrameKind.RESIZE, RESIZE.pack(40, 10, 1))
    assert MARK.unpack(borrower.daemon.until_kind(FrameKind.RESIZED)) == (len(b"ready\nwide"), 40, 10, 1)


def test_the_memory_holds_no_more_than_it_says() -> None:
    loan = Loan(create())
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while loan.room:
            os.write(writing, b"x" * min(4096, loan.room))
            loan.read(reading)
        assert len(loan.take()[0]) == SIZE
        assert loan.take() == (b"", 0.0)
    finally:
        loan.close()
        os.close(reading)
        os.close(writing)


def _echoes_without(keeper: int, peer: Peer, attempt: int) -> bool:
    """Type something, stop the keeper, and type more; true if that came back, too."""
    peer.typed(f"<{attempt}.a>")
    peer.until(f"<{attempt}.a>".encode())
    os.kill(keeper, signal.SIGSTOP)
    try:
        peer.socket.settimeout(ECHO_WAIT)
        peer.typed(f"<{attempt}.b>")
        peer.until(f"<{attempt}.b>".encode())
        return True
    except TimeoutError:
        return False
    finally:
        os.kill(keeper, signal.SIGCONT)
        peer.socket.settimeout(WAIT)
        peer.until(f"<{attempt}.b>".encode())


def test_an_echo_does_not_need_the_keeper_while_somebody_types() -> None:
    hosting = Hosting()
    hosting.use()
    try:
        hosting.start("work", ECHO)
        pid = hosting.sessions()["work"]["pid"]
        keeper = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        with Peer.greeted("work", Role.WRITER) as peer:
            attempts = 0
            while not _echoes_without(keeper, peer, attempts):
                attempts += 1  # on a busy machine the terminal may just have been given back
                assert attempts < ATTEMPTS
            os.kill(pid, signal.SIGKILL)
            hosting.until(lambda: hosting.sessions()["work"]["exit_code"] == 128 + signal.SIGKILL)
        assert f"<{attempts}.a><{attempts}.b>" in hosting.run("screen", "work").stdout
    finally:
        hosting.close()
