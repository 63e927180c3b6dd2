"""A small agent that speaks ACP, for tests and demonstrations. Standard library only.

What it does, the words of a prompt say, one after the other:

    think, plan, slow, flood    say something
    ticks                       say again and again what time it is
    tool, roses, two            ask for permission and write hello.txt, roses.txt, or two files
    free, work WORD, build      write free.txt, answer.txt, or result.txt, wrong at first, without asking
    amid                        say something while a call runs
    hang, stall                 work until it is told to stop, or whatever it is told
    refuse, fail, die, late     end the turn so: with an error, with its process, or speaking after it
    leak                        put its key into every field, and ask for permission with it
    overtime                    end the turn, and write result.txt when a file `go` is there
    odd                         end the turn for a reason that the protocol does not know
    bad, long, files, twice     send lines that make no sense or are too long, ask for what was not offered,
                                answer twice
    write:PATH, reach:PATH      write a file, or say which files are in a directory
    env:NAME                    say a variable of its environment backwards
    knock:PORT:PATH             send a file to a port, and say what comes back
    deaf, mute                  close its input, or its output
    mode, model, recall         say its mode or model, or what it was told before
    pay                         have used half of its context, and a quarter of a dollar more
    shell                       run a command in a terminal of its own
    quiet                       run a command of which no more is told until a file `enough` is there, as if
                                it was waiting
    watched                     ask for permission for a command that it called running before, and tell what
                                it prints until a file `enough` is there
    gush, calls, heavy          say too much after the turn, have too many calls, or keep too much in them
    pester, ask:COUNT           ask for what is unknown without an end, with empty lines, or so often
    moody, rewrite, repeat      change its mode, or files, without an end, or a file of equal lines
    deluge:WHAT                 say without an end what it plans, which commands it has, how much it has used,
                                or what its terminal printed, and wait for a file `enough` then
    titles, deep                have calls with long titles, or with deep arguments
    sly, same, many, strange    ask for permission with options that mislead, have one id, are too many, or
                                for a call that it did not begin
    vast:KILOBYTES              ask for permission for a command with so many spaces around what it does
    secret, escape, defy        say its key, control a terminal, call a turn done that was aborted
    child, lie                  leave a process behind, send what belongs to no session and no request

Anything else it repeats, after SMALL_AGENT_SAYS. With SMALL_AGENT_DIR it keeps its sessions there, and every
line that it gets.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any

STEP = float(os.environ.get("SMALL_AGENT_STEP", "0.02"))
"""Seconds between two pieces of what it says slowly."""
SAYS = os.environ.get("SMALL_AGENT_SAYS", "")
MODES, MODELS = ("ask", "bold"), ("wise", "quick")
OPTIONS = [
    {"optionId": "yes-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "yes-always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def option(category: str, value: str, values: tuple[str, ...]) -> dict[str, Any]:
    """Something that can be set, with its values."""
    choices = [{"value": each, "name": each.title()} for each in values]
    about = {"id": category, "name": category.title(), "category": category, "type": "select"}
    return {**about, "currentValue": value, "options": choices}


class Turn(threading.Thread):
    """One turn of a session."""

    def __init__(self, agent: Agent, request: Any, session: str, blocks: list[dict[str, Any]]) -> None:
        super().__init__(daemon=True)
        self.agent = agent
        self.request = request
        self.session = session
        self.text = "".join(block.get("text", f"[{block['type']}]") for block in blocks)
        self.cancelled = threading.Event()
        self.calls = 0

    def update(self, what: str, **values: Any) -> None:
        update = {"sessionUpdate": what, **values}
        self.agent.send(method="session/update", params={"sessionId": self.session, "update": update})

    def say(self, text: str, kind: str = "agent_message_chunk") -> None:
        self.update(kind, content={"type": "text", "text": text})

    def run(self) -> None:
        reason = "end_turn"
        if SAYS:
            self.say(SAYS)
        for word in self.text.split():
            word = "build" if word == "Fix" else word  # as a correction says it
            does = getattr(self, f"do_{word}", None)
            if word.startswith("env:"):
                self.say(os.environ.get(word[4:], "none")[::-1] + " ")
            elif word.startswith("vast:"):
                self.vast(int(word.partition(":")[2]))
            elif word.startswith("deluge:"):
                getattr(self, f"deluge_{word[7:]}")()
            elif word.startswith("ask:"):
                self.ask_unknown(int(word[4:]))
            elif word.startswith(("write:", "reach:", "knock:")):
                self.say(self.tried(*word.split(":", 1)) + " ")
            elif does is None:
                self.say(word + " ")
            elif (ended := does()) is not None:
                reason = ended
            if self.cancelled.is_set():
                reason = "cancelled"
                break
        if reason:
            usage = {"totalTokens": 12, "inputTokens": 8, "outputTokens": 4}
            self.agent.turn = None
            self.agent.send(id=self.request, result={"stopReason": reason, "usage": usage})

    # --- what it can do -------------------------------------------------------------------------------------

    def do_gush(self) -> str:
        self.agent.turn = None
        self.agent.send(id=self.request, result={"stopReason": "end_turn"})
        for number in range(5000):
            self.say(f"{number} {'g' * 1000}")
        self.agent.note("gushed", "all")
        return ""

    def do_calls(self) -> None:
        for _ in range(2000):
            self.begin("Call", "nothing")
        self.cancelled.wait()

    def do_pester(self) -> None:
        self.agent.raw(b"\n" * 300_000)
        for number in range(20_000):
            self.agent.send(id=f"pester-{number}", method="no/such", params={})
        self.cancelled.wait()

    def ask_unknown(self, count: int) -> None:
        asked = [self.agent.request("no/such", {}) for _ in range(count)]
        codes = {self.agent.answer(id)["error"]["code"] for id in asked}
        self.say(f"{len(asked)} answers {codes}")

    def do_moody(self) -> None:
        for number in range(3000):
            self.update("current_mode_update", currentModeId=f"mood-{number}")
        self.update("current_mode_update", currentModeId="bold")

    def deluge_plan(self) -> None:
        for number in range(30):
            steps = [f"{number} {step}" for step in range(3000)] if number < 29 else ["at last"]
            entries = [{"content": step, "priority": "high", "status": "pending"} for step in steps]
            self.update("plan", entries=entries)
        for number in range(3000):
            entry = {"content": f"step {number}", "priority": "high", "status": "pending"}
            self.update("plan", entries=[entry])
        self.wait_for("enough")

    def deluge_commands(self) -> None:
        for number in range(30):
            names = [f"c-{number}-{name}" for name in range(2000)] if number < 29 else ["at-last"]
            commands = [{"name": name, "description": "d" * 20} for name in names]
            self.update("available_commands_update", availableCommands=commands)
        self.wait_for("enough")

    def deluge_usage(self) -> None:
        for used in range(1, 5001):
            self.update("usage_update", used=used, size=10_000)
        self.wait_for("enough")

    def deluge_print(self) -> None:
        self.update("tool_call", toolCallId="print", title="print", status="in_progress")
        for piece in [*(2000 * "z" for _ in range(2000)), "at last"]:
            printed = {"terminal_output_delta": {"data": piece, "terminal_id": "t1"}}
            self.update("tool_call_update", toolCallId="print", _meta=printed)
        self.wait_for("enough")

    @staticmethod
    def wait_for(file: str) -> None:
        while not os.path.exists(file):
            time.sleep(STEP)

    def do_rewrite(self) -> None:
        old, new = ("\n".join(f"{n}\n{side}{n}" for n in range(1490)) for side in "ab")
        files = [{"type": "diff", "path": f"/f{n}", "oldText": old, "newText": new} for n in range(2)]
        self.update("tool_call", toolCallId="rewrite", title="Rewrite", status="completed", content=files)

    def do_repeat(self) -> None:
        old, new = "a\nx\nq\n" + "x\nq\n" * 98 + "b", "c\nx\np\n" + "x\np\n" * 98 + "d"
        files = [{"type": "diff", "path": f"/f{n}", "oldText": old, "newText": new} for n in range(4)]
        self.update("tool_call", toolCallId="repeat", title="Repeat", status="completed", content=files)

    def do_titles(self) -> None:
        for number in range(12):
            title = f"{number} {'t' * 4_000_000}"
            self.update("tool_call", toolCallId=f"title-{number}", title=title, status="in_progress")

    def do_heavy(self) -> None:
        for number in range(190):
            raw = {"text": "r" * 60_000}
            content = [{"type": "content", "content": {"type": "text", "text": "c" * 60_000}}]
            title = f"Heavy {number}"
            self.update("tool_call", toolCallId=title, title=title, rawInput=raw, content=content)
        self.cancelled.wait()

    def do_deep(self) -> None:
        nested: Any = "bottom"
        for _ in range(96):
            nested = [nested]
        self.update("tool_call", toolCallId="deep", title="Deep", status="completed", rawInput=nested)

    def permitted(self, options: list[dict[str, str]], call: str = "odd-1") -> None:
        params = {"sessionId": self.session, "toolCall": {"toolCallId": call}, "options": options}
        answer = self.agent.answer(self.agent.request("session/request_permission", params))
        outcome = answer.get("result", {}).get("outcome", {})
        self.say(str(outcome.get("optionId") or answer.get("error", {}).get("message")))

    def do_sly(self) -> None:
        self.permitted(
            [
                {"optionId": "a", "name": "Reject", "kind": "allow_always"},
                {"optionId": "b", "name": "Allow once", "kind": "reject_once"},
            ]
        )

    def do_same(self) -> None:
        self.permitted([OPTIONS[0], {**OPTIONS[2], "optionId": OPTIONS[0]["optionId"]}])

    def do_many(self) -> None:
        self.permitted([{**OPTIONS[0], "optionId": str(number)} for number in range(5000)])

    def do_strange(self) -> None:
        self.permitted(OPTIONS, "never-begun")

    def vast(self, kilobytes: int) -> None:
        spaces = " " * (512 * kilobytes)
        raw = {"command": f"ls{spaces}; touch harm ;{spaces}"}
        self.update("tool_call", toolCallId="vast", title="ls", kind="execute", rawInput=raw)
        self.permitted(OPTIONS, "vast")

    def do_secret(self) -> None:
        key = os.environ["SMALL_API_KEY"]
        self.say(f"it is {key[:9]}")
        self.say(f"{key[9:]}.")
        call = self.begin(f"Use {key}", key)
        content = [{"type": "content", "content": {"type": "text", "text": key}}]
        self.update("tool_call_update", toolCallId=call, status="completed", content=content)
        sys.stderr.write(f"{key}\n")
        self.agent.turn = None
        self.agent.send(id=self.request, error={"code": -32603, "message": f"{key} is wrong"})

    def do_leak(self) -> None:
        key = os.environ["SMALL_API_KEY"]
        diff = {"type": "diff", "path": f"/d-{key}", "oldText": "", "newText": key}
        call = {"toolCallId": f"id-{key}", "title": key, "kind": key, "name": key, "content": [diff]}
        raw = {key: key, "command": f"echo {key}"}
        self.update("tool_call", **call, locations=[{"path": f"/l-{key}"}], rawInput=raw, status="completed")
        self.update("plan", entries=[{"content": key, "priority": key, "status": key}])
        self.update("available_commands_update", availableCommands=[{"name": key, "description": key}])
        self.update("current_mode_update", currentModeId=key)
        self.update("config_option_update", configOptions=[option("model", key, (key, "wise"))])
        self.permitted(
            [
                {"optionId": f"yes-{key}", "name": f"Allow {key}", "kind": "allow_once"},
                {"optionId": "yes-[redacted]", "name": "No", "kind": "reject_once"},
            ],
            f"asked-{key}",
        )

    def do_escape(self) -> None:
        self.say("\x1b]0;title\x07\x1b[2Jgone\u202e")

    def do_defy(self) -> None:
        self.say("defying ")
        self.cancelled.wait()
        self.cancelled.clear()

    def do_child(self) -> None:
        code = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={})
        assert child.stdout is not None
        self.say(child.stdout.readline())

    def do_lie(self) -> None:
        self.agent.send(id=4711, result={"stopReason": "end_turn"})
        self.agent.send(id="x", error={"code": -1, "message": "no"})
        params = {"sessionId": "another", "update": {"sessionUpdate": "current_mode_update"}}
        self.agent.send(method="session/update", params=params)
        text = {"type": "text", "text": "from another session"}
        params["update"] = {"sessionUpdate": "agent_message_chunk", "content": text}
        self.agent.send(method="session/update", params=params)

    def do_think(self) -> None:
        self.say("let me see", "agent_thought_chunk")

    def do_plan(self) -> None:
        steps = [("look", "completed"), ("write", "in_progress"), ("test", "pending")]
        entries = [{"content": step, "priority": "high", "status": state} for step, state in steps]
        self.update("plan", entries=entries)

    def begin(self, title: str, path: str) -> str:
        self.calls += 1
        call = f"call-{self.calls}"
        raw = {"command": f"echo hi > {path}"}
        self.update("tool_call", toolCallId=call, title=title, kind="execute", status="pending", rawInput=raw)
        return call

    def write(self, call: str, path: str, text: str = "hi\n") -> None:
        self.update("tool_call_update", toolCallId=call, status="in_progress")
        old = None
        if os.path.exists(path):
            with open(path) as file:
                old = file.read()
        with open(path, "w") as file:
            file.write(text)
        with open(f"{path}.count", "a") as count:
            count.write("x")
        content = [
            {"type": "content", "content": {"type": "text", "text": f"wrote {path}"}},
            {"type": "diff", "path": os.path.abspath(path), "oldText": old, "newText": text},
        ]
        self.update("tool_call_update", toolCallId=call, status="completed", content=content)

    def ask(self, call: str) -> Any:
        return self.agent.request(
            "session/request_permission",
            {"sessionId": self.session, "toolCall": {"toolCallId": call}, "options": OPTIONS},
        )

    def do_tool(self) -> str | None:
        call = self.begin("Write hello.txt", "hello.txt")
        return self.after(call, "hello.txt", self.ask(call))

    def do_roses(self) -> str | None:
        call = self.begin("Write roses.txt", "roses.txt")
        return self.after(call, "roses.txt", self.ask(call))

    def after(self, call: str, path: str, asked: Any) -> str | None:
        outcome = self.agent.answer(asked).get("result", {}).get("outcome", {})
        if outcome.get("outcome") == "cancelled":
            self.cancelled.set()
            return "cancelled"
        if outcome["optionId"].startswith("yes"):
            self.write(call, path)
            self.say(f"{outcome['optionId']} ")
        else:
            self.update("tool_call_update", toolCallId=call, status="failed")
            self.say("denied ")
        return None

    def do_two(self) -> str | None:
        calls = [(self.begin(f"Write {name}", name), name) for name in ("one.txt", "two.txt")]
        asked = [self.ask(call) for call, _ in calls]
        for (call, name), each in zip(calls, asked):
            self.after(call, name, each)
        return None

    def do_free(self) -> None:
        self.write(self.begin("Write free.txt", "free.txt"), "free.txt")

    def do_amid(self) -> None:
        call = self.begin("Look", "nowhere")
        self.update("tool_call_update", toolCallId=call, status="in_progress")
        self.say("meanwhile ")
        self.update("tool_call_update", toolCallId=call, status="completed")

    def do_build(self) -> None:
        path = "result.txt"
        self.write(
            self.begin("Write result.txt", path), path, "right\n" if os.path.exists(path) else "wrong\n"
        )

    def do_slow(self) -> None:
        for number in range(20):
            if self.cancelled.wait(STEP):
                return
            self.say(f"{number} ")

    def do_ticks(self) -> None:
        for _ in range(400):
            self.say(f"{time.perf_counter_ns()} ")
            time.sleep(STEP)

    def do_flood(self) -> None:
        for number in range(1000):
            self.say(f"{number} ")

    def do_die(self) -> None:
        self.say("half of ")
        call = self.begin("Write late.txt", "late.txt")
        self.update("tool_call_update", toolCallId=call, status="in_progress")
        sys.stderr.write("the small agent is out of ideas\n")
        sys.stderr.flush()
        os._exit(3)

    def do_bad(self) -> None:
        for line in (b"{", b"\xff\xfe", b"[]", b'{"jsonrpc":"2.0","method":"no/such","params":{}}', b"hello"):
            self.agent.raw(line + b"\n")
        self.agent.raw(b'{"jsonrpc":"2.0","id":"odd","method":"no/such"}\n')
        self.update("no_such_update", value=1)
        self.update("tool_call_update", toolCallId="never-begun", title="Odd", status="completed")

    def do_long(self) -> None:
        with self.agent.lock:
            sys.stdout.buffer.write(b'{"jsonrpc":"2.0","method":"session/update","params":{"x":"')
            for _ in range(100):
                sys.stdout.buffer.write(b"y" * 1024 * 1024)
            sys.stdout.buffer.write(b'"}}\n')
            sys.stdout.buffer.flush()

    def do_files(self) -> None:
        for method in ("fs/read_text_file", "terminal/create", "elicitation/create"):
            params = {"sessionId": self.session, "path": os.path.abspath("secret.txt"), "command": "id"}
            asked = self.agent.request(method, params)
            self.say(f"error {self.agent.answer(asked)['error']['code']} ")

    def do_twice(self) -> None:
        self.agent.send(id=self.request, result={"stopReason": "end_turn"})

    def do_mute(self) -> str:
        os.close(1)
        time.sleep(60)
        return ""

    def do_hang(self) -> None:
        self.say("hanging ")
        self.cancelled.wait()

    def do_stall(self) -> str:
        self.say("stalling ")
        time.sleep(600)
        return ""

    def do_work(self) -> None:
        self.write(self.begin("Write answer.txt", "answer.txt"), "answer.txt", self.text.split()[-1] + "\n")

    def do_refuse(self) -> str:
        return "refusal"

    def do_odd(self) -> str:
        return "budget_exceeded"

    def do_overtime(self) -> str:
        self.agent.turn = None
        self.agent.send(id=self.request, result={"stopReason": "end_turn"})
        self.wait_for("go")
        self.write(self.begin("Write result.txt", "result.txt"), "result.txt", "WRONG\n")
        return ""

    def do_fail(self) -> str:
        self.agent.turn = None
        self.agent.send(id=self.request, error={"code": -32603, "message": "no model answers"})
        return ""

    def do_late(self) -> str:
        self.agent.turn = None
        self.agent.send(id=self.request, result={"stopReason": "end_turn"})
        self.say("by the way")
        return ""

    @staticmethod
    def tried(what: str, path: str) -> str:
        try:
            if what == "write":
                with open(path, "w") as file:
                    file.write("written")
                return f"{path}: written"
            if what == "knock":
                port, _, path = path.partition(":")
                with socket.create_connection(("127.0.0.1", int(port)), 20) as door, open(path, "rb") as file:
                    door.sendall(file.read())
                    came = iter(lambda: door.recv(65536), b"")
                    return f"knock: {b''.join(came).decode()}"
            found = [name for _, _, names in os.walk(path) for name in names]
            return f"reach: {' '.join(found) or 'nothing is there'}"
        except OSError as error:
            return f"{path}: {error.strerror}"

    def do_shell(self) -> None:
        begun = {"toolCallId": "shell", "title": "ls", "kind": "execute", "status": "in_progress"}
        self.update("tool_call", **begun, content=[{"type": "terminal", "terminalId": "t1"}])
        for piece in ("one\n", "two\n"):
            printed = {"terminal_output_delta": {"data": piece, "terminal_id": "t1"}}
            self.update("tool_call_update", toolCallId="shell", _meta=printed)
        self.update("tool_call_update", toolCallId="shell", status="completed")

    def do_pay(self) -> None:
        self.agent.paid += 0.25
        cost = {"amount": self.agent.paid, "currency": "USD"}
        self.update("usage_update", used=5000, size=10_000, cost=cost)

    def do_watched(self) -> None:
        """As Codex does it."""
        begun = {"toolCallId": "watched", "title": "water", "kind": "execute"}
        call = {**begun, "rawInput": {"command": "water"}}
        self.update("tool_call", **call, status="in_progress")
        asked = {"sessionId": self.session, "toolCall": {**call, "status": "pending"}, "options": OPTIONS}
        self.agent.answer(self.agent.request("session/request_permission", asked))
        for piece in ("rose\n", "tulip\n"):
            printed = {"terminal_output_delta": {"data": piece, "terminal_id": "watched"}}
            self.update("tool_call_update", toolCallId="watched", _meta=printed)
        self.wait_for("enough")
        self.update("tool_call_update", toolCallId="watched", status="completed")

    def do_quiet(self) -> None:
        """As Claude Code does it."""
        command = {"title": "sow 3 seeds", "kind": "execute", "rawInput": {"command": "sow 3 seeds"}}
        place = {"content": [{"type": "terminal", "terminalId": "quiet"}]}
        self.update("tool_call", toolCallId="quiet", status="pending", title="Terminal", rawInput={}, **place)
        self.update("tool_call_update", toolCallId="quiet", **command, **place)
        self.wait_for("enough")
        printed = {"terminal_output": {"terminal_id": "quiet", "data": "sown\nall 3"}}
        self.update("tool_call_update", toolCallId="quiet", _meta=printed)
        ended = {"status": "completed", "rawOutput": [{"type": "text", "text": "none of this"}]}
        self.update("tool_call_update", toolCallId="quiet", **ended, **place)

    def do_model(self) -> None:
        self.say(f"model {self.agent.model} ")

    def do_mode(self) -> None:
        self.say(f"mode {self.agent.mode} ")

    def do_recall(self) -> None:
        self.say(f"before: {' | '.join(self.agent.history[:-1])} ")


class Agent:
    """The agent: one session at a time."""

    def __init__(self, *words: str) -> None:
        self.can = words
        self.lock = threading.Lock()
        self.turn: Turn | None = None
        self.mode, self.model = MODES[0], MODELS[0]
        self.paid = 0.0
        self.is_deaf = False
        self.history: list[str] = []
        self.directory = os.environ.get("SMALL_AGENT_DIR", "")
        self._answers: dict[Any, Any] = {}
        self._answered = threading.Condition()
        self._next = 0

    def raw(self, line: bytes) -> None:
        with self.lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, params: dict[str, Any]) -> str:
        self._next += 1
        id = f"r{self._next}"
        self.send(id=id, method=method, params=params)
        return id

    def answer(self, id: str) -> Any:
        with self._answered:
            self._answered.wait_for(lambda: id in self._answers)
            return self._answers.pop(id)

    def note(self, name: str, line: str) -> None:
        if self.directory:
            with open(f"{self.directory}/{name}", "a") as file:
                file.write(line)

    def serve(self) -> None:
        for line in sys.stdin:
            self.note("received", line)
            message = json.loads(line)
            method = message.get("method")
            if method is None:
                with self._answered:
                    self._answers[message.get("id")] = message
                    self._answered.notify_all()
            elif "id" not in message:
                if method == "session/cancel" and self.turn is not None:
                    self.turn.cancelled.set()
            else:
                result = self.asked(method, message["id"], message.get("params", {}))
                if result is not None:
                    self.send(id=message["id"], **result)
                if self.is_deaf:
                    return

    def settings(self) -> dict[str, Any]:
        """Its modes and models: as options, or listed apart, or modes alone."""
        if "options" in self.can:
            return {"configOptions": [option("mode", self.mode, MODES), option("model", self.model, MODELS)]}
        modes = [{"id": mode, "name": mode.title()} for mode in MODES]
        found: dict[str, Any] = {"modes": {"currentModeId": self.mode, "availableModes": modes}}
        if "models" in self.can:
            models = [{"modelId": model, "name": model.title()} for model in MODELS]
            found["models"] = {"currentModelId": self.model, "availableModels": models}
        return found

    def asked(self, method: str, id: Any, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "initialize":
                can = {
                    "loadSession": "load" in self.can,
                    "promptCapabilities": {"image": "image" in self.can},
                }
                if "resume" in self.can:
                    can["sessionCapabilities"] = {"resume": {}}
                return {"result": {"protocolVersion": 1, "agentCapabilities": can}}
            case "session/new":
                if "login" in self.can:
                    return {"error": {"code": -32000, "message": "Authentication required"}}
                if "stuck" in self.can:
                    return None
                return {"result": {"sessionId": f"small-{os.getpid()}", **self.settings()}}
            case "session/load" | "session/resume":
                try:
                    with open(f"{self.directory}/{params['sessionId']}") as file:
                        self.history = [line.rstrip("\n") for line in file]
                except OSError:
                    return {"error": {"code": -32002, "message": "no such session"}}
                if "belated" in self.can:
                    threading.Thread(target=self.repeat, args=(params["sessionId"],), daemon=True).start()
                elif method == "session/load":
                    for text in self.history:
                        self.replay(params["sessionId"], text)
                return {"result": self.settings()}
            case "session/set_mode":
                self.mode = params["modeId"]
                if "greets" in self.can:
                    self.replay(params["sessionId"], "welcome")
                return {"result": {}}
            case "session/set_model":
                self.model = params["modelId"]
                return {"result": {}}
            case "session/set_config_option":
                setattr(self, params["configId"], params["value"])
                return {"result": self.settings()}
            case "session/prompt":
                self.turn = Turn(self, id, params["sessionId"], params["prompt"])
                self.history.append(self.turn.text)
                self.note(params["sessionId"], self.turn.text + "\n")
                self.is_deaf = "deaf" in self.turn.text
                self.turn.start()
                return None
        return {"error": {"code": -32601, "message": "Method not found"}}

    def repeat(self, session: str) -> None:
        """Replay the session after it was loaded, as slowly as it was said."""
        for text in list(self.history):
            time.sleep(STEP)
            self.replay(session, text)

    def replay(self, session: str, text: str) -> None:
        for kind in ("user_message_chunk", "agent_message_chunk"):
            update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
            self.send(method="session/update", params={"sessionId": session, "update": update})


if __name__ == "__main__":
    if "exit" in sys.argv:
        sys.exit("\x1b[91mthe small agent does not \x1b[1mwant\x1b[0m to start")
    if "gibberish" in sys.argv:
        print("Welcome! What can I do for you today?", flush=True)
        time.sleep(600)
    agent = Agent(*sys.argv[1:])
    agent.serve()
    if agent.is_deaf:
        os.close(0)
        time.sleep(600)
