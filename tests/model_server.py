"""A model on loopback for third-party agents: it speaks Anthropic's, OpenAI's and Google's protocols, and
says what a script has for a word of the prompt.

    script = {"greet": [Says("Hello")], "write": [Says("Now.", Shell("echo hi > hello.txt")), Says("Done.")]}
    with ModelServer(script) as server:
        ...  # let an agent ask server.root (Anthropic, Google) or server.url (OpenAI): "please write it"

Each word has a step for every request of its turn. Which step is next follows from the conversation alone, so
agents may ask twice, ask for titles, or be killed and resume. What they asked is in `server.asked`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.agent import openai_server
from tests.agent.openai_server import Frame, Halt, OpenAiServer, Reply, event, failure

__all__ = ["CallTool", "Halt", "ModelRequest", "ModelServer", "Says", "Shell", "WriteFile", "failure"]

MODELS = ("test-model", "other-model")
_USAGE = (100, 20)
_numbers = itertools.count(1)


class Shell(NamedTuple):
    """A call of the agent's tool that runs commands, whatever its name is."""

    command: str


class WriteFile(NamedTuple):
    """A call of the agent's tool that writes a file."""

    path: str
    content: str


class CallTool(NamedTuple):
    """A call of the tool whose name ends so, such as one of an MCP server."""

    name: str
    arguments: Mapping[str, Any] = {}


Call = Shell | WriteFile | CallTool
_SHELLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Bash": ("command", {"description": "run a command"}),
    "bash": ("command", {"description": "run a command"}),
    "run_shell_command": ("command", {"description": "run a command"}),
    "exec_command": (
        "cmd",
        {"sandbox_permissions": "require_escalated", "justification": "its sandbox would not let it"},
    ),
}
"""The tools that run commands, the name of their argument, and what else they are given."""
_WRITERS: Mapping[str, tuple[str, str]] = {
    "Write": ("file_path", "content"),
    "write": ("filePath", "content"),
    "write_file": ("file_path", "content"),
}


class Says(NamedTuple):
    """What a model answers to one request: thoughts, text, a call. With a `halt` it stops after the text."""

    text: str = ""
    call: Call | None = None
    thinking: str = ""
    halt: Halt | None = None
    error: Reply | None = None
    """Instead of an answer."""


class Utterance(NamedTuple):
    """A message of a conversation, whatever the protocol."""

    role: str
    text: str
    images: int = 0


class ModelRequest(NamedTuple):
    """What an agent asked its model."""

    protocol: str
    model: str
    messages: Sequence[Utterance]
    tools: Sequence[str]
    word: str
    """The word of the script that was found, if any."""
    step: int


class ModelServer(OpenAiServer):
    """The server. Requests without a word of the script, such as for a title, are answered with `other`."""

    def __init__(self, script: Mapping[str, Sequence[Says]], other: Says | None = None) -> None:
        super().__init__((), None)
        self.script = dict(script)
        self.other = other or Says("Title")
        self.asked: list[ModelRequest] = []
        self.answers_all = False
        """Whether requests without tools are prompts, too, as those of an agent that has none."""

    def reply_to(self, path: str, request: dict[str, Any]) -> Reply:
        path = path.partition("?")[0]
        if path.endswith("/models"):
            rows = [{"id": id, "object": "model", "type": "model", "display_name": id} for id in MODELS]
            return _plain({"object": "list", "data": rows, "models": [], "has_more": False})
        if path.endswith("count_tokens") or path.endswith("countTokens"):
            return _plain({"input_tokens": 100, "totalTokens": 100})
        for end, speak in _PROTOCOLS.items():
            if path.endswith(end):
                return self._answer(end, path, request, speak)
        return failure(404, f"there is no {path}")

    def _answer(self, end: str, path: str, request: dict[str, Any], speak: Any) -> Reply:
        self.requests.append(request)
        messages = list(_messages(request))
        word, number = self._place(messages)
        model = request.get("model") or path.rpartition("/")[2].partition(":")[0]
        tools = list(_tools(request))
        self.asked.append(ModelRequest(end, model, messages, tools, word, number))
        steps = self.script.get(word, [self.other])
        step = steps[min(number, len(steps) - 1)] if tools or not word or self.answers_all else self.other
        if step.error is not None:
            return step.error
        call = None if step.call is None else _named(step.call, tools)
        if isinstance(call, str):
            return failure(400, call)
        reply: Reply = speak(step, call, request)
        return reply

    def _place(self, messages: Sequence[Utterance]) -> tuple[str, int]:
        """The word that was said last, and how many answers came since."""
        answers = 0
        for message in reversed(messages):
            if message.role == "user":
                found = [(message.text.rfind(word), word) for word in self.script if word in message.text]
                if found:
                    return max(found)[1], answers
            elif message.role in ("assistant", "model"):
                answers += 1
        return "", 0


