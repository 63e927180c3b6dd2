"""Personas: who a model is when it verifies. Markdown with front matter, as Pi's verifiers have it.

A persona is looked for in a configuration directory, among those that are built in, and in the project
(`.pi/verifier/agents/<name>.md`): a project does not replace the judge that its user named. Variables in the
text are replaced literally and once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...formats.front_matter import FrontMatterError, Value, front_matter
from ...system.opening import read_file
from ...wire.verifier import Event
from .builtin import PERSONAS

MAX_PERSONA = 64 * 1024
"""How many bytes a persona's file may have."""
MAX_PERSONAS = 200
"""How many personas of a directory are listed."""
MAX_LOOPS = 3
"""How often a builder is corrected if the persona does not say."""
MOST_LOOPS = 100
MAX_USER_PROMPT = 32 * 1024
"""How many characters of what the user asked go into a prompt."""

PLACE = Path(".pi/verifier/agents")
"""Where a project has its personas."""
OF_PROJECT = "project:"
"""Before a name: the project's persona is meant, though there is another of this name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class PersonaError(ValueError):
    """A persona that can't be used. Says where and why."""


class Persona(Struct, frozen=True, kw_only=True):
    """Who a model is when it verifies."""

    name: str
    description: str = ""
    tools: tuple[str, ...] = ()
    """The tools that it may use; none said means all that only read."""
    model: str = ""
    domain: str = ""
    max_loops: int = MAX_LOOPS
    verification_focus: str = ""
    body: str = ""
    source: str = "built in"
    """The file that it is from."""
    is_of_project: bool = False
    """Whether that is a file of the project that is checked."""
    overlooked: str = ""
    """The project's file of the same name, which is not used."""

    @property
    def note(self) -> str:
        """What people must know about where it is from, if anything."""
        if self.is_of_project:
            return f"the persona {self.name} belongs to the project that is verified: {self.source}"
        if self.overlooked:
            use = f"--persona {OF_PROJECT}{self.name} takes it"
            return f"the project also has a persona {self.name}, which is not used ({use}): {self.overlooked}"
        return ""

    def system_prompt(self, *, session_id: str, session_file: str, socket_path: str = "") -> str:
        """The text that a model begins with."""
        values = {
            "BUILDER_SESSION_ID": session_id,
            "BUILDER_SESSION_FILE": session_file,
            "DOMAIN": self.domain,
            "MAX_LOOPS": str(self.max_loops),
            "SOCKET_PATH": socket_path,
        }
        body = substituted(self.body, values)
        return (
            f"{body}\n\nLook at this above all: {self.verification_focus}"
            if self.verification_focus
            else body
        )


# --- reading ----------------------------------------------------------------------------------------------


def parse_persona(text: str, source: str, name: str = "") -> Persona:
    """The persona in a text. `name` is for one that doesn't say its own. Raises PersonaError."""
    try:
        values, body = front_matter(text, source)
    except FrontMatterError as error:
        raise PersonaError(str(error)) from None
    given = _text(values, "name", source) or name
    if not _NAME.fullmatch(given):
        raise PersonaError(f"{source}: a name has letters, digits, '.', '_' and '-', not {given!r}")
    loops = values.get("max_loops", MAX_LOOPS)
    if not isinstance(loops, int) or not 0 <= loops <= MOST_LOOPS:
        raise PersonaError(f"{source}: max_loops must be an integer from 0 to {MOST_LOOPS}, not {loops!r}")
    if not body.strip():
        raise PersonaError(f"{source}: there must be a text below the front matter")
    return Persona(
        name=given,
        description=_text(values, "description", source),
        tools=tuple(_list(values, "tools")),
        model=_text(values, "model", source),
        domain=_text(values, "domain", source),
        max_loops=loops,
        verification_focus=", ".join(_list(values, "verification_focus", ",\n")),
        body=body.strip(),
        source=source,
    )


def _text(values: Mapping[str, Value], key: str, source: str) -> str:
    value = values.get(key, "")
    if value == []:
        return ""
    if isinstance(value, list):
        raise PersonaError(f"{source}: {key} must be a text, not a list")
    return str(value).strip()


def _list(values: Mapping[str, Value], key: str, separators: str = ", \t") -> list[str]:
    """A list, or a text with its items after each other."""
    value = values.get(key, [])
    if isinstance(value, list):
        return [item for item in value if item]
    return [item.strip() for item in re.split(f"[{separators}]+", str(value)) if item.strip()]


# --- finding ----------------------------------------------------------------------------------------------


