"""A conversation as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

from ..messages import Assistant, Message, Text, Thinking, ToolCall, ToolResult, text_of

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222 }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
article { margin: 1rem 0; padding: .6rem 1rem; border-radius: .4rem; border-left: .3rem solid #bbb }
.user { background: #eef4ff; border-color: #5b8def } .assistant { background: #f7f7f7 }
.tool { background: #fbf8ee; border-color: #d9b44a } .error { border-color: #d64545 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 }
pre { font: 13px/1.45 ui-monospace, monospace }
summary, .thought { color: #666 }
"""


def html(title: str, messages: Sequence[Message]) -> str:
    """The page."""
    body = "\n".join(_article(message) for message in messages)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _article(message: Message) -> str:
    if isinstance(message, ToolResult):
        kind = "tool error" if message.is_error else "tool"
        shown = f"<summary>{escape(message.tool_name)}</summary><pre>{escape(text_of(message))}</pre>"
        return f'<article class="{kind}"><details>{shown}</details></article>'
    if isinstance(message, Assistant):
        parts = "".join(_part(part) for part in message.content)
        if message.error_message:
            parts += f"<p>{escape(message.error_message)}</p>"
        kind = "assistant error" if message.error_message else "assistant"
        return f'<article class="{kind}">{parts}</article>'
    return f'<article class="user"><pre>{escape(text_of(message))}</pre></article>'


def _part(part: Text | Thinking | ToolCall) -> str:
    match part:
        case Text(text=text):
            return f"<pre>{escape(text)}</pre>"
        case Thinking(thinking=thinking):
            return f'<pre class="thought">{escape(thinking)}</pre>' if thinking else ""
    arguments = msgspec.json.format(msgspec.json.encode(part.arguments), indent=2).decode()
    return f"<pre><b>{escape(part.name)}</b> {escape(arguments)}</pre>"
