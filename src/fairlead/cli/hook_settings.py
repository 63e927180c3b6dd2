"""Adding `fairlead hook` to the settings of agents, and taking it out again. Other hooks stay as they are.

The file as it was before is kept beside it; if nobody has changed the settings since, uninstalling restores
those very bytes. Else only what is ours is taken out, and the rest keeps its order.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

from ..system.files import replace_file
from .arguments import Failure, UsageError
from .hook import PERMISSION_TIMEOUT, START_TIMEOUT, STOP_TIMEOUT

_LONG = {"PermissionRequest": PERMISSION_TIMEOUT, "Stop": STOP_TIMEOUT, "AfterAgent": STOP_TIMEOUT}
"""Seconds that an agent gives the hook of an event; all others have START_TIMEOUT."""
_CLAUDE_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Notification"),
    *("SubagentStop", "Stop", "SessionEnd"),
)
_NEWER_CLAUDE = {"StopFailure": (2, 1, 197)}
"""Events that only newer versions have: one that does not know an event ignores the whole file."""
_CODEX_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "SubagentStop"),
    *("Stop", "Interrupt", "SessionEnd"),
)
_CODEX_TIMEOUTS = {"Stop": STOP_TIMEOUT, "Interrupt": 3, "SessionEnd": 3}
"""Codex gives the last two a second if nothing is said, and warns of more than three."""
_GEMINI_EVENTS = (
    *("SessionStart", "BeforeAgent", "BeforeTool", "Notification", "AfterTool", "AfterAgent", "SessionEnd"),
)
VERSION_WAIT = 10.0
"""Seconds that an agent has to say which version it is."""
PLUGIN_MARK = "// added by `fairlead hook --install"
CODEX_TRUST = (
    "Codex asks at its next start whether to trust the hooks; until you choose to, it does not call them"
)
_OURS = re.compile(r"fairlead['\"]? hook (?:claude|codex|gemini)\s*$")
_CODEX_BLOCK = re.compile(
    r"\n*(?:^# added by `fairlead hook --install`\n)?"
    r"^\[\[hooks\.(?P<event>\w+)\]\]\n\[\[hooks\.(?P=event)\.hooks\]\]\n"
    r'type = "command"\ncommand = "[^\n]*fairlead[^\n]* hook codex"(?:\ntimeout = \d+)?\n?',
    re.MULTILINE,
)


class _Agent(NamedTuple):
    """Where an agent has its settings, and how ours are added and taken out."""

    path: str
    snippet: Callable[[], str]
    added: Callable[[str], str]
    removed: Callable[[str], str]


def _agent(name: str, option: str) -> _Agent:
    home = os.path.expanduser
    match name:
        case "claude":
            place = os.environ.get("CLAUDE_CONFIG_DIR") or home("~/.claude")
            found = _json_agent(f"{place}/settings.json", _hooks("claude", _claude_events()))
        case "gemini":
            place = os.environ.get("GEMINI_CLI_HOME") or home("~")
            found = _json_agent(
                f"{place}/.gemini/settings.json", _hooks("gemini", _GEMINI_EVENTS, in_milliseconds=True)
            )
        case "codex":
            place = os.environ.get("CODEX_HOME") or home("~/.codex")
            found = _Agent(f"{place}/config.toml", _codex_snippet, _with_codex, _without_codex)
        case "opencode":
            place = os.environ.get("XDG_CONFIG_HOME") or home("~/.config")
            found = _Agent(f"{place}/opencode/plugin/fairlead.js", _plugin, _with_plugin, _without_plugin)
        case _:
            raise UsageError(f"{option} takes claude, codex, gemini or opencode, not {name!r}")
    # the file may be a link into a repository of settings
    return found._replace(path=os.path.realpath(found.path))


def install(name: str, *, only_print: bool) -> int:
    """Add the hooks, or print them. Returns the exit code."""
    agent = _agent(name, "--install")
    path = agent.path
    if only_print:
        print(f"# {path}\n{agent.snippet()}" if name == "codex" else agent.snippet(), end="")
        return 0
    kept = ""
    try:
        before = _read(path)
        after = agent.added(before or "")
        if after == before:
            print(f"{path} already has the hooks")
            return 0
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if before and agent.removed(before) == before:  # else it was kept when they were added first
            _write(_backup(path), before)
            kept = f"; the original is {_backup(path)}"
        _write(path, after)
    except (OSError, ValueError) as error:
        raise Failure(f"can't change {path}: {error}") from None
    print(f"added the hooks to {path}{kept}")
    if name == "codex":
        print(CODEX_TRUST)
    return 0


def uninstall(name: str) -> int:
    """Take the hooks out. Returns the exit code."""
    agent = _agent(name, "--uninstall")
    path = agent.path
    try:
        before = _read(path)
        if before is None or (after := agent.removed(before)) == before:
            print(f"{path} does not have the hooks")
            return 0
        kept = _read(_backup(path))
        if kept is not None and agent.added(kept) == before:
            after = kept
        if kept is None and (not after.strip() or agent.added("") == before):
            os.unlink(path)  # there was none
        else:
            _write(path, after)
        if kept is not None:
            os.unlink(_backup(path))
    except (OSError, ValueError) as error:
        raise Failure(f"can't change {path}: {error}") from None
    print(f"removed the hooks from {path}")
    return 0


def _backup(path: str) -> str:
    return f"{path}.before-fairlead"


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write(path: str, text: str) -> None:
    """Write a file as a whole, or not at all."""
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
    replace_file(path, text.encode(), mode)


def _words(agent: str) -> list[str]:
    """The command of a hook, by its absolute path: an agent's PATH may be another one."""
    program = sys.argv[0]
    if os.path.basename(program) == "fairlead":
        found = os.path.abspath(program) if "/" in program else shutil.which(program)
        if found and os.access(found, os.X_OK):
            return [found, "hook", agent]
    return [os.path.abspath(sys.executable), "-m", "fairlead", "hook", agent]


