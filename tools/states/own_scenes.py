"""Scenes of one agent alone: aider's questions, and what is typed into shells, which have no model.

A shell is `idle` at its prompt, whatever is typed there, and `working` while a command runs, also one of its
own; it `waits` when it, or a command of its own, has asked something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.model_server import Says

if TYPE_CHECKING:
    from .scenes import Scene

RUN = ("touch {mark}; sleep 3", "mkdir {mark} && sleep 3", "sleep 1; touch {mark}; sleep 2")
TYPED = ("ls", "echo are the roses red?", "cd ..; pwd", "echo '50%'", "grep -n red leaf1.txt")
READS = (
    "Water the roses?",
    "Delete all 12 leaves? [y/N]",
    "Which bed do you want to dig over first, the one beside the pond or the one below the old pear tree?",
)


def _block(name: str, text: str) -> str:
    """A new file, as aider's models write it."""
    return f"I will write it.\n\n{name}\n```\n<<<<<<< SEARCH\n=======\n{text}>>>>>>> REPLACE\n```\n"


def aider_questions(scene: Scene) -> None:
    """Commands that aider suggests, and files that it would make."""
    scene.start()
    scene.ready()
    for answer in ("y", "n"):
        mark = f"mark{scene.random.randrange(100, 999)}"
        command = scene.random.choice(RUN).format(mark=mark)
        word = scene.asks(Says(f"I would run this:\n\n```bash\n{command}\n```\n"))
        scene.works("before a command", 1.0)
        scene.answered(word)
        scene.dialog("permission for a command", "Run shell command?")
        scene.on.end()
        scene.submit(answer)
        if answer == "y":
            scene.on.until("the command runs", lambda mark=mark: (scene.project / mark).exists())
            scene.works("a command", 1.0)
            scene.on.end()
            scene.on.stay(2.5)
        scene.rests("answered", 1.5)
    for answer in ("n", ""):
        name = f"leaf{scene.random.randrange(100, 999)}.txt"
        lines = "".join(f"line {at} of {name}\n" for at in range(scene.random.randrange(2, 20)))
        word = scene.asks(Says(_block(name, lines)))
        scene.works("before an edit", 1.0)
        scene.answered(word)
        scene.dialog("permission for an edit", "Create new file?")
        scene.on.end()
        scene.submit(answer)
        scene.on.stay(1.0)
        if not answer:
            scene.on.until("the file is there", lambda name=name: (scene.project / name).exists())
        elif "Create new file?" in scene.on.text().rsplit("\n> ", 1)[-1]:
            scene.on.stay(0.5)
        scene.rests("answered", 1.5)


def codex_hooks(scene: Scene) -> None:
    """Codex asks whether hooks are trusted that it does not know."""
    config = Path(scene.environment["CODEX_HOME"], "config.toml")
    events = scene.random.sample(("Stop", "PreToolUse", "PostToolUse", "UserPromptSubmit"), 2)
    hook = "".join(
        f'\n[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = "command"\ncommand = "true"\n'
        for event in events
    )
    config.write_text(config.read_text() + hook)
    scene.start()
    scene.dialog("trust of hooks", "Hooks need review", seconds=2.5)
    scene.on.press("Down")
    scene.on.stay(1.0)
    scene.on.end()
    scene.on.press("Escape")
    scene.on.wait(*scene.agent.ready)
    scene.on.stay(1.5)
    scene.rests("not trusted", 2.0)


def _runs(scene: Scene, what: str, command: str, seconds: float = 1.5) -> None:
    """Type a command that goes on for longer than that."""
    scene.submit(command)
    scene.works(what, seconds)
    scene.on.end()


