"""Gates: each looks at an action and lets it pass, blocks it, or asks a person. All of them must agree.

They are asked by priority, the highest first. A gate that blocks ends it; one that asks does not, as a later
one may block. A gate that fails blocks. What each said is the trace, which goes with every reply.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import NamedTuple

from ..formats.patterns import compiled
from .signals import MAX_COMMAND, MAX_TEXT, Action, GateStep, control_character

MAX_GATES = 100

SHOWN = ("CLI", "TUI", "NOTIFY", "LOG")
"""Actuators whose text is seen by somebody."""


class GateOutcome(StrEnum):
    PASSED = "PASSED"
    BLOCKED = "BLOCKED"
    APPROVAL = "APPROVAL"


class GateVerdict(NamedTuple):
    """What a gate says, and why."""

    outcome: GateOutcome
    reason: str = ""


PASS = GateVerdict(GateOutcome.PASSED)


def block(reason: str) -> GateVerdict:
    return GateVerdict(GateOutcome.BLOCKED, reason)


def ask(reason: str) -> GateVerdict:
    return GateVerdict(GateOutcome.APPROVAL, reason)


class Gate(NamedTuple):
    name: str
    priority: int
    judge: Callable[[Action], GateVerdict]


class GateDecision(NamedTuple):
    """What all gates together say."""

    outcome: GateOutcome
    reason: str
    trace: tuple[GateStep, ...]


class Gates:
    """The gates, in their order."""

    def __init__(self, gates: Iterable[Gate] = ()) -> None:
        self._gates: list[Gate] = []
        for gate in gates:
            self.add(gate)

    def add(self, gate: Gate) -> None:
        if len(self._gates) >= MAX_GATES:
            raise ValueError(f"there are {MAX_GATES} gates already")
        self._gates.append(gate)
        self._gates.sort(key=lambda each: -each.priority)

    def judge(self, action: Action) -> GateDecision:
        """Ask all gates about an action."""
        trace: list[GateStep] = []
        outcome, reason = GateOutcome.PASSED, ""
        for gate in self._gates:
            try:
                verdict = gate.judge(action)
            except Exception as error:
                verdict = block(f"the gate {gate.name} failed: {type(error).__name__}: {error}")
            trace.append(GateStep(gate.name, verdict.outcome, verdict.reason))
            if verdict.outcome is GateOutcome.BLOCKED:
                return GateDecision(verdict.outcome, verdict.reason, tuple(trace))
            if verdict.outcome is GateOutcome.APPROVAL and outcome is GateOutcome.PASSED:
                outcome, reason = verdict.outcome, verdict.reason
        return GateDecision(outcome, reason, tuple(trace))


# --- those that are built in ------------------------------------------------------------------------------


class TakenCommand(NamedTuple):
    """A command line, taken apart: its simple commands in all ways they may be written, with a NUL for what
    is only known when it runs, and whether that is all it does."""

    commands: Collection[str]
    is_understood: bool


TakeApart = Callable[[str], TakenCommand]


def _is_command(action: Action) -> bool:
    """True if a shell may run the text."""
    return action.target == "SHELL" or action.verb == "type"


def _command_text(command: str) -> str:
    """A command for people: not too long; a NUL stands for what is only known when it runs."""
    return "".join(each if each.isprintable() else "…" for each in command[:100])


def protocol(names: Callable[[], Collection[str]]) -> Gate:
    """Whether an action is one at all: a known actuator, a sane length, a session if need be."""

    def judge(action: Action) -> GateVerdict:
        if action.target not in names():
            return block(f"unknown actuator :{action.target}; known are {', '.join(sorted(names()))}")
        if len(action.text) > MAX_TEXT:
            return block(f"a text of {len(action.text)} characters; at most {MAX_TEXT} are allowed")
        if _is_command(action) and len(action.text) > MAX_COMMAND:
            return block(f"a command of {len(action.text)} characters; at most {MAX_COMMAND} are judged")
        if action.verb == "type" and not action.session:
            return block("typing needs a session")
        if action.verb == "type" and (found := control_character(action.text)):
            return block(f"a text with {found} is not typed: control characters are keys")
        return PASS

    return Gate("protocol", 1000, judge)


def secrets(clean: Callable[[str], str]) -> Gate:
    """No known secret leaves in a text or a command. `clean` takes secrets out of a text."""

    def judge(action: Action) -> GateVerdict:
        if action.target not in SHOWN and action.target != "SHELL":
            return PASS
        holds = clean(action.text) != action.text or clean(action.title) != action.title
        return block("the text contains a secret") if holds else PASS

    return Gate("secrets", 900, judge)


_PATH = re.compile(r"[^\s'\"`;|&<>(){}=,]+")


def paths(
    is_secret: Callable[[PurePath], bool],
    patterns: Sequence[str] = (),
    home: str | None = None,
    take_apart: TakeApart = lambda text: TakenCommand((), True),
) -> Gate:
    """Commands don't touch files with secrets, nor what matches a pattern, such as `~/.config/**`."""
    home = home or os.path.expanduser("~")
    whole = [f"{home}{each[1:]}" if each.startswith("~") else each for each in patterns]
    whole += [each.removesuffix("/**") for each in whole]

    def judge(action: Action) -> GateVerdict:
        if not _is_command(action):
            return PASS
        bare = re.sub(r"[\\'\"]", "", action.text)
        texts = (action.text, bare, *take_apart(action.text).commands)
        for word in dict.fromkeys(match[0] for text in texts for match in _PATH.finditer(text)):
            path = os.path.normpath(re.sub(r"\A(?:~|\$HOME|\$\{HOME\})(?=/|\Z)", lambda _: home, word))
            if is_secret(PurePath(path)) or any(fnmatchcase(path, each) for each in whole):
                return block(f"{_command_text(word)} is protected")
        return PASS

    return Gate("protected-paths", 800, judge)