def _named(call: Call, tools: Sequence[str]) -> tuple[str, dict[str, Any]] | str:
    """A call by the name that the agent's tool has; or what is wrong."""
    match call:
        case Shell(command):
            for name, (key, more) in _SHELLS.items():
                if name in tools:
                    return name, {key: command, **more}
        case WriteFile(path, content):
            for name, (where, what) in _WRITERS.items():
                if name in tools:
                    return name, {where: path, what: content}
        case CallTool(name, arguments):
            for found in tools:
                if found.endswith(name):
                    return found, dict(arguments)
    return f"no tool for {call} among {', '.join(tools)}"


# --- what agents ask ----------------------------------------------------------------------------------------


def _messages(request: Mapping[str, Any]) -> Iterator[Utterance]:
    """The messages of a request in any of the protocols. What OpenAI's responses have apart is joined."""
    last = ""
    for each in request.get("messages") or request.get("contents") or request.get("input") or ():
        kind = each.get("type", "message")
        role = each.get("role") or ("assistant" if kind in ("function_call", "reasoning") else "tool")
        if role == last == "assistant" and kind != "message":
            continue
        last = role
        parts = each.get("content") or each.get("parts") or ()
        parts = [{"text": parts}] if isinstance(parts, str) else parts
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        images = [part for part in parts if _is_image(part)]
        if any(part.get("type") == "tool_result" or "functionResponse" in part for part in parts):
            yield Utterance("tool", "")
        if role != "user" or texts or images:
            yield Utterance(role, "\n".join(texts), len(images))


def _is_image(part: Mapping[str, Any]) -> bool:
    return part.get("type") in ("image", "image_url", "input_image") or "inlineData" in part


def _tools(request: Mapping[str, Any]) -> Iterator[str]:
    for each in request.get("tools") or ():
        for tool in each.get("functionDeclarations") or [each]:
            yield tool.get("name") or tool.get("function", {}).get("name", "")
        for tool in each.get("tools") or ():  # of a namespace
            yield f"{each['name']}/{tool['name']}"


# --- what they are answered ---------------------------------------------------------------------------------


def _plain(value: Any) -> Reply:
    return Reply(body=json.dumps(value).encode())


def _halt(step: Says) -> list[Frame]:
    return [] if step.halt is None else [step.halt]


def _completions(step: Says, call: tuple[str, dict[str, Any]] | None, request: Mapping[str, Any]) -> Reply:
    """OpenAI's chat completions."""
    calls = [] if call is None else [(call[0], json.dumps(call[1]))]
    return openai_server.answer(step.text, calls=calls, thinking=step.thinking, insert=_halt(step))


def _messages_api(step: Says, call: tuple[str, dict[str, Any]] | None, request: Mapping[str, Any]) -> Reply:
    """Anthropic's messages."""
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if step.thinking:
        said = [{"type": "thinking_delta", "thinking": step.thinking}]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, said))
    if step.text:
        told = [{"type": "text_delta", "text": piece} for piece in openai_server.cut(step.text, 5)]
        blocks.append(({"type": "text", "text": ""}, told))
    if call is not None:
        name, arguments = call
        use = {"type": "tool_use", "id": f"toolu_{next(_numbers)}", "name": name, "input": {}}
        blocks.append((use, [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]))
    message: dict[str, Any] = {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": _USAGE[0], "output_tokens": 1},
    }
    reason = "end_turn" if call is None else "tool_use"
    if not request.get("stream"):
        content = [block | {"text": step.text} if block["type"] == "text" else block for block, _ in blocks]
        return _plain({**message, "content": content, "stop_reason": reason})
    frames: list[Frame] = [_named_event({"type": "message_start", "message": message})]
    for index, (block, deltas) in enumerate(blocks):
        frames.append(_named_event({"type": "content_block_start", "index": index, "content_block": block}))
        for delta in deltas:
            frames.append(_named_event({"type": "content_block_delta", "index": index, "delta": delta}))
        frames += _halt(step) if block["type"] == "text" else []
        frames.append(_named_event({"type": "content_block_stop", "index": index}))
    end = {"stop_reason": reason, "stop_sequence": None}
    frames.append(
        _named_event({"type": "message_delta", "delta": end, "usage": {"output_tokens": _USAGE[1]}})
    )
    return Reply([*frames, _named_event({"type": "message_stop"})])


