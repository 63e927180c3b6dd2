"""`--on`: which host is chosen, and why, and what is said if none fits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.client.hosts.placing import HostPlace, NoPlace, WantedPlace, choose
from tests.hosts.far_host import FarHost, NearHost

IDLE = HostPlace("local", processors=4)
GPU = HostPlace("gpu", labels=("gpu", "big"), capacity=4, processors=4, latency=0.02)


@pytest.fixture(scope="module")
def labelled() -> Iterator[tuple[NearHost, FarHost]]:
    """Two hosts, of which the far one has a label and one place."""
    far = FarHost({"FAIRLEAD_FLEET_LABELS": "gpu, big", "FAIRLEAD_FLEET_CAPACITY": "1"})
    try:
        near = NearHost()
        try:
            near.add("workbox", far)
            yield near, far
        finally:
            near.close()
    finally:
        far.close()


@pytest.mark.parametrize(
    ("places", "wanted", "name"),
    [
        ((IDLE, GPU), "any", "local"),
        ((IDLE._replace(working=3), GPU), "any", "gpu"),
        ((IDLE._replace(load=3.0), GPU), "any", "gpu"),
        ((IDLE, GPU), "label=gpu", "gpu"),
        ((IDLE, GPU), "label=big,gpu", "gpu"),
        ((IDLE, GPU._replace(working=3)), "gpu", "gpu"),
        ((GPU, GPU._replace(name="near", latency=0.001)), "any", "near"),
        ((GPU._replace(working=2), GPU._replace(name="small", capacity=8, working=3)), "any", "small"),
    ],
)
def test_the_host_with_the_most_room_is_chosen(places: tuple[HostPlace, ...], wanted: str, name: str) -> None:
    assert choose(places, WantedPlace.read(wanted)).name == name


def test_if_none_fits_it_says_what_each_lacks() -> None:
    places = (
        IDLE,
        GPU._replace(working=4),
        HostPlace("roses", state="away", why="no route"),
        *(HostPlace(f"n{number}") for number in range(20)),
    )
    with pytest.raises(NoPlace) as error:
        choose(places, WantedPlace.read("label=gpu"))
    said = str(error.value)
    assert "local has no label gpu; gpu is full: 4 of 4 places are taken; roses is away (no route)" in said
    assert said.endswith("and 15 more")


def test_a_host_of_a_name_that_there_is_not_is_named() -> None:
    with pytest.raises(NoPlace, match="no host 'tulips'"):
        choose((IDLE, GPU), WantedPlace.read("tulips"))


@pytest.mark.parametrize("word", ["", "label=", "label=Gpu", "label=a,,b", "-x", "a b", f"label={'x' * 33}"])
def test_what_names_no_place_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="has up to"):
        WantedPlace.read(word)


def test_a_program_starts_on_the_host_with_the_label(labelled: tuple[NearHost, FarHost]) -> None:
    near, far = labelled
    done = near.run("start", "work", "-d", "--on", "label=gpu", "--", "sh", "-c", "echo afar; exec cat")
    assert "on workbox: 1 of 1 places free" in done.stderr
    assert "work" in far.sessions()
    assert "work" not in near.sessions()
    near.run("stop", "workbox:work")


def test_what_no_host_has_is_refused_with_what_each_lacks(labelled: tuple[NearHost, FarHost]) -> None:
    near, _ = labelled
    done = near.run("start", "work", "-d", "--on=label=tpu", "--", "cat", check=False)
    assert done.returncode == 1
    assert "local has no label tpu; workbox has no label tpu" in done.stderr
    done = near.run("-H", "workbox", "start", "work", "-d", "--on", "any", "--", "cat", check=False)
    assert done.returncode == 2
    assert "workbox is given already" in done.stderr
