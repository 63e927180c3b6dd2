"""The fuzzing targets hold for their seeds and for a few hundred mutations of them, always the same ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from fuzz.mutation import MAX_LENGTH, mutated
from fuzz.seeds import seeds, words
from fuzz.targets import TARGETS

ROOT = Path(__file__).parent.parent
MUTATIONS = 300
WAIT = 120.0
"""Seconds until a program that hangs fails its test."""


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_holds_for_its_seeds(target: str) -> None:
    for data in seeds(target):
        TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_holds_for_mutations_of_its_seeds(target: str) -> None:
    chance, corpus, dictionary = Random(target), seeds(target), words(target)
    for _ in range(MUTATIONS):
        data = mutated(chance, corpus, dictionary)
        assert len(data) <= MAX_LENGTH
        TARGETS[target](data)


def test_an_input_is_replayed_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"{:a 1}")
    done = run("edn", "--replay", str(tmp_path / "input"))
    assert (done.stdout, done.returncode) == ("", 0)


def test_fuzzing_without_atheris_says_how_much_it_tried() -> None:
    done = run("keepty", "--plain", "--seed", "1")
    assert done.returncode == 0, done.stdout
    first, line = done.stdout.splitlines()
    assert first == "plain mutations, without atheris"
    assert line.split()[0] == "keepty"
    assert int(line.split()[1]) > 0
    assert line.endswith("ok")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "fuzz" / "run.py", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
        env={"FUZZ_SECONDS": "1"},
    )
