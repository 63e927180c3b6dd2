"""Verified turns: what a turn costs besides its check, and a thousand kept reports: `make bench-verify`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from agent import Client, row, timed
from multiplexers import Fairlead, command_of

from fairlead.daemon.checkers import CheckerEnvironment, CommandChecker, Target
from fairlead.verify.checks.command import Commands
from fairlead.verify.follow import TurnFollower
from fairlead.verify.report import Confidence, Report, Status
from fairlead.verify.store import ReportStore
from fairlead.wire import rpc

TURNS = 20
FILES = 200
REPORTS = 1000


def project(directory: Path) -> Path:
    """A repository of some size."""
    place = directory / "project"
    place.mkdir()
    for number in range(FILES):
        (place / f"file{number}.py").write_text(f"value = {number}\n" * 50)
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "b"],
    ):
        subprocess.run(["git", *words], cwd=place, check=True, capture_output=True)
    return place


async def overhead(contender: Fairlead, place: Path) -> list[float]:
    """Seconds from the end of a turn to its report, less what the check itself took."""
    client = Client(contender.settings.rpc_path)
    told = await asyncio.to_thread(lambda: client.ask("open_session", name="bench", cwd=str(place)).data)
    target_of = await asyncio.to_thread(lambda: client.ask("verify_target", name="bench").data)
    del told
    plain = {key.name: value for key, value in target_of.items()}
    target = Target(plain["session-id"], plain["socket"], plain["project"], plain["file"])
    environment = CheckerEnvironment(contender.settings)
    checker = CommandChecker(Commands(commands=("test -d .",)), target, environment)
    follower = TurnFollower(target.socket, target.session_id, checker.check, began=checker.began)
    topics = ["session/turn-ended", "verify/report"]
    await asyncio.to_thread(lambda: client.ask("subscribe", topics=topics))
    ran: list[float] = []

    async def judge() -> None:
        async for judged in follower.judgements():
            ran.append(sum(each.seconds for each in judged.report.commands))

    judging = asyncio.create_task(judge())
    await follower.is_settled.wait()
    taken = []
    for _ in range(TURNS):
        taken.append(await asyncio.to_thread(_turn, client))
    await asyncio.sleep(0.2)
    judging.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await judging
    return [whole - check for whole, check in zip(taken, ran)]


def _turn(client: Client) -> float:
    client.ask("prompt", message="help")
    client.until(lambda item: isinstance(item, rpc.Event) and item.topic == "session/turn-ended")
    ended = time.perf_counter()
    client.until(lambda item: isinstance(item, rpc.Event) and item.topic == "verify/report")
    return time.perf_counter() - ended


def reports(contender: Fairlead) -> bool:
    with ReportStore(contender.settings.reports_path) as store:
        for number in range(REPORTS):
            report = Report(
                status=Status.VERIFIED,
                confidence=list(Confidence)[number % 5],
                summary=f"report {number}",
                turn=number,
                session_id=f"s{number % 20}",
            )
            store.add(report)
    listed = statistics.median(timed(command_of("reports", "-n", str(REPORTS)), contender) for _ in range(9))
    return row(f"`fairlead reports` of {REPORTS}", f"{listed * 1e3:.0f} ms", listed <= 0.3)


def main() -> int:
    contender = Fairlead()
    try:
        with contender.connect():
            place = project(contender.directory)
            print(f"\nturns in a repository of {FILES} files, checked by `true`")
            taken = asyncio.run(overhead(contender, place))
            median = statistics.median(taken)
            met = row(
                "from a turn's end to its report, without the check", f"{median * 1e3:.0f} ms", median <= 0.05
            )
            met &= reports(contender)
    finally:
        contender.close()
    return 0 if met else 1


if __name__ == "__main__":
    os.environ.pop("GIT_DIR", None)
    sys.exit(main())
