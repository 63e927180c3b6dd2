"""Models of providers, through pydantic-ai's model layer: our messages to theirs, their stream to our events.

With `faults` the one module that knows that library. It is imported when a model is first asked, in a thread,
because that takes seconds. There is no retrying here, and every answer has a connection of its own, which
ends with it: who closes the iterator closes the connection.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec

from ...system.extras import is_missing, missing
from ...system.garbage import lasting
from ..messages import (
    Assistant,
    Image,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from . import (
    Finished,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallBegan,
    ToolCallDelta,
    ToolCallMade,
)

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai import messages as theirs
    from pydantic_ai.models import Model, StreamedResponse
    from pydantic_ai.settings import ModelSettings

    from .faults import Server

Kind = Literal["openai", "anthropic", "google"]

OPENAI_HOST = "api.openai.com"
PACKED = "fairlead:"
"""How a signature begins that is more than one thought's own: JSON, [[length, id, signature], …]."""

_Row = tuple[int, str | None, str | None]
"""Of a thought: its length, its id and its signature."""


class Remote:
    """A model behind a provider's API. `key` gives the key when it is needed, or raises ModelError; `new_key`
    says how a person gives another one."""

    def __init__(self, kind: Kind, base_url: str, key: Callable[[], str | None], new_key: str = "") -> None:
        self._new_key = new_key
        self._kind = kind
        self._base_url = base_url
        self._key = key

    def __repr__(self) -> str:
        return f"Remote({self._kind}, {urlsplit(self._base_url).hostname})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if is_missing("pydantic_ai"):  # before anybody looks for a key
            raise ModelError("refused", _needs("pydantic_ai"))
        key = self._key()
        opened: _Opened | None = None
        # What else is raised in here is the library's, or the provider's in disguise.
        try:
            async with AsyncExitStack() as stack:
                opened = await asyncio.to_thread(_open, self._kind, self._base_url, key, request)
                answer = await asyncio.to_thread(_Answer, request, opened.server)
                await stack.enter_async_context(opened.client)
                streamed = await stack.enter_async_context(opened.answering)
                async for event in streamed:
                    for ours in answer.take(event):
                        yield ours
                for ours in answer.end(streamed.get(), streamed.usage):
                    yield ours
        except ModelError:
            raise
        except ImportError as error:
            raise ModelError("refused", _needs(error.name or str(error))) from None
        except Exception as error:
            from .faults import Server, fault_of

            server = opened.server if opened is not None else Server(self._base_url)
            # Not chained: what the library keeps in its errors may hold the key.
            raise fault_of(error, request.info, server, key, self._new_key) from None


class _Opened(NamedTuple):
    server: Server
    client: httpx2.AsyncClient
    answering: AbstractAsyncContextManager[StreamedResponse]
    """To be entered: then the model is asked."""


def _needs(package: str) -> str:
    return missing(f"remote models need more packages ({package} is missing)", "models")


def _open(kind: Kind, base_url: str, key: str | None, request: ModelRequest) -> _Opened:
    """All that is needed to ask. It blocks: the imports, and the certificates that a client reads."""
    if "pydantic_ai.direct" not in sys.modules:
        with lasting():
            pass
    import httpx2
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters, create_async_httpx2_client
    from pydantic_ai.tools import ToolDefinition

    from .faults import CONNECT_TIMEOUT, SILENCE_TIMEOUT, Server

    client = create_async_httpx2_client(timeout=httpx2.Timeout(SILENCE_TIMEOUT, connect=CONNECT_TIMEOUT))
    server = Server(base_url)
    client.event_hooks["response"].append(server.heard)
    model = _model(kind, base_url, key, request.info, client)
    parameters = ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                parameters_json_schema=tool.parameters,
                description=tool.description,
                strict=False,
            )
            for tool in request.tools
        ],
        instruction_parts=[InstructionPart(request.system)] if request.system else None,
    )
    answering = model_request_stream(
        model,
        _messages(request, model.system),
        model_settings=_settings(kind, base_url, request),
        model_request_parameters=parameters,
    )
    return _Opened(server, client, answering)


def _model(kind: Kind, base_url: str, key: str | None, info: ModelInfo, client: httpx2.AsyncClient) -> Model:
    if kind == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        anthropic = AnthropicProvider(api_key=key, base_url=base_url, http_client=client)
        return AnthropicModel(info.id, provider=anthropic)
    if kind == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        google = GoogleProvider(api_key=key, base_url=base_url, http_client=client)
        return GoogleModel(info.id, provider=google)
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if _is_openai(base_url):
        openai = OpenAIProvider(api_key=key, base_url=base_url, http_client=client)
        return OpenAIResponsesModel(info.id, provider=openai)
    # The catalogue knows better than the library whether a model somewhere thinks. An answer that just stops
    # was cut off.
    profile = OpenAIModelProfile(
        supports_thinking=info.reasoning, openai_chat_streaming_requires_finish_reason=True
    )
    other = OpenAICompatibleProvider(
        info.provider, base_url=base_url, api_key=key, http_client=client, profile=profile
    )
    return OpenAIChatModel(info.id, provider=other)


