"""Make docs/api.md, the reference of the SDK, from signatures and docstrings.

    python tools/make_api.py

A test checks that the page is current.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args

import fairlead
from fairlead import events, plugins
from fairlead.client import sdk
from fairlead.client.calls import Format
from fairlead.client.view import RoleName
from fairlead.events import AgentEvent, Event, Outcome, SessionEvent

PAGE = Path(__file__).parents[1] / "docs/api.md"
HEAD = """# API of the SDK

[sdk.md](sdk.md) explains it with examples. `fairlead.aio` has the same names for asyncio: requests are
awaited, streams are opened by `async with` or `await` and read by `async for`. `make sdk` makes this page
from the source.
"""
WORDS = {"RoleName": RoleName, "Format": Format, "Outcome": Outcome}
ERRORS = (fairlead.RequestError, fairlead.Ended, fairlead.TurnFailed)


def described(what: Any) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((inspect.getdoc(what) or "").split("\n\n")[0].split())


def signature(function: Any, names: dict[str, str]) -> str:
    """Return a function's parameters and result; annotations in `names` have another name there."""
    shown = inspect.signature(function)
    parameters = [each for each in shown.parameters.values() if each.name != "self"]
    text = str(shown.replace(parameters=parameters))
    for annotation in (shown.return_annotation, *(each.annotation for each in parameters)):
        text = text.replace(repr(annotation), names.get(annotation, str(annotation)))
    return text


def members(kind: type) -> list[str]:
    """Return a line for each public method and property of a class."""
    names = {"E": "AgentEvent" if kind is sdk.AgentEvents else "Event"}
    lines = []
    for name, member in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            lines.append(f"- `{name}: {member.fget.__annotations__['return']}`. {described(member)}")
        elif inspect.isfunction(member):
            lines.append(f"- `{name}{signature(member, names)}`. {described(member)}")
    return lines


def values(base: type[Event]) -> list[str]:
    """Return a line for each event of a kind."""
    kinds = [each for each in base.__subclasses__() if each not in (AgentEvent, SessionEvent)]
    fields = {each: [f"{name}: {value}" for name, value in each.__annotations__.items()] for each in kinds}
    return [f"- `{each.__name__}({', '.join(fields[each])})`. {described(each)}" for each in kinds]


def made() -> str:
    """Return the text of the page."""
    parts = [HEAD, "## fairlead", f"- `connect() -> Host`. {described(fairlead.connect)}"]
    parts[-1] += "".join(f"\n- `{each.__name__}`. {described(each)}" for each in ERRORS)
    parts[-1] += "".join(f"\n- `{name}`: `{'`, `'.join(get_args(words))}`." for name, words in WORDS.items())
    for kind in (sdk.Host, sdk.Session, sdk.Terminal, sdk.Attached, sdk.Agent, sdk.AgentEvents, sdk.Events):
        parts += [f"### {kind.__name__}", described(kind), "\n".join(members(kind))]
    parts += ["## fairlead.events", described(events)]
    parts += ["To all sessions, from `Host.events`:", "\n".join(values(Event))]
    parts += ["In a session of any kind, from `Host.events`:", "\n".join(values(SessionEvent))]
    parts += ["In an agent session, from `Agent.prompt` and `Agent.events`:", "\n".join(values(AgentEvent))]
    parts += ["## fairlead.plugins", described(plugins)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(made())
