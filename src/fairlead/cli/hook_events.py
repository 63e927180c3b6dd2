"""What agents' hooks say, in one form for all agents, and permissions in the form in which each wants them.

What a hook says is written by a model, or by anybody who calls `fairlead hook`: every text is bounded and
nothing of it is run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

_TURNS = {
    "UserPromptSubmit": "start",
    "Stop": "stop",
    "PermissionRequest": "permission",
    "PreToolUse": "tool",
    "PostToolUse": "tool-ended",
    "SubagentStop": "subagent-ended",
    "SessionStart": "session-started",
    "SessionEnd": "session-ended",
    "StopFailure": "error",
    "Notification": "notification",
    "agent-turn-complete": "stop",
}
EVENTS: Mapping[str, Mapping[str, str]] = {
    "claude": {**_TURNS, "PostToolUseFailure": "tool-ended"},
    "codex": {**_TURNS, "Interrupt": "interrupted"},
    "other": _TURNS,
    "gemini": {
        "BeforeAgent": "start",
        "AfterAgent": "stop",
        "BeforeTool": "tool",
        "AfterTool": "tool-ended",
        "Notification": "permission",
        "SessionStart": "session-started",
        "SessionEnd": "session-ended",
    },
    "opencode": {
        "chat.message": "start",
        "session.idle": "stop",
        "session.error": "error",
        "permission.asked": "permission",
        "permission.replied": "replied",
        "tool.execute.before": "tool",
        "tool.execute.after": "tool-ended",
    },
}
"""What each agent calls the events that matter here."""
BY_KEYS = ("codex", "gemini")
"""Agents that show no dialog while their hook waits, or whose hook can't answer it."""
ONLY_IN_TERMINAL = {
    "AskUserQuestion": "its answers can only be chosen in the terminal",
    "ExitPlanMode": "how to go on can only be chosen in the terminal",
}
"""Tools whose dialog has other answers than yes and no."""
MAX_WHOLE = 120_000
"""How many characters of what an agent wants to do are sent; with more it can only be denied."""
MAX_WORDS = 500
"""How many characters of what a hook says are evidence of an agent's state."""
MAX_RULES = 900
"""How many characters the rules may have that an answer adds, to be shown in its name."""


class HookCall(NamedTuple):
    """What a hook says."""

    name: str
    event: str
    """In our words; empty if it does not matter."""
    words: str
    """What it says in short: the prompt, the error, or the name of the event with its tool."""
    path: str = ""
    conversation: str = ""
    subagent: str = ""
    call: str = ""
    """The same for all hooks of one tool call."""


def hook_call(agent: str, said: Mapping[str, Any]) -> HookCall:
    """What a hook says."""
    name = str(said.get("hook_event_name") or said.get("type") or "")
    event = EVENTS[agent].get(name, "")
    if agent == "gemini" and event == "permission" and said.get("notification_type") != "ToolPermission":
        event = "notification"
    tool, given = _tool(agent, said)
    call = _text(said, "requestID") if event == "replied" else _digest(tool, given) if tool else ""
    if agent == "opencode" and event == "permission":
        call = _text(said, "id")
    match event:
        case "start" | "stop":
            words = _prompt(said)
        case "error":
            words = _text(said, "error") or _text(said, "message")
        case "notification":
            words = _text(said, "message") or name
        case _:
            words = f"{name} {tool}".strip()
    subagent = " ".join(filter(None, (_text(said, "agent_type"), _text(said, "agent_id"))))
    return HookCall(
        name,
        event,
        words if event in ("start", "stop") else words[:MAX_WORDS],
        _text(said, "transcript_path"),
        _text(said, "session_id") or _text(said, "thread-id") or _text(said, "sessionID"),
        subagent,
        call,
    )


def permission(agent: str, said: Mapping[str, Any], call: HookCall) -> dict[str, Any]:
    """What a person is asked, as the daemon takes it."""
    tool, given = _tool(agent, said)
    title = str(given.pop("title", "") or tool) or "permission"  # Gemini says what it does
    whole = _whole(given)
    command = given.get("command")
    who = f"{agent}'s sub-agent {call.subagent}" if call.subagent else agent
    reason = f"{who} asks for permission"
    if why := ONLY_IN_TERMINAL.get(tool, ""):
        reason += f"; {why}"
    if is_cut := len(whole) > MAX_WHOLE:
        whole = whole[:MAX_WHOLE]
        reason += "; it is too long to be shown whole, so it can only be denied here"
    what = (
        f"$ {command}"
        if isinstance(command, str)
        else f"{title} {_shortened(_object(given), _text(said, 'cwd'))}"
    )
    always, _ = _lasting(agent, said)
    return {
        "agent": agent,
        "title": title,
        "what": what.strip()[:2000],
        "whole": whole,
        "reason": reason,
        "always_label": f"Always allow: {always}" if always else "",
        "may_allow": not is_cut and not why,
        "call_id": call.call,
        "subagent": call.subagent,
        "by_keys": agent in BY_KEYS,
        "shows": command if isinstance(command, str) else _object(given).rpartition("/")[2],
    }


