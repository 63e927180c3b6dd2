"""How a machine comes into a fleet and out of it, and what is said when it can't."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from fairlead.fleet import subjects
from fairlead.fleet.signing import ROW, SEAL_HEADER, seal
from tests.fleet.fleets import Fleet, free_port
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


def test_a_join_that_does_not_come_to_pass_says_why_and_leaves_the_machine_as_it_was(fleet: Fleet) -> None:
    machine = Machine(fleet, "stays")
    try:
        fleet.creds_path("machine", "gone")
        fleet.run("revoke", "gone")
        own, gone = fleet.creds_path("machine", "stays"), fleet.creds_path("machine", "gone")
        nowhere = f"tls://127.0.0.1:{free_port()}"
        for url, words, why in (
            (fleet.url, ("--creds", own), "--ca ca.pem"),
            (fleet.url, ("--creds", gone, "--ca", fleet.ca), "revoked"),
            (nowhere, ("--creds", own, "--ca", fleet.ca), nowhere),
            (fleet.url, ("--creds", own, "--ca", fleet.ca, "--leaf"), "leaf"),
            (fleet.leaf_url, ("--creds", gone, "--ca", fleet.ca, "--leaf"), "revoked"),
        ):
            refused = machine.run("fleet", "join", url, *words, check=False)
            assert refused.returncode == 1, refused.stdout
            assert "not joined: " in refused.stderr
            assert why in refused.stderr
            assert "_ssl.c" not in refused.stderr
            assert "503" not in refused.stderr
            assert "belongs to no fleet" in machine.run("fleet", "join", check=False).stderr
        machine.join()
        refused = machine.run("fleet", "join", fleet.url, "--creds", gone, "--ca", fleet.ca, check=False)
        assert "belongs to its fleet as before" in refused.stderr
        machine.until(lambda: machine.status()["connected"] is True)
        assert machine.status()["name"] == "stays"
    finally:
        machine.close()


def test_of_two_machines_with_one_credential_only_the_first_is_in_the_fleet(fleet: Fleet) -> None:
    first, second = Machine(fleet, "twin"), Machine(fleet, "twin")
    try:
        first.join()
        path = fleet.creds_path("machine", "twin")
        refused = second.run("fleet", "join", fleet.url, "--creds", path, "--ca", fleet.ca, check=False)
        assert refused.returncode == 1
        assert "not joined: twin has joined already, from " in refused.stderr
        assert first.status()["connected"]
        first.run("fleet", "leave")
        second.join()
        asyncio.run(_say_row(fleet, is_signed=False, began=0.5, place="there", hostname="nowhere"))
        asyncio.run(_say_row(fleet, began=1.0, place="there", hostname="elsewhere"))  # at the same time
        second.until(lambda: "twin has joined already, from elsewhere" in second.fleet_log())
        second.until(lambda: second.status()["connected"])
        assert "nowhere" not in second.fleet_log()
    finally:
        first.close()
        second.close()


async def _say_row(fleet: Fleet, *, is_signed: bool = True, **more: Any) -> None:
    """Say a row as the machine `twin`, from another place."""
    row = json.dumps({"name": "twin", "version": "1.0", "at": time.time(), **more}).encode()
    own = fleet.creds("machine", "twin")
    signed = {SEAL_HEADER: seal(own, ROW, repr(time.time()), row)}
    async with fleet.client(own) as heard:
        await heard.nats.publish(subjects.row("twin"), row, headers=signed if is_signed else None)
        await heard.nats.flush()