def commands(scene: Scene) -> None:
    """Prompts, drafts, commands, and loops of the shell itself."""
    scene.start()
    scene.ready()
    for typed in scene.random.sample(TYPED, 2):
        scene.on.end()
        scene.on.type(typed)
        scene.rests("draft", 1.5)
        scene.on.end()
        scene.on.press("Enter")
        scene.rests("after a command", 1.5)
    _runs(scene, "sleep", "sleep 60", 2.5)
    scene.on.press("C-c")
    scene.rests("interrupted", 1.5)
    loop = "while true; end" if scene.agent.name == "fish" else "while :; do :; done"
    _runs(scene, "a loop", loop, 2.0)
    scene.on.press("C-c")
    scene.rests("interrupted", 1.5)
    prints = "sh -c 'while :; do date; echo Go on?; sleep 0.4; done'"
    _runs(scene, "prints questions", prints, 2.5)
    scene.on.press("C-c")
    scene.rests("interrupted", 1.5)
    scene.on.end()
    scene.on.type("echo 'the roses")
    scene.on.press("Enter")
    scene.rests("a quote goes on", 1.5)
    scene.on.end()
    scene.on.press("C-c")
    scene.rests("quote dropped", 1.0)


def reads(scene: Scene) -> None:
    """Questions of `read`, which is a command of the shell itself, and of another program."""
    scene.start()
    scene.ready()
    for asked in scene.random.sample(READS, 2):
        if scene.agent.name == "fish":
            command = f"read -P '{asked} ' answer"
        elif scene.agent.name == "zsh":
            command = f"read 'answer?{asked} '"
        else:
            command = f"printf '{asked} '; read answer"
        scene.submit(f"clear; {command}")
        scene.on.stay(0.5)
        scene.dialog("read", asked.split()[-1])
        scene.on.end()
        scene.on.type("yes")
        scene.on.press("Enter")
        scene.rests("answered", 1.5)
        scene.submit(f"sh -c 'clear; printf \"{asked} \"; read answer; sleep 3'")
        scene.on.stay(0.5)
        scene.dialog("another program reads", asked.split()[-1])
        scene.on.end()
        scene.submit("no")
        scene.works("it goes on", 1.5)
        scene.on.end()
        scene.on.stay(1.5)
        scene.rests("ended", 1.5)


def completes(scene: Scene) -> None:
    """Completion that asks whether all should be shown."""
    scene.start()
    scene.ready()
    shown = "do you wish to see all" if scene.agent.name == "zsh" else "possibilities?"
    for answer in ("n", "y"):
        scene.on.end()
        scene.on.type("/usr/bin/")
        scene.on.press(*(("Tab",) if scene.agent.name == "zsh" else ("Tab", "Tab")))
        scene.dialog("all possibilities", shown)
        scene.on.end()
        scene.on.type(answer)
        if answer == "y" and scene.agent.name == "bash":
            scene.dialog("more of them", "--More--", seconds=1.5)
            scene.on.end()
            scene.on.type("q")
        if answer == "n" or scene.agent.name == "bash":
            scene.rests("after the question", 1.5)
            scene.on.end()
            scene.on.press("C-u")
            scene.on.press("C-c")
            scene.rests("line dropped", 1.0)
    scene.on.end()


def fish_completes(scene: Scene) -> None:
    """A list of completions below the prompt, and a search of the history."""
    scene.start()
    scene.ready()
    scene.on.end()
    scene.on.type("cat leaf")
    scene.on.press("Tab", "Tab")
    scene.rests("list of completions", 2.0)
    scene.on.end()
    scene.on.press("Escape")
    scene.on.press("C-u")
    scene.rests("line dropped", 1.0)


def zsh_asks(scene: Scene) -> None:
    """Corrections, and whether all files should be deleted."""
    scene.start()
    scene.ready()
    asked = (("ech roses", "[nyae]?", "n"), ("rm *", "[yn]?", "n"), ("sleeep 1", "[nyae]?", "a"))
    for typed, shown, answer in asked:
        scene.submit(typed)
        scene.dialog("zsh asks", shown)
        scene.on.end()
        scene.on.type(answer)
        scene.rests("answered", 1.5)


SCENES: Mapping[str, Callable[[Scene], None]] = {
    "aider-questions": aider_questions,
    "codex-hooks": codex_hooks,
    "commands": commands,
    "reads": reads,
    "completes": completes,
    "fish-completes": fish_completes,
    "zsh-asks": zsh_asks,
}
