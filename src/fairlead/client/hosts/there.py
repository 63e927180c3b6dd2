"""Running a command of ours on another host, with our standard input, output and error output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from ...system.settings import Settings
from ...wire import link
from . import ssh
from .dial import HostRefused, NoFairlead, find, own_agent

READ_SIZE = 65_536


def run(name: str, words: Sequence[str], settings: Settings) -> int:
    """Run `fairlead WORDS…` there; gives its exit code. Raises HostRefused, NoFairlead.

    At a terminal it gets one of its own there. Else what its shell prints before it begins is left out, and
    it is told to end when we do.
    """
    host = find(name, settings)
    if host is None:
        raise HostRefused(
            name,
            f"`fairlead {words[0]}` needs ssh, and {name} is known through the fleet only; "
            "`fairlead host add NAME DESTINATION` adds it with ssh",
        )
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    command = ssh.there(settings, host, words, terminal=terminal, agent=own_agent())
    try:
        if terminal:
            return subprocess.run(command, check=False).returncode
        running = subprocess.Popen(command, stdout=subprocess.PIPE)
    except OSError as error:
        raise HostRefused(name, f"can't run {command[0]}: {error.strerror}") from None
    assert running.stdout is not None
    try:
        _pass_on(name, running.stdout.fileno())
    except BaseException:
        running.terminate()
        running.wait()
        raise
    return running.wait()


def _pass_on(name: str, reading: int) -> None:
    search = link.Search()
    greeting = None
    while data := os.read(reading, READ_SIZE):
        if greeting is None:
            greeting, used = search.take(data)
            data = data[used:]
            if greeting is not None and greeting.word == link.MISSING:
                raise NoFairlead.missing(name)
            if greeting is not None and greeting.word == link.OLD:
                raise NoFairlead.old(name, greeting.text)
            if search.is_too_much:
                raise NoFairlead.noisy(name)
        if greeting is not None:
            view = memoryview(data)
            while view:
                view = view[os.write(sys.stdout.fileno(), view) :]
