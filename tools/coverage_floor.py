"""Refuse a test run that leaves too much of a room untested.

Reads the coverage data of the last `pytest --cov`. Lines and branches must each reach the floor in each
room; a total over all rooms would let a well tested room hide another.
"""

import json
import sys
import tempfile
from pathlib import Path

from coverage import Coverage

FLOOR_PERCENT = 90
ROOMS = ("formats", "wire")


def main() -> int:
    coverage = Coverage()
    coverage.load()
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        for room in ROOMS:
            report = Path(directory, f"{room}.json")
            coverage.json_report(include=[f"*/fairlead/{room}/*"], outfile=str(report))
            totals = json.loads(report.read_text())["totals"]
            for what, covered, count in (
                ("lines", totals["covered_lines"], totals["num_statements"]),
                ("branches", totals["covered_branches"], totals["num_branches"]),
            ):
                percent = 100 * covered / count if count else 100.0
                enough = percent >= FLOOR_PERCENT
                failed |= not enough
                verdict = "" if enough else f", less than the floor of {FLOOR_PERCENT} %"
                print(f"coverage of {room}: {covered} of {count} {what}, {percent:.1f} %{verdict}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
