"""The scenes that are recorded: what is done to an agent, and which state it is in because of that.

Every state follows from what the scene did and from what the model was asked or answered. Looking at the
screen is only for knowing that the program has drawn what it was told to: a text that the scene itself gave
it, or the words of the menu that was opened.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from tests import leftovers
from tests.agent.openai_server import failure
from tests.model_server import Says, Shell, WriteFile

from . import own_scenes
from .agents import ENDED_IN, RecordedAgent, place_for
from .stage import SETTLE, PacedModel, SceneError, Stage

PROMPTS = (
    "please look after {word} in the garden",
    "think about {word} and say what you find",
    "tell about {word}, be short",
    "I want {word} before lunch, with all details about the roses and the pond behind the house",
)
ANSWERS = (
    "The roses want water twice a week, and the pond wants none. I looked at both of them. " * 3,
    "Here is what I found:\n\n1. The first bed is dry.\n2. The second isn't.\n\nShall I go on with the rest?",
    "```python\ndef water(bed):\n    return bed.moisture < 0.3\n```\n\nThat is the whole function. " * 2,
    "- one\n- two\n- three\n\nDone. Nothing else is to be done here, I think. " * 3,
)
DRAFTS = (
    "a draft",
    "not yet sent: what about the tulips?",
    "y",
    "1",
    "is this one long enough to go on " * 4,
)
PROSE = (
    """Do you want to proceed?
❯ 1. Yes
  2. No, and tell me what to do differently (esc)
""",
    """The dialog looked like this:

```
Allow command? (y/n)
› 1. Yes, proceed (y)
  2. No (esc)

Press enter to confirm or esc to cancel
```
""",
    """╭──────────────────────────────╮
│ Allow execution of [Shell]?  │
│ ● 1. Allow once              │
│   2. No, suggest changes     │
╰──────────────────────────────╯
""",
    """△ Permission required
  Allow once   Allow always   Reject

It is still running: ⠋ Working... (esc to interrupt)
""",
    """Select model

❯ 1. Opus
  2. Sonnet

Enter to confirm · Esc to cancel""",
    """Working (12s • esc to interrupt)

That is what it printed, and then:

Would you like to run the following command?

$ rm -rf build

