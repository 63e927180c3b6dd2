"""A program for a terminal that works as an agent with hooks: a prompt a line, and the same words as echo
sessions have."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path


def hook(event: str, **more: object) -> str:
    """Tell of a turn; returns why it is sent back, if it is."""
    said = json.dumps({"hook_event_name": event, "session_id": "main", **more})
    words = [sys.executable, "-m", "fairlead", "hook", "other"]
    answer = subprocess.run(words, input=said, text=True, stdout=subprocess.PIPE, check=True).stdout
    return str(json.loads(answer)["reason"]) if answer else ""


def work(text: str) -> None:
    word, _, rest = text.partition(" ")
    match word:
        case "work":
            Path("answer.txt").write_text(f"{rest}\n")
            print(f"the answer is {rest}", flush=True)
        case "hang":
            print("working", flush=True)
            time.sleep(600)
        case _:
            print(f"you said {text}", flush=True)


print("ready", flush=True)
while text := input("> ").strip():
    hook("UserPromptSubmit", prompt=text)
    work(text)
    while reason := hook("Stop"):
        print(f"{reason}\nI will not change it", flush=True)
