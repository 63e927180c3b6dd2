"""Which sockets a sandbox has to cover."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from fairlead.system.bubblewrap import sockets_of_all


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
def test_sockets_in_other_users_directories_are_left_out() -> None:
    with tempfile.TemporaryDirectory(prefix="fl-", dir="/tmp") as name, socket.socket(socket.AF_UNIX) as ours:
        path = str(Path(name, "inner", "a.sock"))
        os.mkdir(os.path.dirname(path), 0o700)
        ours.bind(path)
        ours.listen()
        assert path in sockets_of_all()
        os.chown(os.path.dirname(path), 12345, 12345)
        assert path not in sockets_of_all()
        os.chmod(os.path.dirname(path), 0o711)
        assert path in sockets_of_all()
