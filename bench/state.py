"""How often the rules are right about recordings of real agents: `make bench-state`.

Makes the recordings that are missing (tools/states), looks at each of them at many moments, and prints for
each agent what was so and what the rules said. Half of the recordings were kept back when the rules were
written: the figures that count are theirs.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

from fairlead.terminal.state import rules
from tools.states.agents import AGENTS
from tools.states.recordings import Recording, all_recordings
from tools.states.replay import Judgement, judge, looks

STATES = ("working", "waits", "idle")
GOAL_RIGHT, GOAL_FALSE, GOAL_DELAY = 0.95, 0.01, 1.0


def judged(recordings: Iterable[Recording]) -> Judgement:
    """What the rules say about all of these."""
    matrix: Counter[tuple[str, str]] = Counter()
    delays: list[float] = []
    unseen = 0
    for each in recordings:
        found = next(known for known in rules.shipped() if known.agent == AGENTS[each.agent].rules)
        one = judge(list(looks(each.path, found)))
        matrix += one.matrix
        delays += one.delays
        unseen += one.unseen
    return Judgement(matrix, delays, unseen)


def print_matrix(title: str, of: Judgement) -> None:
    print(f"{title}: {of.moments} moments")
    print(f"    {'':10}" + "".join(f"{said:>9}" for said in (*STATES, "unknown")))
    for was in STATES:
        print(f"    {was:10}" + "".join(f"{of.matrix[was, said]:9}" for said in (*STATES, "unknown")))


def row(name: str, of: Judgement) -> str:
    """A line of the table of figures."""
    slowest = max(of.delays, default=0.0)
    median = statistics.median(of.delays) if of.delays else 0.0
    dialogs = len(of.delays) + of.unseen
    return (
        f"| {name} | {of.moments} | {of.right:.1%} | {of.false_waits:.2%} | "
        f"{len(of.delays)} of {dialogs} | {median:.2f} s, {slowest:.2f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("agents", nargs="*", default=[])
    parser.add_argument("--known", action="store_true", help="the recordings that rules may be written with")
    parser.add_argument("--no-record", action="store_true", help="only those that are there")
    given = parser.parse_args()
    if not given.no_record:
        subprocess.run([sys.executable, "-m", "tools.states", *given.agents], check=True)
    wanted = [
        each
        for each in all_recordings()
        if each.path.exists()
        and each.is_kept_back is not given.known
        and (not given.agents or each.agent in given.agents)
    ]
    rows, is_good = [], True
    for agent, group in itertools.groupby(wanted, lambda each: AGENTS[each.agent].rules or each.agent):
        of = judged(group)
        print_matrix(agent, of)
        rows.append(row(agent, of))
        is_good &= of.right >= GOAL_RIGHT and of.false_waits <= GOAL_FALSE and not of.unseen
        is_good &= max(of.delays, default=0.0) <= GOAL_DELAY
    print("\n| agent | moments | right | false `waits` | dialogs seen | after (median, slowest) |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows))
    missing = sum(not each.path.exists() for each in all_recordings())
    if missing:
        print(f"\nrecordings that are missing: {missing}")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