def _command(agent: str) -> str:
    return shlex.join(_words(agent))


# --- Claude Code and Gemini -------------------------------------------------------------------------------

Hooks = Mapping[str, Mapping[str, Any]]
"""Our hook of each event."""


def _json_agent(path: str, hooks: Hooks) -> _Agent:
    groups = {event: [{"hooks": [hook]}] for event, hook in hooks.items()}
    return _Agent(
        path,
        lambda: json.dumps({"hooks": groups}, indent=2) + "\n",
        partial(_with_hooks, hooks=hooks),
        _without_hooks,
    )


def _hooks(agent: str, events: Iterable[str], *, in_milliseconds: bool = False) -> Hooks:
    unit = 1000 if in_milliseconds else 1
    hook = {"type": "command", "command": _command(agent)}
    if agent == "gemini":  # which shows this while the hook runs
        hook["name"] = "fairlead"
    return {event: {**hook, "timeout": _LONG.get(event, START_TIMEOUT) * unit} for event in events}


def _claude_events() -> list[str]:
    """The events that the Claude Code which is installed here knows."""
    version = _claude_version()
    return [*_CLAUDE_EVENTS, *(event for event, first in _NEWER_CLAUDE.items() if version >= first)]


def _claude_version() -> tuple[int, ...]:
    """The version of Claude Code that is installed; nothing if that can't be found out."""
    places = (
        "claude",
        os.path.expanduser("~/.local/bin/claude"),
        os.path.expanduser("~/.claude/local/claude"),
    )
    program = next((found for place in places if (found := shutil.which(place))), None)
    if program is None:
        return ()
    try:
        words = [program, "--version"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=VERSION_WAIT, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ()
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(map(int, numbers.groups())) if numbers else ()


def _settings(text: str) -> dict[str, Any]:
    """An agent's settings. Raises ValueError for what is none."""
    found = json.loads(text) if text.strip() else {}
    if not isinstance(found, dict) or not isinstance(found.get("hooks", {}), dict):
        raise ValueError("expected a JSON object in which `hooks`, if present, is an object")
    return found


def _events(hooks: Mapping[str, Any], also: Iterable[str] = ()) -> list[str]:
    """The events that have hooks, and others. Raises ValueError where hooks should be and are not."""
    events = [event for event, groups in hooks.items() if isinstance(groups, list)]
    for event in also:
        if not isinstance(hooks.get(event, []), list):
            raise ValueError(f"`hooks.{event}` must be a list")
    return [*events, *(event for event in also if event not in events)]


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, dict) and _OURS.search(str(hook.get("command", ""))) is not None


