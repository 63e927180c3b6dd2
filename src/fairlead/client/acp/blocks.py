"""What an editor sends, as the daemon takes it: the blocks of a prompt, and the answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...formats.edn import Keyword
from ...wire import acp
from .narration import content_of, kind_of

MAX_CHOICES = 50
"""How many answers an editor is offered."""
_OPTION_KINDS = {
    "allow": "allow_once",
    "always": "allow_always",
    "deny": "reject_once",
    "never": "reject_always",
}
_CANCEL = "cancel"


def prompt_of(blocks: Sequence[acp.Block]) -> tuple[str, list[dict[Any, str]]]:
    """A prompt's text, and its images. Files that come with their contents stand after the text."""
    said: list[str] = []
    after: list[str] = []
    images: list[dict[Any, str]] = []
    for block in blocks:
        match block:
            case acp.Text(text=text):
                said.append(text)
            case acp.ResourceLink(uri=uri, name=name):
                said.append(f"[{name}]({uri})")
            case acp.EmbeddedResource(resource=acp.ResourceContents(uri=uri, text=str(text))):
                after.append(f'<context ref="{uri}">\n{text}\n</context>')
            case acp.EmbeddedResource(resource=resource):
                if (resource.mime_type or "").startswith("image/") and resource.blob is not None:
                    images.append(_image(resource.blob, resource.mime_type or ""))
                else:
                    said.append(f"[{resource.uri}]")
            case acp.Image(data=data, mime_type=mime_type):
                images.append(_image(data, mime_type))
            case acp.Audio(mime_type=mime_type):
                said.append(f"[{mime_type}]")
    return "\n\n".join(filter(None, ["".join(said), *after])), images


def _image(data: str, mime_type: str) -> dict[Any, str]:
    return {Keyword("data"): data, Keyword("mime-type"): mime_type}


def permission_of(session: str, data: Mapping[str, Any], paths: Sequence[str]) -> acp.RequestPermission:
    """A question of a session, with all of its answers."""
    preview = data.get("preview") or ""
    is_diff = preview.startswith("@@ ")
    return acp.RequestPermission(
        session_id=session,
        tool_call=acp.ToolCallDetails(
            tool_call_id=data.get("tool_id") or data["dialog_id"],
            title=data.get("summary") or data.get("title"),
            kind=kind_of(data.get("tool_name") or ""),
            status="pending",
            content=content_of(preview, preview if is_diff else "", paths),
        ),
        options=tuple(_option(each) for each in data["options"][:MAX_CHOICES]),
    )


def _option(given: Mapping[str, Any]) -> acp.PermissionOption:
    value = given["value"]
    kind = _OPTION_KINDS.get(value.partition("-")[0], "reject_once")  # what is not known is no consent
    return acp.PermissionOption(option_id=value, name=given.get("label") or value, kind=kind)


def choice_of(session: str, data: Mapping[str, Any]) -> acp.RequestPermission:
    """A choice that a slash command wants, with what can be chosen by its number."""
    labels = [str(each["ui.item/label"]) for each in items_of(data)]
    options = [
        acp.PermissionOption(option_id=str(number), name=label, kind="allow_once")
        for number, label in enumerate(labels)
    ]
    cancel = acp.PermissionOption(option_id=_CANCEL, name="Cancel", kind="reject_once")
    details = acp.ToolCallDetails(
        tool_call_id=data["request_id"], title=data.get("prompt") or "Select", kind="other", status="pending"
    )
    return acp.RequestPermission(session_id=session, tool_call=details, options=(*options, cancel))


def items_of(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    items: Sequence[Mapping[str, Any]] = data["ui/action"]["ui/items"]
    return items[:MAX_CHOICES]


def chosen_of(data: Mapping[str, Any], option: str | None) -> dict[str, Any]:
    """The parameters of the op that answers such a choice."""
    given = {"request_id": data["request_id"], "action_name": data["ui/action"]["ui/action_name"]}
    if option is None or option == _CANCEL:
        return given | {"status": "cancelled"}
    return given | {"status": "submitted", "value": items_of(data)[int(option)]["ui.item/value"]}
