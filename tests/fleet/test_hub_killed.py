"""The fleet's server dies while things happen on two machines; after its return everything is there once."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from fairlead.client.calls import RequestError
from tests.fleet.asking import AskedPerson
from tests.fleet.fleets import Fleet
from tests.fleet.machines import Machine
from tests.hosting import Hosting


@pytest.fixture
def hub() -> Iterator[Fleet]:
    """A fleet of the test's own."""
    hosting = Hosting()
    try:
        fleet = Fleet(hosting)
        try:
            fleet.serve()
            yield fleet
        finally:
            fleet.close()
    finally:
        hosting.close()


def sent(machine: Machine) -> bool:
    status = machine.status()
    return bool(status["connected"]) and status["waiting"] == 0


def test_events_and_answers_count_once_and_in_order_though_the_hub_is_killed(hub: Fleet) -> None:
    machines = [Machine(hub, name) for name in ("alpha", "beta")]
    alpha, beta = machines
    questions: list[AskedPerson] = []
    try:
        for machine in machines:
            machine.start("work", "exec cat")
            machine.join("--leaf", url=hub.leaf_url) if machine is beta else machine.join()
        alpha.wait_for("beta")
        beta.wait_for("alpha")
        before = AskedPerson(beta, "0000000000000001")
        questions.append(before)
        stopped = threading.Event()

        def keep_busy() -> None:  # so that something is on its way when the server dies
            while not stopped.is_set():
                for machine in machines:
                    machine.ask("terminal_send", name="work", text="x", keys=["Enter"])
                    machine.start("busy", "exit 0")

        busy = threading.Thread(target=keep_busy)
        busy.start()
        try:
            alpha.until(lambda: alpha.status()["sent"] > 3)
            hub.stop(signal.SIGKILL)
            alpha.until(lambda: not alpha.status()["connected"])
            beta.until(lambda: bool(beta.status()["waiting"]))
        finally:
            stopped.set()
            busy.join()
        with pytest.raises((RequestError, ConnectionError)):
            alpha.asked_there("beta", "approval_settle", token=before.token, allowed=True, option="1")
        for number, machine in enumerate(machines):  # both go on
            asked = AskedPerson(machine, f"000000000000001{number}")
            questions.append(asked)
            machine.run("approvals", "answer", asked.token, "red")
            asked.settle()
            assert asked.answer["text"] == "red"
            assert "cat" in machine.run("ls").stdout
        assert before.is_open
        hub.serve()
        for machine in machines:
            machine.until(lambda machine=machine: sent(machine))  # type: ignore[misc]
        alpha.until(lambda: alpha.sees("beta"))
        alpha.run("approvals", "answer", f"beta:{before.token}", "blue")
        before.settle()
        assert before.answer["by"] == "a person on alpha"
        beta.until(
            lambda: any(
                each.get("data", {}).get("token") == before.token and each["topic"] == "questions/answered"
                for each in alpha.feed()
            )
        )

        events = alpha.feed()
        assert [each["seq"] for each in events] == sorted({each["seq"] for each in events})
        assert not [each for each in events if each["topic"] == "fleet/reset"]
        for name in ("alpha", "beta"):
            numbers = [each["number"] for each in events if each["host"] == name]
            assert numbers == list(range(1, len(numbers) + 1))
        told = Counter(
            (each["topic"], each["data"]["token"])
            for each in events
            if each["topic"].startswith("questions/")
        )
        assert told == Counter(
            {
                (topic, each.token): 1
                for topic in ("questions/opened", "questions/answered")
                for each in questions
            }
        )
        middle = events[len(events) // 2]["seq"]
        assert alpha.feed(middle) == [each for each in events if each["seq"] > middle]
    finally:
        for question in questions:
            question.settle()
        for machine in machines:
            machine.close()


def test_an_attached_terminal_goes_on_when_the_hub_is_back(hub: Fleet) -> None:
    from fairlead.client.sdk import Host

    alpha, beta = Machine(hub, "alpha"), Machine(hub, "beta")
    try:
        beta.start("shell", "exec cat")
        alpha.join()
        beta.join()
        alpha.wait_for("beta")
        with Host(alpha.far("beta")) as host, host.terminal("shell").attach() as view:
            view.write(b"tulips\r")
            said = b""
            while said.count(b"tulips") < 2:
                said += view.read(timeout=30)
            hub.stop(signal.SIGKILL)
            hub.serve()
            beta.wait_text("shell", "tulips")
            said = b""
            while b"tulips" not in said:
                said += view.read(timeout=30)
    finally:
        alpha.close()
        beta.close()
