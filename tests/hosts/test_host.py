"""`fairlead host`, and names with a host before them."""

from __future__ import annotations

import json

import pytest

from tests.hosts.far_host import FarHost, NearHost


def test_a_host_is_listed_with_how_it_is(near: NearHost, far: FarHost) -> None:
    [row] = json.loads(near.run("host", "ls", "--json").stdout)
    assert (row["name"], row["state"], row["destination"]) == ("workbox", "up", "workbox")
    assert row["version"]
    assert row["latency"] < 30


def test_a_session_there_is_named_with_its_host(near: NearHost, far: FarHost) -> None:
    far.start("work", "echo hello from afar; exec cat")
    far.wait_text("work", "afar")
    assert "hello from afar" in near.run("screen", "workbox:work").stdout
    near.run("send", "workbox:work", "said here", "-k", "Enter")
    near.run("wait", "workbox:work", "--text", "said here", "--timeout", "20")
    assert near.run("ls", "-q", "workbox:work").stdout == "work\n"
    assert near.run("-H", "workbox", "ls", "-q").stdout == "work\n"
    near.run("stop", "workbox:work")
    assert "work" not in far.sessions()


def test_names_of_several_hosts_are_done_host_by_host(near: NearHost, far: FarHost) -> None:
    far.start("a", "exec cat")
    near.start("b", "exec cat")
    assert near.run("ls", "-q", "workbox:a", "b").stdout == "a\nb\n"
    assert near.run("ls", "-q", "b", "workbox:nix", "workbox:a", check=False).returncode == 1
    near.run("stop", "b", "workbox:a")
    assert "a" not in far.sessions()
    assert "b" not in near.sessions()


@pytest.mark.parametrize("words", [("diff", "workbox:a", "b"), ("ls", "--json", "workbox:a", "b")])
def test_what_can_be_of_one_host_only_says_so(near: NearHost, words: tuple[str, ...]) -> None:
    done = near.run(*words, check=False)
    assert done.returncode == 2
    assert "of workbox and local" in done.stderr


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=touch /tmp/x", "a b", "Work", "a:b", "local", "", "../x", "a/b", "x" * 65, "ä"]
)
def test_what_is_no_name_of_a_host_is_refused(near: NearHost, name: str) -> None:
    done = near.run("host", "add", "--no-check", "--", name, "somewhere", check=False)
    assert done.returncode == 2, done.stderr


@pytest.mark.parametrize("destination", ["-oProxyCommand=x", "-G", "a b", "$(id)", "a;b", "", "`id`", "a\nb"])
def test_what_ssh_could_take_for_more_than_a_destination_is_refused(near: NearHost, destination: str) -> None:
    done = near.run("host", "add", "--no-check", "--", "other", destination, check=False)
    assert done.returncode == 2, done.stderr
    assert "other" not in near.run("host", "ls").stdout


def test_a_host_that_there_is_not_is_one_clear_error(near: NearHost) -> None:
    done = near.run("-H", "nohost", "ls", check=False)
    assert done.returncode == 1
    assert "no host 'nohost'" in done.stderr


def test_of_a_host_that_was_never_reached_nothing_is_said_to_run_on(near: NearHost) -> None:
    near.run("host", "add", "--no-check", "nowhere", "nowhere.invalid")
    assert near.run("host", "rm", "nowhere").stderr == "nowhere is removed\n"
