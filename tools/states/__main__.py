"""Makes the missing recordings: `python -m tools.states [AGENT…] [--scene NAME] [--few] [--at-once N]`.

They go into a cache outside of the repository, which all its copies share. On Linux this runs in a network
namespace of its own, where there is only loopback.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .agents import AGENTS
from .recordings import Recording, all_recordings
from .scenes import record

_INSIDE = "FAIRLEAD_RECORDING_ALONE"
FEW = ("turns", "permission")
"""The scenes that `--few` makes of an agent of which there is no recording: enough to see that its rules
hold."""
TRIES = 2
"""How often a recording is tried: programs may take longer to start than a scene waits."""


def _alone() -> None:
    """Go on in a network namespace, where that can be had."""
    words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if os.environ.get(_INSIDE) or shutil.which("unshare") is None:
        return
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
        again = [*words, sys.executable, "-m", "tools.states", *sys.argv[1:]]
        os.execvpe(words[0], again, {**os.environ, _INSIDE: "1"})


def _make(recording: Recording) -> str:
    command = [sys.executable, "-m", "tools.states", "--only", recording.name]
    for _ in range(TRIES):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return "recorded"
    return f"failed: {done.stderr.strip()[-3000:]}"


def _few() -> list[Recording]:
    """A recording of each of a few scenes, or of its first one, for each agent that is installed and has none
    at all. Shells are left out: how they are set up differs from machine to machine."""
    chosen: list[Recording] = []
    for name, group in itertools.groupby(all_recordings(), lambda each: each.agent):
        of_agent, agent = list(group), AGENTS[name]
        if agent.is_shell or not agent.program.exists() or any(each.path.exists() for each in of_agent):
            continue
        scenes = [name for name in FEW if any(each.scene == name for each in of_agent)] or [of_agent[0].scene]
        chosen += (next(each for each in of_agent if each.scene == name) for name in scenes)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("agents", nargs="*")
    parser.add_argument("--scene", default="")
    parser.add_argument("--few", action="store_true", help="a few of those agents of which there is none")
    parser.add_argument("--only", default="", help="one recording by its name")
    parser.add_argument("--at-once", type=int, default=3)
    given = parser.parse_args()
    _alone()
    if given.only:
        one = next(each for each in all_recordings() if each.name == given.only)
        record(AGENTS[one.agent], one.scene, one.size, one.seed, one.path)
        return
    wanted = [
        each
        for each in (_few() if given.few else all_recordings())
        if not each.path.exists()
        and (not given.agents or each.agent in given.agents)
        and given.scene in ("", each.scene)
    ]
    with ThreadPoolExecutor(given.at_once) as pool:
        for recording, said in zip(wanted, pool.map(_make, wanted)):
            print(f"{recording.name}: {said}", flush=True)


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[2])
    main()