def load(name: str, project: Path | None = None, configuration: Path | None = None) -> Persona:
    """The persona of a name: that of the configuration directory, else one built in, else the project's.

    `project:NAME` is the project's. Raises PersonaError, also for a name that could lead elsewhere.
    """
    bare = name.removeprefix(OF_PROJECT)
    if not _NAME.fullmatch(bare):
        raise PersonaError(f"a persona's name has letters, digits, '.', '_' and '-', not {name!r:.80}")
    ours = project / PLACE / f"{bare}.md" if project is not None else None
    is_there = ours is not None and os.path.lexists(ours)
    if bare == name:
        overlooked = str(ours) if is_there else ""
        if configuration is not None and os.path.lexists(path := configuration / f"{name}.md"):
            return replace(parse_persona(_read(path), str(path), name), overlooked=overlooked)
        if name in PERSONAS:
            return replace(parse_persona(PERSONAS[name], "built in", name), overlooked=overlooked)
    if project is not None and ours is not None and is_there:
        if os.path.realpath(ours) != f"{os.path.realpath(project)}/{PLACE}/{bare}.md":
            raise PersonaError(f"{ours}: a project's persona can't be a link")
        # its front matter can't say another name, which would be that of another judge in reports
        return replace(parse_persona(_read(ours), str(ours), bare), name=name, is_of_project=True)
    there = ", ".join(each.name for each in available(project, configuration)[0])
    raise PersonaError(f"unknown persona {name!r}; known are {there}")


def available(
    project: Path | None = None, configuration: Path | None = None
) -> tuple[list[Persona], list[PersonaError]]:
    """All personas by the names that `load` takes, and what was wrong with the files of others."""
    own = configuration.glob("*.md") if configuration is not None else ()
    theirs = (project / PLACE).glob("*.md") if project is not None else ()
    named = {*PERSONAS, *(path.stem for path in islice(own, MAX_PERSONAS))}
    for stem in sorted(path.stem for path in islice(theirs, MAX_PERSONAS)):
        named.add(f"{OF_PROJECT}{stem}" if stem in named else stem)
    found: list[Persona] = []
    faults: list[PersonaError] = []
    for name in sorted(each for each in named if _NAME.fullmatch(each.removeprefix(OF_PROJECT))):
        try:
            found.append(load(name, project, configuration))
        except PersonaError as fault:
            faults.append(fault)
    return found, faults


def _read(path: Path) -> str:
    try:
        data = read_file(path, MAX_PERSONA + 1)
        if len(data) > MAX_PERSONA:
            raise PersonaError(f"{path}: a persona has at most {MAX_PERSONA} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise PersonaError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise PersonaError(f"{path}: not UTF-8 at byte {error.start}") from None


# --- prompts ----------------------------------------------------------------------------------------------

ON_STOP = """\
The builder has ended turn <TURN_INDEX> (at <TIMESTAMP>, milliseconds since 1970). The user had asked:

<USER_PROMPT>

What the builder said and did is in lines <SESSION_FILE_START_LINE> to <SESSION_FILE_END_LINE> of its session
file; read just these. Check what it claims against what is there, with tools, not by what it says. You may
only read. End with a message in this form, and nothing after it:

## Report

STATUS: one of verified, failed, unsure
CONFIDENCE: one of PERFECT, VERIFIED, PARTIAL, FEEDBACK, FAILED

### What did you verify?

One line that sums it up, then each claim and how you checked it.

### What could you not verify?

### What should the builder do?

Only if the status is failed: what is wrong, where, and what would be right.
"""
"""What a verifier is told when a turn ends, unless a project has its own words."""


def stop_prompt(event: Event, template: str = ON_STOP) -> str:
    """What a verifier is told when a turn ends."""
    asked = event.user_prompt or ""
    if len(asked) > MAX_USER_PROMPT:
        asked = f"{asked[:MAX_USER_PROMPT]}\n[{len(asked) - MAX_USER_PROMPT} characters left out]"
    values = {
        "TURN_INDEX": _number(event.turn_index),
        "TIMESTAMP": _number(event.timestamp),
        "USER_PROMPT": asked,
        "SESSION_FILE_START_LINE": _number(event.session_file_start_line),
        "SESSION_FILE_END_LINE": _number(event.session_file_end_line),
    }
    return substituted(template, values)


def substituted(text: str, values: Mapping[str, str]) -> str:
    """The text with each `<NAME>` replaced. What is put in is not looked at again.

    >>> substituted("<A> and <B> and <C>", {"A": "<B>", "B": "b"})
    '<B> and b and <C>'
    """
    names = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    return re.sub(f"<({names})>", lambda match: values[match[1]], text) if names else text


def _number(value: float | None) -> str:
    return "unknown" if value is None else str(value)