_PRECIOUS = r"(?:/|/\*|~|~/|\$HOME|/(?:bin|boot|dev|etc|home|lib|root|sys|usr|var)/?)"
NEVER: tuple[str | tuple[str, ...], ...] = (
    (r"rm\s(?:.*\s)?-\w*[rR]", rf"rm\s.*\s{_PRECIOUS}(?:\s|$)"),
    r"mkfs\b",
    r"wipefs\b",
    r"(?:fdisk|parted|sfdisk)\b",
    r"dd\b.*\bof=/dev/",
    r"> /dev/(?:sd|nvme|vd|hd|mmcblk)",
    r"(?:shutdown|reboot|halt|poweroff)\b",
    r".*:\(\)\s*\{.*:\s*\|\s*:",
)
"""Commands that are never run, as patterns for simple commands; several in brackets must all fit."""
ASKS = (
    r"(?:rm|rmdir|shred|truncate|unlink)\b",
    r"(?:sudo|doas|su|pkexec)\b",
    r"(?:kill|pkill|killall)\b",
    r"(?:chmod|chown|chgrp|chattr|mount|umount)\b",
    r"git (?:push|reset|clean|checkout|rebase|filter-branch)\b",
    r"(?:sh|bash|zsh|dash|python\S*|perl|ruby|node|eval|source|\.)(?:\s|$)",
    r"(?:dd|crontab|at|systemctl|launchctl|iptables|nft)\b",
    r"(?:apt|apt-get|dnf|yum|pacman|brew|pip\S*|npm|cargo) (?:install|remove|uninstall|upgrade|purge)\b",
    r"(?:apt|apt-get|dnf|yum|pacman|brew|pip\S*|npm|cargo) \S*\x00",
    r"find\b.*\s-(?:delete|exec)",
    r">{1,2} ",
)
"""Commands that a person is asked about."""


def commands(take_apart: TakeApart) -> Gate:
    """Dangerous commands are blocked or asked about, and so is what is not understood."""
    never = [[compiled(each) for each in ((one,) if isinstance(one, str) else one)] for one in NEVER]
    asks = [compiled(each) for each in ASKS]

    def judge(action: Action) -> GateVerdict:
        if not _is_command(action):
            return PASS
        taken = take_apart(action.text)
        for command in (*taken.commands, action.text):
            if any(all(each.match(command) for each in together) for together in never):
                return block(f"`{_command_text(command)}` is never run")
        for command in taken.commands:
            if any(each.match(command) for each in asks):
                return ask(f"`{_command_text(command)}` may do harm")
        return PASS if taken.is_understood else ask("not all of the command is understood")

    return Gate("dangerous-commands", 700, judge)


# Linear, because a text may be long: what begins an address can begin at any of its letters.
_URL_HOST = compiled(r"[a-z][a-z0-9+.-]*://(?:[^/\s@'\"]*@)?(\[[^\]]*\]|[^/\s:'\"?#]+)", ignore_case=True)
_REMOTE = compiled(r"(?:^|\s)[\w.-]+@([\w.-]+)(?:[:\s]|$)")
_NETWORK = re.compile(r"(?:curl|wget|ssh|scp|sftp|rsync|nc|ncat|telnet|ftp|socat|ping|nmap)(?:\s|$)")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def network(take_apart: TakeApart, hosts: Sequence[str] = ()) -> Gate:
    """Commands that reach other hosts are asked about, unless the host is listed (`*.example.org`)."""
    allowed = [*LOOPBACK, *(host.lower() for host in hosts)]

    def judge(action: Action) -> GateVerdict:
        if not _is_command(action):
            return PASS
        addresses = (match.groups()[0] or "" for match in _URL_HOST.finditer(action.text))
        remotes = (match.groups()[0] or "" for match in _REMOTE.finditer(action.text))
        is_host = (each for each in remotes if "." in each.strip(".") or each.lower() == "localhost")
        found = [host.lower() for host in dict.fromkeys((*addresses, *is_host))]
        for host in found:
            if not any(fnmatchcase(host, each) for each in allowed):
                return ask(f"it reaches {host[:100]}")
        if not found and any(_NETWORK.match(each) for each in take_apart(action.text).commands):
            return ask("it uses the network")
        return PASS

    return Gate("network", 600, judge)