def _groups(hooks: dict[str, Any], event: str) -> list[list[Any]]:
    """The lists of hooks of an event."""
    found = [group.get("hooks") for group in hooks.get(event, []) if isinstance(group, dict)]
    return [each for each in found if isinstance(each, list)]


def _with_hooks(text: str, hooks: Hooks) -> str:
    found = _settings(text)
    there = found.setdefault("hooks", {})
    for event in _events(there, also=hooks):
        if event not in hooks:  # of another version of ours
            _take_out(there, event)
            continue
        is_there = False
        for group in _groups(there, event):
            for at, hook in enumerate(group):
                if _is_ours(hook):
                    group[at], is_there = dict(hooks[event]), True
        if not is_there:
            there[event] = [*there.get(event, []), {"hooks": [dict(hooks[event])]}]
    return text if text.strip() and found == json.loads(text) else _dumped(found, text)


def _without_hooks(text: str) -> str:
    found = _settings(text)
    hooks = found.get("hooks", {})
    for event in _events(hooks):
        _take_out(hooks, event)
    if not text.strip() or found == json.loads(text):
        return text
    if not hooks:
        del found["hooks"]
    return _dumped(found, text)


def _take_out(hooks: dict[str, Any], event: str) -> None:
    """Take our hooks of an event out."""
    for group in _groups(hooks, event):
        if any(map(_is_ours, group)):
            group[:] = [hook for hook in group if not _is_ours(hook)]
            if not group:
                hooks[event] = [
                    each
                    for each in hooks[event]
                    if not isinstance(each, dict) or each.get("hooks") is not group
                ]
            if not hooks[event]:
                del hooks[event]
                return


def _dumped(found: dict[str, Any], like: str) -> str:
    """Settings as JSON, indented as a text is."""
    indent = re.search(r"^([ \t]+)\S", like, re.MULTILINE)
    return json.dumps(found, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


# --- Codex ------------------------------------------------------------------------------------------------


def _codex_snippet() -> str:
    command = json.dumps(_command("codex"), ensure_ascii=False)
    return "\n".join(
        "# added by `fairlead hook --install`\n"
        f'[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = "command"\ncommand = {command}\n'
        f"timeout = {_CODEX_TIMEOUTS.get(event, START_TIMEOUT)}\n"
        for event in _CODEX_EVENTS
    )


def _with_codex(text: str) -> str:
    import tomllib

    if _codex_snippet() in text:
        return text
    rest = _without_codex(text)
    gap = "" if not rest else "\n" if rest.endswith("\n") else "\n\n"
    after = f"{rest}{gap}{_codex_snippet()}"
    tomllib.loads(after)  # never write what can't be read again
    return after


def _without_codex(text: str) -> str:
    after = _CODEX_BLOCK.sub("", text)
    return after if after == text or not after or after.endswith("\n") else f"{after}\n"


# --- OpenCode -----------------------------------------------------------------------------------------------


def _plugin() -> str:
    source = files("fairlead.cli").joinpath("hook_plugin.js").read_text("utf-8")
    return source.replace("COMMAND", json.dumps(_words("opencode"), ensure_ascii=False), 1)


def _with_plugin(text: str) -> str:
    if text.strip() and not text.startswith(PLUGIN_MARK):
        raise ValueError("it is there, but not ours")
    return _plugin()


def _without_plugin(text: str) -> str:
    return "" if text.startswith(PLUGIN_MARK) else text
