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
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ..system.files import replace_file
from .arguments import Failure, UsageError
from .hook import START_TIMEOUT, STOP_TIMEOUT

TIMEOUTS = {"UserPromptSubmit": START_TIMEOUT, "Stop": STOP_TIMEOUT}
"""The events that are hooked, with the seconds that the agent gives each."""
_OURS = re.compile(r"fairlead['\"]? hook (?:claude|codex)\s*$")
_CODEX_BLOCK = re.compile(
    r"\n*(?:^# added by `fairlead hook --install`\n)?"
    r"^\[\[hooks\.(?P<event>\w+)\]\]\n\[\[hooks\.(?P=event)\.hooks\]\]\n"
    r'type = "command"\ncommand = "[^\n]*fairlead[^\n]* hook codex"\n?',
    re.MULTILINE,
)


class _Agent(NamedTuple):
    """Where an agent has its settings, and how ours are added and taken out."""

    path: str
    snippet: Callable[[], str]
    added: Callable[[str], str]
    removed: Callable[[str], str]


def _agent(name: str, option: str) -> _Agent:
    match name:
        case "claude":
            place = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
            found = _Agent(f"{place}/settings.json", _claude_snippet, _with_claude, _without_claude)
        case "codex":
            place = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
            found = _Agent(f"{place}/config.toml", _codex_snippet, _with_codex, _without_codex)
        case _:
            raise UsageError(f"{option} takes claude or codex, not {name!r}")
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
        if kept is None and agent.added("") == before:
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


def _command(agent: str) -> str:
    """The command of a hook, by its absolute path: an agent's PATH may be another one."""
    program = sys.argv[0]
    if os.path.basename(program) == "fairlead":
        found = os.path.abspath(program) if "/" in program else shutil.which(program)
        if found and os.access(found, os.X_OK):
            return f"{shlex.quote(found)} hook {agent}"
    return f"{shlex.quote(os.path.abspath(sys.executable))} -m fairlead hook {agent}"


# --- Claude Code ------------------------------------------------------------------------------------------


def _claude_hook(event: str) -> dict[str, Any]:
    return {"type": "command", "command": _command("claude"), "timeout": TIMEOUTS[event]}


def _claude_snippet() -> str:
    return (
        json.dumps({"hooks": {event: [{"hooks": [_claude_hook(event)]}] for event in TIMEOUTS}}, indent=2)
        + "\n"
    )


def _settings(text: str) -> dict[str, Any]:
    """Claude Code's settings. Raises ValueError for what is none."""
    found = json.loads(text) if text.strip() else {}
    if not isinstance(found, dict) or not isinstance(found.get("hooks", {}), dict):
        raise ValueError("expected a JSON object in which `hooks`, if present, is an object")
    for event in TIMEOUTS:
        if not isinstance(found.get("hooks", {}).get(event, []), list):
            raise ValueError(f"`hooks.{event}` must be a list")
    return found


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, dict) and _OURS.search(str(hook.get("command", ""))) is not None


def _groups(hooks: dict[str, Any], event: str) -> list[list[Any]]:
    """The lists of hooks of an event."""
    found = [group.get("hooks") for group in hooks.get(event, []) if isinstance(group, dict)]
    return [each for each in found if isinstance(each, list)]


def _with_claude(text: str) -> str:
    found = _settings(text)
    hooks = found.setdefault("hooks", {})
    for event in TIMEOUTS:
        wanted, is_there = _claude_hook(event), False
        for group in _groups(hooks, event):
            for at, hook in enumerate(group):
                if _is_ours(hook):
                    group[at], is_there = wanted, True
        if not is_there:
            hooks[event] = [*hooks.get(event, []), {"hooks": [wanted]}]
    return text if text.strip() and found == json.loads(text) else _dumped(found, text)


def _without_claude(text: str) -> str:
    found = _settings(text)
    hooks = found.get("hooks", {})
    for event in TIMEOUTS:
        for group in _groups(hooks, event):
            if any(map(_is_ours, group)):
                group[:] = [hook for hook in group if not _is_ours(hook)]
                if not group:
                    hooks[event] = [each for each in hooks[event] if each.get("hooks") is not group]
                if not hooks[event]:
                    del hooks[event]
    if not text.strip() or found == json.loads(text):
        return text
    if not hooks:
        del found["hooks"]
    return _dumped(found, text)


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
        for event in TIMEOUTS
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
