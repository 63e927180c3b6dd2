"""How a machine comes into a fleet and out of it, and what is said when it can't."""

from __future__ import annotations

from tests.fleet.fleets import Fleet
from tests.fleet.machines import Machine


def test_a_host_whose_fleet_process_died_is_away_and_used_again_when_it_is_back(fleet: Fleet) -> None:
    seen, asks = Machine(fleet, "seen"), Machine(fleet, "asks")
    try:
        for machine in (seen, asks):
            machine.run("ls")
            machine.join()
        asks.wait_for("seen")
        asks.until(lambda: _state(asks, "seen") == "here")
        seen.kill_fleet()
        refused = asks.run("-H", "seen", "ls", check=False)
        assert refused.returncode != 0
        assert "seen is away: " in refused.stderr
        assert "makes no sense" not in refused.stderr
        assert asks.sees("seen", "away")  # at once, not a minute later
        asks.until(lambda: _state(asks, "seen") == "away")
        seen.run("fleet", "join")
        asks.until(lambda: _state(asks, "seen") == "here")
        assert asks.run("-H", "seen", "ls").returncode == 0
    finally:
        seen.close()
        asks.close()


def _state(machine: Machine, host: str) -> str:
    """What the daemon's link to a host says of it."""
    rows = machine.ask("host_list")["hosts"]
    return next((str(row["state"]) for row in rows if row["name"] == host), "")
