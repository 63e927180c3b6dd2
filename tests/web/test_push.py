"""Web push from a real console to a real service over TLS, which reads what comes with the browser's keys."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosting import Hosting
from tests.web.browser import Answer, Browser, ConsoleHosting, run_as_agent
from tests.web.push_service import Pushed, PushedBrowser, PushService, checked_signature, text_of

SOON = "0.2"
"""[notify] after_seconds in these tests."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PushService]:
    made = PushService(tmp_path)
    yield made
    made.close()


@pytest.fixture
def console(service: PushService) -> Iterator[ConsoleHosting]:
    made = ConsoleHosting(settings={**service.settings, "FAIRLEAD_NOTIFY_AFTER_SECONDS": SOON})
    try:
        yield made
    finally:
        made.close()


def subscribed(browser: Browser, service: PushService, name: str = "laptop") -> PushedBrowser:
    """A browser that subscribed as a page does."""
    key = browser.ask("GET", "/api/push").data["key"]
    made = PushedBrowser()
    given = {**made.subscription(service.endpoint(name)), "key": key}
    assert browser.ask("POST", "/api/push/subscribe", given).data == {"subscribed": True}
    return made


def asked(hosting: Hosting, name: str = "roses", file: str = "notes.txt") -> str:
    """The token of a question that an agent session of this name asks."""
    place = Path(hosting.environment["HOME"], "garden")
    place.mkdir(exist_ok=True)
    before = {each["token"] for each in hosting.ask("approvals")["approvals"]}
    id = hosting.ask("open_session", name=name, cwd=str(place))["session_id"]
    hosting.ask("prompt", message=f"write {file}: water the {name}", session_id=id)

    def new() -> set[str]:
        return {each["token"] for each in hosting.ask("approvals")["approvals"]} - before

    hosting.until(lambda: bool(new()))
    return str(new().pop())


def said(browser: PushedBrowser, pushed: Pushed) -> Any:
    return json.loads(browser.read(pushed.body))


def files(hosting: Hosting) -> Path:
    return Path(hosting.directory, "home/.local/state/fairlead")


def test_a_question_that_nobody_has_seen_is_pushed_and_taken_back_when_it_is_answered(
    console: ConsoleHosting, service: PushService
) -> None:
    owner = console.browser()
    about = owner.ask("GET", "/api/push").data
    assert (about["possible"], about["why"], about["subscribed"]) == (True, None, False)
    browser = subscribed(owner, service)
    assert owner.ask("GET", "/api/push").data["subscribed"] is True
    token = asked(console.hosting)
    (pushed,) = service.wait(1)
    assert pushed.path == "/push/laptop"
    told = said(browser, pushed)
    assert told["tag"] == token
    assert told["go"] == f"#/inbox/{token}"
    assert told["title"].startswith("roses: ")
    assert told["body"] == "~/garden"
    assert "water the roses" not in json.dumps(told)  # what is to be allowed is shown in the page, whole

    headers = pushed.headers
    assert headers["content-encoding"] == "aes128gcm"
    assert headers["urgency"] == "high"
    assert 0 < int(headers["ttl"]) <= 86_400
    assert len(headers["topic"]) == 32
    assert token not in headers["topic"]
    key, claims = checked_signature(headers["authorization"])
    assert text_of(key) == about["key"]
    assert claims["aud"] == f"https://{service.name}"
    assert time.time() < claims["exp"] <= time.time() + 86_400
    assert claims["sub"].startswith("mailto:")
    assert len(service.got) == 1

    assert owner.op("approval_settle", token=token, allowed=False).status == 200
    closing = service.wait(2)[1]
    assert said(browser, closing) == {"closes": token}
    assert closing.headers["topic"] == headers["topic"]  # it replaces the first one if that waits still
    assert len(closing.body) == len(pushed.body)