› 1. Yes
  2. No""",
)
"""Answers that quote dialogs."""
COMMANDS = ("touch {mark}; sleep 3", "mkdir {mark} && sleep 2.5 && ls", "date > {mark}; sleep 3; cat {mark}")
AFTERWARDS = "That is done. The garden is as it was, with one leaf more, and all the beds have been watered."
TELLS_WITHIN = 15.0
"""Seconds within which an agent says that its turn is done, if it does."""
OPENS_WITHIN, OPENED_IN = 10.0, 4
"""Seconds within which a command opens its dialog, and how often it is typed."""
BEDS = ("bed", "hedge", "pond", "tree")


class Scene:
    """An agent on a stage with its model, and what scenes do to it."""

    def __init__(
        self, agent: RecordedAgent, home: Path, model: PacedModel, size: tuple[int, int], seed: int
    ) -> None:
        self.agent = agent
        self.model = model
        self.size = size
        self.model.answers_all = not agent.has_tools
        self.random = random.Random(f"{agent.name} {size} {seed}")
        self.argv, self.environment, self.project = place_for(agent, home, model)
        self.environment[leftovers.VARIABLE] = uuid.uuid4().hex
        self.stage: Stage | None = None
        self._words = 0
        self._is_turn = False
        self._ended_before = 0

    @property
    def on(self) -> Stage:
        assert self.stage is not None
        return self.stage

    def start(self, *more: str) -> None:
        """Start the program."""
        self.stage = Stage([*self.argv, *more], self.environment, self.project, *self.size)
        self.stage.follows_front = self.agent.is_shell

    def ready(self, what: str = "start") -> None:
        """Wait until it takes a prompt."""
        self.on.wait(*self.agent.ready)
        self.on.stay(self.agent.start_pause)
        self.rests(what)

    def rests(self, what: str, seconds: float = 1.5) -> None:
        """It has nothing to do."""
        self._wait_for_its_end()
        self.on.stay(SETTLE)
        self.on.quiet()
        self.on.begin("idle", what)
        self.on.stay(seconds)

    def _begins(self) -> None:
        self._is_turn, self._ended_before = True, self._ended()

    def _wait_for_its_end(self) -> None:
        """Wait until the agent itself has said that the turn is done, if it does say that."""
        deadline = time.monotonic() + TELLS_WITHIN
        while self._is_turn and self.agent.tells_end and time.monotonic() < deadline:
            if self._ended() > self._ended_before:
                break
            time.sleep(0.02)
        self._is_turn = False

    def _ended(self) -> int:
        """How many turns have ended, as the agent says."""
        try:
            return Path(self.environment[ENDED_IN]).stat().st_size
        except FileNotFoundError:
            return 0

    def word(self, *steps: Says) -> str:
        """A new word for a prompt, and what the model says to it."""
        self._words += 1
        word = f"{self.random.choice(BEDS)}{self.random.randrange(1000, 9999)}{self._words}"
        self.model.script[word] = list(steps)
        return word

    def submit(self, text: str) -> None:
        """Type a prompt and send it."""
        self.on.end()
        self.on.type(text)
        self.on.stay(0.4)
        self.on.press("Enter")

    def opens(self, typed: str, shown: str) -> None:
        """Type a command that opens a dialog; again if the program lost it, as some do while they start."""
        for _ in range(OPENED_IN):
            self.submit(typed)
            with contextlib.suppress(SceneError):
                self.on.wait(shown, seconds=OPENS_WITHIN)
                return

    def asks(self, *steps: Says, text: str = "") -> str:
        """Send a prompt; returns when its model was asked, which has not answered yet."""
        word = self.word(*steps)
        self.model.gate.clear()
        self._begins()
        self.submit((text or self.random.choice(PROMPTS)).format(word=word))
        self.on.until("the model is asked", lambda: word in self.model.began)
        return word

    def works(self, what: str, seconds: float = 2.0) -> None:
        self.on.stay(SETTLE)
        self.on.begin("working", what)
        self.on.stay(seconds)

    def answered(self, word: str, times: int = 1) -> None:
        """Let the model answer; the state may change from when the answer is about to end."""
        found = [at for at, each in enumerate(self.model.began) if each == word][times - 1]
        self.model.gate.set()
        self.on.until("the answer is about to end", self.model.closing[found].reached.is_set)
        self.on.end()
        self.on.until("the answer ended", lambda: self.model.ended.count(word) >= times)

    def turn(self, what: str, *steps: Says, text: str = "", seconds: float = 1.5) -> None:
        """A turn from the prompt to its end."""
        word = self.asks(*steps, text=text)
        self.works(what, seconds)
        self.answered(word)
        self.rests(f"after {what}", 2.0)

    def dialog(self, what: str, *texts: str, seconds: float = 2.5) -> None:
        """It asks: the dialog is there when its texts are."""
        for text in texts:
            self.on.wait(text)
        self.on.begin("waits", what)
        self.on.stay(seconds)

    # --- scenes ---------------------------------------------------------------------------------------------

    def turns(self) -> None:
        """Idle, drafts, slow answers, an interrupt."""
        self.start()
        self.ready()
        draft = self.random.choice(DRAFTS)
        self.on.end()
        self.on.type(draft)
        self.rests("draft", 2.0)
        self.on.end()
        self.clear(draft)
        self.rests("draft deleted", 1.0)
        self.turn("slow answer", Says(self.random.choice(ANSWERS)), seconds=3.0)
        self.turn("another answer", Says(self.random.choice(ANSWERS), thinking="I wonder. " * 5))
        self.asks(Says("never seen"))
        self.works("to be interrupted", 2.0)
        self.on.end()
        self.on.press(*self.agent.interrupt)
        self.on.stay(0.3)
        self.rests("interrupted", 2.0)
        self.model.gate.set()

    def clear(self, draft: str) -> None:
        for _ in range(1 + len(draft) // self.size[0]):
            self.on.press("C-u")

    def prose(self) -> None:
        """Answers that look like dialogs, and a draft that does."""
        self.start()
        self.ready()
        chosen = self.random.sample(PROSE, 3)
        for prose in chosen:
            self.turn("prose like a dialog", Says("It asks:\n\n" + prose), seconds=1.0)
        self.on.end()
        self.on.type("Do you want to proceed? 1. Yes 2. No")
        self.rests("draft like a dialog", 1.5)
        self.on.end()
        self.clear("")

    def errors(self) -> None:
        """The model refuses."""
        self.start()
        self.ready()
        for number in range(2):
            if number:
                self.turn("a good answer", Says(self.random.choice(ANSWERS)), seconds=1.0)
            word = self.asks(Says(error=failure(400, f"the model refuses number {number}")))
            self.works("before an error", 1.0)
            self.on.end()
            self.model.gate.set()
            self.on.until("the error was sent", lambda word=word: word in self.model.ended)
            self.on.stay(self.agent.error_pause)
            self.rests("error", 2.0)

    def permission(self) -> None:
        """Commands and edits that it asks about: allowed, and denied."""
        self.start()
        self.ready()
        for number in range(2):
            mark = f"mark{self.random.randrange(100, 999)}"
            command = self.random.choice(COMMANDS).format(mark=mark)
            word = self.asks(Says("I will run it.", Shell(command)), Says(AFTERWARDS))
            self.works("before a command", 1.0)
            self.answered(word)
            self.dialog("permission for a command", *self.agent.permission, mark)
            self.on.end()
            if number:
                self.on.press("Escape")
                self.on.stay(0.3)
                self.rests("denied with Escape", 2.0)
                self.model.gate.set()
                continue
            self.model.gate.clear()
            self.on.press(*self.agent.allow)
            self.on.until("the command runs", lambda mark=mark: (self.project / mark).exists())
            self.works("a command", 1.5)
            self.on.until("the model is asked again", lambda word=word: self.model.began.count(word) == 2)
            self.on.stay(1.0)
            self.answered(word, 2)
            self.rests("after a command", 1.5)
        self.edits()

    def edits(self) -> None:
        for allowed in (False, True):
            name = f"leaf{self.random.randrange(100, 999)}.txt"
            lines = "".join(f"line {at} of {name}\n" for at in range(self.random.randrange(2, 30)))
            call = (
                self.agent.edit(name, lines)
                if self.agent.edit
                else WriteFile(str(self.project / name), lines)
            )
            word = self.asks(Says("I will write it.", call), Says(AFTERWARDS))
            self.works("before an edit", 1.0)
            self.answered(word)
            self.dialog("permission for an edit", *self.agent.edit_permission, name)
            self.on.end()
            self.model.gate.clear()
            self.on.press(*(self.agent.allow if allowed else ("Escape",)))
            if not allowed:
                self.on.stay(0.3)
                self.rests("edit denied with Escape", 1.5)
                self.model.gate.set()
                continue
            self.on.until("the file is there", lambda name=name: (self.project / name).exists())
            self.on.until("the model is asked again", lambda word=word: self.model.began.count(word) == 2)
            self.works("after an edit", 1.0)
            self.answered(word, 2)
            self.rests("edited", 1.5)

    def menus(self) -> None:
        """Menus that a person opens."""
        self.start()
        self.ready()
        if self.random.random() < 0.5:
            self.turn("an answer", Says(self.random.choice(ANSWERS)), seconds=0.5)
        for typed, shown, close in self.agent.menus:
            self.opens(typed, shown)
            self.dialog(f"menu of {typed}", shown, seconds=2.0)
            if self.random.random() < 0.5:
                self.on.press("Down")
                self.on.stay(0.7)
            self.on.end()
            self.on.press(*close)
            self.on.wait(shown, gone=True)
            self.on.stay(0.5)
            self.rests("menu closed", 1.0)

    def compaction(self) -> None:
        """The conversation is summarized."""
        self.start()
        self.ready()
        for _ in range(2):
            self.turn("a turn", Says(self.random.choice(ANSWERS) * 3), seconds=0.5)
        before = len(self.model.began)
        self.model.other = Says("<summary>The garden was watered. " + "It is fine. " * 30 + "</summary>")
        self.model.gate.clear()
        self._begins()
        self.submit(self.agent.compact)
        self.on.until("the model is asked for a summary", lambda: len(self.model.began) > before)
        self.works("compaction", 3.0)
        self.on.end()
        self.model.gate.set()
        self.on.until("the summary was sent", lambda: len(self.model.ended) == len(self.model.began))
        self.on.stay(1.5)
        self.on.until("the summary was sent", lambda: len(self.model.ended) == len(self.model.began))
        self.rests("compacted", 2.0)

    def resume(self) -> None:
        """A conversation is chosen from a list, at the start or by a command."""
        self.model.pause = 0.01
        self.start()
        self.ready()
        for _ in range(self.random.randrange(1, 3)):
            self.turn("a turn", Says(self.random.choice(ANSWERS)), seconds=0.1)
        if self.agent.resume_by:
            typed, shown = self.agent.resume_by
            if self.agent.resumes_anew:
                self.on.close()
                self.start()
                self.ready()
            self.opens(typed, shown)
        else:
            self.on.close()
            self.start(*self.agent.resume_arguments)
            shown = self.agent.resume_shown
        self.dialog("resume dialog", shown, seconds=3.0)
        self.on.end()
        self.on.press("Enter")
        self.on.wait(shown, gone=True)
        self.on.wait(*self.agent.ready)
        self.on.stay(1.0)
        self.rests("resumed", 2.0)
        self.turn("a turn after it", Says(self.random.choice(ANSWERS)), seconds=1.0)

    def trust(self) -> None:
        """It asks whether the project is trusted, before anything else."""
        for name, value in self.agent.untrust(self.environment, self.project).items():
            self.environment[name] = value
        self.start()
        self.dialog("trust", *self.agent.trust, seconds=3.0)
        self.on.end()
        self.on.press("Enter")
        self.on.wait(*self.agent.ready)
        self.on.stay(1.5)
        self.rests("trusted", 2.0)


SCENES: Mapping[str, Callable[[Scene], None]] = {
    "turns": Scene.turns,
    "prose": Scene.prose,
    "errors": Scene.errors,
    "permission": Scene.permission,
    "menus": Scene.menus,
    "compaction": Scene.compaction,
    "resume": Scene.resume,
    "trust": Scene.trust,
    **own_scenes.SCENES,
}


def record(agent: RecordedAgent, name: str, size: tuple[int, int], seed: int, path: Path) -> None:
    """Record a scene. Raises SceneError, or what went wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="fl-rec-", ignore_cleanup_errors=True) as place,
        PacedModel({}) as model,
    ):
        scene = Scene(agent, Path(place).resolve(), model, size, seed)
        try:
            SCENES[name](scene)
        finally:
            model.gate.set()
            if scene.stage is not None:
                scene.stage.close()
            for left in leftovers.marked(scene.environment[leftovers.VARIABLE]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)  # Codex has a server of its own, which outlives it
        scene.on.save(path, f"{agent.name} {name} {size[0]}x{size[1]} {seed}")
        time.sleep(0.1)