def _named_event(data: Mapping[str, Any]) -> bytes:
    return f"event: {data['type']}\n".encode() + event(data)


def _responses(step: Says, call: tuple[str, dict[str, Any]] | None, request: Mapping[str, Any]) -> Reply:
    """OpenAI's responses."""
    response = {"id": f"resp_{next(_numbers)}", "object": "response", "status": "in_progress", "output": []}
    frames: list[Frame] = [_named_event({"type": "response.created", "response": response})]
    items: list[dict[str, Any]] = []
    if step.text:
        part = {"type": "output_text", "text": step.text, "annotations": []}
        item = {"id": f"msg_{next(_numbers)}", "type": "message", "role": "assistant", "content": [part]}
        items.append(item)
        begun = {**item, "content": [], "status": "in_progress"}
        frames.append(_named_event({"type": "response.output_item.added", "output_index": 0, "item": begun}))
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        for piece in openai_server.cut(step.text, 5):
            frames.append(_named_event({"type": "response.output_text.delta", **place, "delta": piece}))
        frames += _halt(step)
    if call is not None:
        number = next(_numbers)
        namespace, _, name = call[0].rpartition("/")
        about = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}", "name": name}
        items.append({**about, "arguments": json.dumps(call[1])})
        if namespace:
            items[-1]["namespace"] = namespace
    for index, item in enumerate(items):
        item["status"] = "completed"
        frames.append(
            _named_event({"type": "response.output_item.done", "output_index": index, "item": item})
        )
    usage = {
        "input_tokens": _USAGE[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": _USAGE[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(_USAGE),
    }
    done = {**response, "status": "completed", "output": items, "usage": usage}
    return Reply([*frames, _named_event({"type": "response.completed", "response": done})])


def _contents(step: Says, call: tuple[str, dict[str, Any]] | None, request: Mapping[str, Any]) -> Reply:
    """Google's streamGenerateContent."""
    frames: list[Frame] = []
    if step.thinking:
        frames.append(_candidate({"text": step.thinking, "thought": True}))
    frames += [_candidate({"text": piece}) for piece in openai_server.cut(step.text, 5)]
    frames += _halt(step)
    if call is not None:
        name, arguments = call
        frames.append(_candidate({"functionCall": {"name": name, "args": arguments}}))
    return Reply([*frames, _candidate(None)])


def _content(step: Says, call: tuple[str, dict[str, Any]] | None, request: Mapping[str, Any]) -> Reply:
    """Google's generateContent, which is not streamed."""
    return _plain({"candidates": [{"content": {"role": "model", "parts": [{"text": step.text}]}}]})


def _candidate(part: dict[str, Any] | None) -> bytes:
    content = {"role": "model", "parts": [] if part is None else [part]}
    found: dict[str, Any] = {"content": content, "index": 0}
    if part is not None:
        return event({"candidates": [found]})
    counts = {
        "promptTokenCount": _USAGE[0],
        "candidatesTokenCount": _USAGE[1],
        "totalTokenCount": sum(_USAGE),
    }
    return event({"candidates": [{**found, "finishReason": "STOP"}], "usageMetadata": counts})


_PROTOCOLS = {
    "/messages": _messages_api,
    "/chat/completions": _completions,
    "/responses": _responses,
    ":streamGenerateContent": _contents,
    ":generateContent": _content,
}
"""How each protocol answers, by the end of the path."""
