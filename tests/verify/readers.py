"""Who may only read, by each way in which that is enforced."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from fairlead.system.bubblewrap import bubblewrap
from fairlead.verify.checks.sandbox import Enforcement, ReadOnly
from tests import peers
from tests.verify.projects import ENVIRONMENT

BOTH: tuple[Enforcement, ...] = ("bubblewrap", "allow-list")


def reader(project: Path, enforcement: Enforcement, **more: object) -> ReadOnly:
    if enforcement == "bubblewrap":
        peers.require("bwrap")
        if asyncio.run(bubblewrap()) is None:
            tried = subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], check=False)
            assert tried.returncode != 0, "bubblewrap works here, but our way of calling it does not"
            pytest.skip("bubblewrap can't make namespaces here: only the allow-list can be tried")
    return ReadOnly(project, ENVIRONMENT, enforcement=enforcement, **more)  # type: ignore[arg-type]