def decision(agent: str, said: Mapping[str, Any], option: str, by: str) -> dict[str, Any]:
    """The answer to a permission, in the agent's own form."""
    no = f"denied by a person ({by})"
    if agent == "opencode":
        reply = {"allow": "once", "always": "always"}.get(option, "reject")
        return {"reply": reply, **({"message": no} if reply == "reject" else {})}
    decided: dict[str, Any] = {"behavior": "deny", "message": no}
    if option in ("allow", "always"):
        decided = {"behavior": "allow"}
        if option == "always":
            decided["updatedPermissions"] = _lasting(agent, said)[1]
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decided}}


def _tool(agent: str, said: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool that a hook is about, and what it is given."""
    match agent, said:
        case "opencode", {"permission": str(tool)}:
            metadata = said.get("metadata")
            given = dict(metadata) if isinstance(metadata, dict) else {}
            if not isinstance(given.get("command"), str) and "patterns" in said:
                given["patterns"] = said["patterns"]
            return tool, given
        case "opencode", {"tool": str(tool)}:
            return tool, {"callID": said.get("callID")}
        case "gemini", {"details": dict(details)}:
            hidden = ("type", "rootCommand", "rootCommands", "originalContent", "newContent", "systemMessage")
            given = {name: value for name, value in details.items() if name not in hidden}
            if "fileDiff" in given:
                given.pop("fileName", None)
            return str(details.get("type", "")), given
        case _, {"tool_name": str(tool)}:
            found = said.get("tool_input")
            return tool, dict(found) if isinstance(found, dict) else {"input": found}
    return "", {}


def _whole(given: Mapping[str, Any]) -> str:
    """All that a tool is given: a command first, texts of several lines as they are."""
    rows = []
    names = sorted(given, key=lambda name: name != "command")
    for name in names:
        value = given[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        if name == "command" and isinstance(value, str):
            rows.append(text)
        else:
            rows.append(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
    return "\n".join(rows)


def _object(given: Mapping[str, Any]) -> str:
    """What a tool is used on, in short."""
    for name in ("file_path", "filePath", "filepath", "path", "url", "query", "pattern"):
        if isinstance(value := given.get(name), str):
            return value
    return next((value for value in given.values() if isinstance(value, str)), "")


def _shortened(path: str, directory: str) -> str:
    """A path as it is from the agent's directory, if it lies there: lists have room for little of it."""
    inside = path.removeprefix(f"{directory.rstrip('/')}/") if directory.startswith("/") else path
    return inside or path


def _lasting(agent: str, said: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """What an answer that lasts would allow, in words and in the agent's own; none if it can't be named."""
    if agent == "opencode":
        always = said.get("always")
        rules = [str(each) for each in always] if isinstance(always, list) else []
        text = ", ".join(f"{said.get('permission')} {rule}" for rule in rules)
        return (text, rules) if len(text) <= MAX_RULES else ("", [])
    suggested = said.get("permission_suggestions")
    if agent not in ("claude", "other") or not isinstance(suggested, list) or not suggested:
        return "", []
    words = [_suggestion(each) for each in suggested]
    text = ", ".join(words)
    return (text, suggested) if all(words) and len(text) <= MAX_RULES else ("", [])


def _suggestion(each: Any) -> str:
    """A change of an agent's permissions in words; empty if it is none that is known."""
    match each:
        case {"type": "addRules", "behavior": "allow", "rules": list(rules), "destination": str(where)}:
            named = [
                f"{rule['toolName']}({rule.get('ruleContent') or '*'})"
                for rule in rules
                if isinstance(rule, dict) and isinstance(rule.get("toolName"), str)
            ]
            return f"{' '.join(named)} ({where})" if len(named) == len(rules) and named else ""
        case {"type": "addDirectories", "directories": list(directories), "destination": str(where)}:
            return f"access to {' '.join(map(str, directories))} ({where})"
        case {"type": "setMode", "mode": str(mode), "destination": str(where)}:
            return f"mode {mode} ({where})"
    return ""


def _digest(tool: str, given: Mapping[str, Any]) -> str:
    """The same for two hooks of the same call, though one of them may say why as well."""
    told = {name: value for name, value in given.items() if name != "description"}
    text = json.dumps([tool, told], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""


def _prompt(said: Mapping[str, Any]) -> str:
    asked = said.get("input-messages")
    if isinstance(asked, list) and asked:
        return str(asked[-1])
    return _text(said, "prompt")