def test_what_a_person_has_seen_or_answered_in_time_is_not_pushed(service: PushService) -> None:
    settings = {**service.settings, "FAIRLEAD_NOTIFY_AFTER_SECONDS": "3"}
    console = ConsoleHosting(settings=settings)
    try:
        owner = console.browser()
        browser = subscribed(owner, service)
        seen = asked(console.hosting, "seen")
        assert owner.op("approval_seen", token=seen).status == 200
        answered = asked(console.hosting, "answered", "more.txt")
        owner.op("approval_settle", token=answered, allowed=False)
        left = asked(console.hosting, "left", "other.txt")
        (pushed,) = service.wait(1)
        assert said(browser, pushed)["tag"] == left  # the oldest would have come first
        owner.op("approval_settle", token=seen, allowed=False)
        owner.op("approval_settle", token=left, allowed=False)
        assert said(browser, service.wait(2)[1]) == {"closes": left}
    finally:
        console.close()


def test_a_question_is_pushed_once_also_by_the_next_console_which_takes_it_back(
    console: ConsoleHosting, service: PushService
) -> None:
    owner = console.browser()
    browser = subscribed(owner, service)
    token = asked(console.hosting)
    service.wait(1)
    console.hosting.run("web", "--stop")
    more = asked(console.hosting, "hedge", "hedge.txt")
    console.hosting.run("web", "--no-open")
    assert said(browser, service.wait(2)[1])["tag"] == more  # the first one is not pushed again
    console.hosting.run("web", "--stop")
    console.hosting.run("approvals", "deny", token)
    console.hosting.run("web", "--no-open")
    assert said(browser, service.wait(3)[2]) == {"closes": token}
    assert len(service.got) == 3


@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_has_gone_is_forgotten(
    console: ConsoleHosting, service: PushService, status: int
) -> None:
    owner = console.browser()
    subscribed(owner, service)
    service.answers.append((status, {}))
    asked(console.hosting)
    service.wait(1)
    console.hosting.until(lambda: owner.ask("GET", "/api/push").data["subscribed"] is False)
    assert "laptop" not in (files(console.hosting) / "web.push.json").read_text()


def test_a_busy_service_is_asked_again_and_one_that_refuses_is_not(
    console: ConsoleHosting, service: PushService
) -> None:
    owner = console.browser()
    browser = subscribed(owner, service)
    service.answers += [(503, {}), (201, {})]
    token = asked(console.hosting)
    first, second = service.wait(2)
    assert said(browser, first) == said(browser, second)
    assert first.body != second.body  # a new key and salt each time
    service.answers += [(403, {})]
    asked(console.hosting, "hedge", "hedge.txt")
    service.wait(3)
    owner.op("approval_settle", token=token, allowed=False)
    assert said(browser, service.wait(4)[3]) == {"closes": token}


def test_what_was_answered_is_not_tried_again_and_what_never_came_is_not_taken_back(
    console: ConsoleHosting, service: PushService
) -> None:
    owner = console.browser()
    browser = subscribed(owner, service)
    service.answers += [(429, {"Retry-After": "3"})]
    token = asked(console.hosting)
    service.wait(1)
    owner.op("approval_settle", token=token, allowed=False)
    more = asked(console.hosting, "hedge", "hedge.txt")
    assert said(browser, service.wait(2)[1])["tag"] == more
    unwanted = 'fairlead_web_pushes_total{outcome="unwanted"} 1'
    console.hosting.until(lambda: unwanted in owner.ask("GET", "/metrics").body.decode())
    assert len(service.got) == 2


def test_many_questions_at_a_time_are_one_message(service: PushService) -> None:
    settings = {**service.settings, "FAIRLEAD_NOTIFY_AFTER_SECONDS": SOON}
    console = ConsoleHosting(settings=settings)
    try:
        owner = console.browser()
        browser = subscribed(owner, service)
        console.hosting.run("web", "--stop")
        tokens = [asked(console.hosting, f"bed{number}", f"{number}.txt") for number in range(4)]
        last = time.time()
        console.hosting.until(lambda: time.time() > last + 2)  # all of them are due
        console.hosting.run("web", "--no-open")
        (pushed,) = service.wait(1)
        told = said(browser, pushed)
        assert (told["title"], told["go"]) == ("4 questions wait for you", "#/inbox")
        assert told["body"] == "bed0, bed1, bed2, bed3"
        for token in tokens:
            owner.op("approval_settle", token=token, allowed=False)
        more = asked(console.hosting, "later", "later.txt")
        assert said(browser, service.wait(2)[1])["tag"] == more
    finally:
        console.close()