def _is_openai(base_url: str) -> bool:
    """Whether it is OpenAI itself: its models take tools and thinking together in its newer protocol only."""
    return urlsplit(base_url).hostname == OPENAI_HOST


def _settings(kind: Kind, base_url: str, request: ModelRequest) -> ModelSettings:
    from .faults import SILENCE_TIMEOUT

    settings: dict[str, Any] = {"max_retries": 0, "timeout": SILENCE_TIMEOUT}
    thinks = request.info.reasoning and request.thinking != "off"
    if request.info.max_output:
        settings["max_tokens"] = request.info.max_output
    if request.info.reasoning:
        # Our levels are theirs; what a provider lacks, the library rounds to the nearest.
        settings["thinking"] = request.thinking if thinks else False
    if kind == "anthropic":
        settings["cache"] = True
    if kind == "openai" and _is_openai(base_url):
        settings["openai_store"] = False
        if thinks:
            settings["openai_reasoning_summary"] = "auto"
    return cast("ModelSettings", settings)


# --- our messages to theirs -------------------------------------------------------------------------------


def _messages(request: ModelRequest, system: str) -> list[theirs.ModelMessage]:
    from pydantic_ai import messages as theirs

    out: list[theirs.ModelMessage] = []
    asked: list[theirs.ModelRequestPart] = []
    for message in request.messages:
        match message:
            case User():
                asked.append(theirs.UserPromptPart(_content(message, request.info)))
            case ToolResult():
                outcome: Any = "failed" if message.is_error else "success"
                content = _content(message, request.info)
                returned = theirs.ToolReturnPart(
                    message.tool_name, content, message.tool_call_id, outcome=outcome
                )
                asked.append(returned)
            case Assistant():
                if not (parts := list(_parts(message, request.info, system))):
                    continue
                if asked:
                    out.append(theirs.ModelRequest(asked))
                    asked = []
                out.append(theirs.ModelResponse(parts, model_name=message.model, provider_name=system))
    if asked:
        out.append(theirs.ModelRequest(asked))
    return out


def _content(message: User | ToolResult, info: ModelInfo) -> Any:
    """Text as it is; with pictures, a list. Providers refuse what is empty. A model that takes no pictures is
    told that there was one: it was sent to another model."""
    from pydantic_ai.messages import BinaryContent

    if isinstance(message.content, str):
        return message.content or "(empty)"
    parts: list[Any] = []
    for part in message.content:
        if isinstance(part, Text):
            parts += [part.text] if part.text else []
        elif info.images:
            parts.append(BinaryContent(_picture(part), media_type=part.mime_type))
        else:
            parts.append("[a picture, which this model can't see]")
    if all(isinstance(part, str) for part in parts):
        return "\n".join(str(part) for part in parts) or "(empty)"
    return parts


def _picture(image: Image) -> bytes:
    try:
        return base64.b64decode(image.data, validate=True)
    except ValueError:
        raise ModelError("refused", f"a picture ({image.mime_type}) is not base64") from None


def _parts(message: Assistant, info: ModelInfo, system: str) -> Iterator[theirs.ModelResponsePart]:
    """What a model said. Thoughts go back to the provider that had them, and only as it wants them."""
    from pydantic_ai import messages as theirs

    if all(isinstance(part, Thinking) for part in message.content):
        return  # thoughts that led to nothing are refused
    rows: list[_Row] = []
    for part in message.content:
        match part:
            case Text():
                if part.text:
                    yield theirs.TextPart(part.text)
            case ToolCall():
                yield theirs.ToolCallPart(part.name, part.arguments, part.id)
            case Thinking():
                if message.provider != info.provider or not part.signature:
                    continue
                rows = rows or _unpacked(part)
                start = 0
                while rows and start + rows[0][0] <= len(part.thinking):
                    length, id, signature = rows.pop(0)
                    text = part.thinking[start : start + length]
                    start += length
                    yield theirs.ThinkingPart(text, id=id, signature=signature, provider_name=system)


def _packed(parts: list[theirs.ThinkingPart]) -> str | None:
    """One signature for all thoughts of an answer; None if the provider wants none of them back."""
    if not any(part.signature or part.id for part in parts):
        return None
    if len(parts) == 1 and not parts[0].id:
        signature: str | None = parts[0].signature
        return signature
    rows = [(len(part.content), part.id, part.signature) for part in parts]
    return PACKED + msgspec.json.encode(rows).decode()