def test_a_share_is_told_of_its_own_session_and_a_watcher_of_nothing(
    console: ConsoleHosting, service: PushService
) -> None:
    hosting = console.hosting
    place = Path(hosting.environment["HOME"], "garden")
    place.mkdir()
    hosting.ask("open_session", name="mine", cwd=str(place))
    guest, id = console.share("mine", "writer")
    watcher, _ = console.share("mine", "watcher")
    refused = watcher.ask("GET", "/api/push").data
    assert refused["possible"] is False
    assert "watcher" in refused["why"]
    given = PushedBrowser().subscription(service.endpoint("watcher"))
    assert watcher.ask("POST", "/api/push/subscribe", given).status == 403
    browser = subscribed(guest, service, "guest")
    owner = console.browser()
    subscribed(owner, service, "owner")
    asked(hosting, "others", "others.txt")
    service.wait(1)
    id_of_mine = guest.ask("GET", "/api/me").data["share"]["session"]
    hosting.ask("prompt", message="write mine.txt: water", session_id=id_of_mine)
    service.wait(3)
    assert sorted(each.path for each in service.got) == ["/push/guest", "/push/owner", "/push/owner"]
    (told,) = [each for each in service.got if each.path == "/push/guest"]
    assert said(browser, told)["title"].startswith("mine: ")
    hosting.run("web", "--revoke", id)
    hosting.until(lambda: "guest" not in (files(hosting) / "web.push.json").read_text())
    token = said(browser, told)["tag"]
    owner.op("approval_settle", token=token, allowed=False)
    assert service.wait(4)[3].path == "/push/owner"


def test_a_subscription_ends_with_its_browser(console: ConsoleHosting, service: PushService) -> None:
    owner, other = console.browser(), console.browser()
    subscribed(owner, service, "leaves")
    subscribed(other, service, "ends")
    third = console.browser()
    browser = subscribed(third, service, "stays")
    assert other.ask("POST", "/api/push/unsubscribe", {}).data == {"subscribed": False}
    assert owner.ask("POST", "/api/leave", {}).status == 200
    token = asked(console.hosting)
    (pushed,) = service.wait(1)
    assert pushed.path == "/push/stays"
    assert said(browser, pushed)["tag"] == token
    console.hosting.until(lambda: "leaves" not in (files(console.hosting) / "web.push.json").read_text())


def test_a_browser_that_comes_in_again_has_one_subscription(
    console: ConsoleHosting, service: PushService
) -> None:
    subscribed(console.browser(), service, "same")
    again = console.browser()
    browser = subscribed(again, service, "same")
    asked(console.hosting)
    (pushed,) = service.wait(1)
    assert said(browser, pushed)  # with the newer keys
    assert (files(console.hosting) / "web.push.json").read_text().count("/push/same") == 1


def test_a_token_or_an_agents_process_subscribes_nothing(
    console: ConsoleHosting, service: PushService
) -> None:
    program = Browser(console.base)
    program.token = console.hosting.run("token", "--scope", "all", "--for", "1h").stdout.strip()
    assert program.op("session_list").status == 200
    about = program.ask("GET", "/api/push").data
    assert (about["possible"], about["key"]) == (False, None)
    given = PushedBrowser().subscription(service.endpoint("program"))
    assert program.ask("POST", "/api/push/subscribe", given).status == 403
    script = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 30)\n"
    script += "s.sendall(b'GET /api/push HTTP/1.1\\r\\n\\r\\n'); print(s.recv(999).decode())"
    assert " 403 " in run_as_agent(console.hosting, script, str(console.port)).stdout


def subscribing(browser: Browser, **more: Any) -> Answer:
    given = PushedBrowser().subscription("https://push.example.org/x")
    return browser.ask("POST", "/api/push/subscribe", {**given, **more})


def test_a_subscription_that_makes_no_sense_is_refused(console: ConsoleHosting, service: PushService) -> None:
    owner = console.browser()
    for endpoint in (
        "http://push.example.org/x",
        "https://127.0.0.1/x",
        "https://localhost:22/x",
        "https://user@push.example.org/x",
        "https://push.example.org:8443/x",
        None,
    ):
        answer = subscribing(owner, endpoint=endpoint)
        assert (answer.status, answer.code) == (400, "request/invalid-params"), endpoint
    bad: list[Any] = [None, [], {}, {"p256dh": 1, "auth": 2}, {"p256dh": "AAAA", "auth": "AAAA"}]
    for keys in bad:
        assert subscribing(owner, keys=keys).status == 400, keys
    assert subscribing(owner, key="AAAA").status == 409
    assert subscribing(owner, endpoint="https://push.example.org/" + "x" * 9000).status == 413
    assert owner.ask("POST", "/api/push/subscribe", {}, Origin="https://evil.example").status == 403
    assert owner.ask("GET", "/api/push").data["subscribed"] is False
    assert subscribing(owner).status == 200


def test_only_so_many_browsers_are_pushed_to(console: ConsoleHosting) -> None:
    from fairlead.web.push_book import PushBook, PushSubscription

    book = PushBook(str(console.hosting.directory / "p.json"), str(console.hosting.directory / "p.key"))
    key = book.public_key()
    for number in range(100):
        book.add(PushSubscription(f"o{number}", f"e{number}", "", "", key, 0.0))
    assert book.is_full_for("another", "e")
    assert not book.is_full_for("o5", "e")
    assert not book.is_full_for("another", "e5")


def test_files_are_ours_alone_and_no_log_has_an_endpoint(
    console: ConsoleHosting, service: PushService
) -> None:
    owner = console.browser()
    subscribed(owner, service, "very-secret")
    service.answers += [(400, {})]
    asked(console.hosting)
    service.wait(1)
    place = files(console.hosting)
    for name in ("web.push.json", "web.push.key"):
        assert stat.S_IMODE(os.stat(place / name).st_mode) == 0o600
    assert owner.cookie.partition("=")[2] not in (place / "web.push.json").read_text()
    console.hosting.until(lambda: "a push was not sent (localhost): it answered 400" in console.log())
    for path in place.rglob("*.log*"):
        text = path.read_text()
        assert "very-secret" not in text
        assert json.loads((place / "web.push.key").read_text())["private"] not in text


def test_a_key_that_others_could_read_or_that_makes_no_sense_is_made_anew_and_its_subscriptions_end(
    console: ConsoleHosting, service: PushService
) -> None:
    owner = console.browser()
    subscribed(owner, service)
    first = owner.ask("GET", "/api/push").data["key"]
    console.hosting.run("web", "--stop")
    key = files(console.hosting) / "web.push.key"
    key.chmod(0o644)
    console.hosting.run("web", "--no-open")
    about = owner.ask("GET", "/api/push").data
    assert about["key"] != first
    assert about["subscribed"] is False
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_quiet_hours_hold_a_push(service: PushService) -> None:
    now = time.localtime()
    start, end = now.tm_hour, (now.tm_hour + 2) % 24
    settings = {
        **service.settings,
        "FAIRLEAD_NOTIFY_AFTER_SECONDS": SOON,
        "FAIRLEAD_NOTIFY_QUIET_HOURS": f"{start}:00-{end}:00",
    }
    console = ConsoleHosting(settings=settings)
    try:
        subscribed(console.browser(), service)
        asked(console.hosting)
        until = time.time() + 3
        console.hosting.until(lambda: time.time() > until)  # it would be there by now
        assert service.got == []
    finally:
        console.close()


def test_a_service_of_ones_own_that_makes_no_sense_is_said_when_the_console_starts() -> None:
    hosting = Hosting({"FAIRLEAD_NOTIFY_PUSH_SERVICE": "https://push.lan"})
    try:
        done = hosting.run("web", "--no-open", check=False)
        assert done.returncode == 1
        assert "FAIRLEAD_NOTIFY_PUSH_SERVICE must be like" in done.stderr
    finally:
        hosting.close()


def memory(pid: int) -> int:
    """The resident bytes of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line)
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_the_library_is_loaded_only_when_somebody_wants_to_be_pushed_to(
    console: ConsoleHosting, service: PushService
) -> None:
    owner = console.browser()
    token = asked(console.hosting)
    owner.op("approval_settle", token=token, allowed=False)
    maps = Path(f"/proc/{console.pid}/maps")
    assert "cryptography" not in maps.read_text()
    assert memory(console.pid) < 60_000_000
    subscribed(owner, service)
    assert "cryptography" in maps.read_text()