def _unpacked(part: Thinking) -> list[_Row]:
    """The rows for this part and those that follow it: text may stand between the thoughts of an answer."""
    signature = part.signature or ""
    if not signature.startswith(PACKED):
        return [(len(part.thinking), None, signature)]
    try:
        return msgspec.json.decode(signature.removeprefix(PACKED), type=list[_Row])
    except msgspec.DecodeError:
        return []


# --- their stream to our events ---------------------------------------------------------------------------


class _Answer:
    """An answer as it comes."""

    def __init__(self, request: ModelRequest, server: Server) -> None:
        self._info = request.info
        self._server = server
        self._is_asked = bool(request.messages) and isinstance(request.messages[-1], User)
        self._taken = {
            call.id
            for message in request.messages
            if isinstance(message, Assistant)
            for call in message.calls
        }
        self._ids: dict[int, str] = {}

    def take(self, event: Any) -> Iterator[ModelEvent]:
        from pydantic_ai import messages as theirs

        match event:
            case theirs.PartStartEvent(part=theirs.TextPart(content=text)):
                if text:
                    yield TextDelta(text)
            case theirs.PartStartEvent(part=theirs.ThinkingPart(content=text)):
                if text:
                    yield ThinkingDelta(text)
            case theirs.PartStartEvent(index=index, part=theirs.ToolCallPart() as call):
                yield ToolCallBegan(self._id(index, call.tool_call_id), call.tool_name)
                if call.args:
                    yield ToolCallDelta(self._ids[index], _json_text(call.args))
            case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)):
                if text:
                    yield TextDelta(text)
            case theirs.PartDeltaEvent(delta=theirs.ThinkingPartDelta(content_delta=text)):
                if text:
                    yield ThinkingDelta(text)
            case theirs.PartDeltaEvent(index=index, delta=theirs.ToolCallPartDelta(args_delta=args)):
                if args and index in self._ids:
                    yield ToolCallDelta(self._ids[index], _json_text(args))

    def end(self, response: theirs.ModelResponse, used: Any) -> Iterator[ModelEvent]:
        """The calls, now that they are whole, and the end."""
        from pydantic_ai import messages as theirs

        from .faults import cut_off, empty

        # A stream that ends without the provider's reason was cut, however tidily a proxy closed it.
        if response.state == "incomplete" or response.finish_reason is None:
            is_empty = self._server.is_done and not response.parts
            raise (empty if is_empty else cut_off)(self._server, self._info)
        made = [
            _made(self._ids.get(index) or self._id(index, part.tool_call_id), part)
            for index, part in enumerate(response.parts)
            if isinstance(part, theirs.ToolCallPart)
        ]
        said = any(isinstance(part, theirs.TextPart) and part.content.strip() for part in response.parts)
        if not said and not made and response.finish_reason == "stop" and self._is_asked:
            raise empty(self._server, self._info)  # after a tool's result, nothing to add is an answer
        yield from made
        thoughts = [part for part in response.parts if isinstance(part, theirs.ThinkingPart)]
        yield Finished(_stop_reason(response.finish_reason, bool(made)), _usage(used), _packed(thoughts))

    def _id(self, index: int, id: str) -> str:
        """An id that no other call of the conversation has: some servers count from 0 in every answer."""
        found = id
        number = 1
        while found in self._taken:
            number += 1
            found = f"{id}-{number}"
        self._taken.add(found)
        self._ids[index] = found
        return found


def _json_text(arguments: str | dict[str, Any]) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _made(id: str, part: theirs.ToolCallPart) -> ToolCallMade:
    if not part.args:
        return ToolCallMade(id, part.tool_name, {})
    if isinstance(part.args, dict):
        return ToolCallMade(id, part.tool_name, part.args)
    try:
        return ToolCallMade(id, part.tool_name, msgspec.json.decode(part.args, type=dict[str, Any]))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return ToolCallMade(id, part.tool_name, {}, f"the arguments must be a JSON object: {error}")


def _stop_reason(reason: str | None, called: bool) -> StopReason:
    match reason:
        case "content_filter":
            raise ModelError("refused", "the provider's content filter stopped the answer")
        case "error":
            raise ModelError("broken", "the provider ended the answer with an error")
        case "length":
            return "length"
    return "toolUse" if called else "stop"


def _usage(used: Any) -> Usage:
    """Theirs counts cached tokens as input too; ours counts each token once."""
    cached = used.cache_read_tokens + used.cache_write_tokens
    fresh = max(used.input_tokens - cached, 0)
    total = fresh + cached + used.output_tokens
    return Usage(fresh, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens, total)
