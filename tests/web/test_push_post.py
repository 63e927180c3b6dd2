"""What the console connects to for web push, whose addresses come from browsers: the attacks of the table in
docs/security.md."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.web import limits, push_post
from fairlead.web.push_post import BadEndpoint, Endpoint, NotSent, PushReply, endpoint_of, is_public, post
from tests.hosting import WAIT
from tests.web.push_service import PushService


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PushService]:
    made = PushService(tmp_path)
    yield made
    made.close()


def sent(service: PushService, endpoint: Endpoint, body: bytes = b"sealed") -> PushReply:
    context = ssl.create_default_context(cafile=str(service.authority))
    return asyncio.run(post(endpoint, context, {"TTL": "60"}, body))


def own(service: PushService, name: str = "x") -> Endpoint:
    return endpoint_of(service.endpoint(name), service.name)


@pytest.mark.parametrize(
    "url",
    [
        "http://push.example.org/x",
        "ftp://push.example.org/x",
        "push.example.org/x",
        "//push.example.org/x",
        "file:///etc/passwd",
        "",
        None,
        17,
        ["https://push.example.org/x"],
        "https://push.example.org/x" + "y" * 2048,
        "https:///x",
        "https://push.example.org:99999/x",
    ],
)
def test_an_endpoint_is_an_https_address(url: object) -> None:
    with pytest.raises(BadEndpoint):
        endpoint_of(url)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "192.168.0.1",
        "8.8.8.8",
        "[::1]",
        "[fd00::1]",
        "[::ffff:127.0.0.1]",
        "[2606:4700::1111]",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0",
        "localhost",
        "router",
        "localhost.",
        "push.example.org.",
        "push..example.org",
        "-push.example.org",
        "push_1.example.org",
        "pu%73h.example.org",
        "１２７.0.0.1",
        "push.example.1",
        "a." * 130 + "org",
    ],
)
def test_an_endpoint_is_at_a_public_name_and_not_at_a_number(host: str) -> None:
    with pytest.raises(BadEndpoint):
        endpoint_of(f"https://{host}/x")


@pytest.mark.parametrize("more", ["user@", "user:word@", "push.example.org@", ":@"])
def test_an_endpoint_has_no_user(more: str) -> None:
    with pytest.raises(BadEndpoint):
        endpoint_of(f"https://{more}push.example.org/x")


@pytest.mark.parametrize("port", [1, 22, 80, 444, 7433, 8443])
def test_an_endpoint_is_at_the_port_of_https(port: int) -> None:
    with pytest.raises(BadEndpoint, match="port 443"):
        endpoint_of(f"https://push.example.org:{port}/x")
    assert endpoint_of("https://push.example.org:443/x").port == 443


@pytest.mark.parametrize(
    "url",
    [
        "https://push.example.org/x\r\nX-More: 1",
        "https://push.example.org/x y",
        "https://push.example.org/\t",
        "https://push.example.org/é",
        "https://push.example.org\\@evil.example/x",
        "https://push.example.org/x#y",
    ],
)
def test_an_endpoint_can_not_change_the_request(url: str) -> None:
    with pytest.raises(BadEndpoint):
        endpoint_of(url)


def test_what_services_give_is_an_endpoint() -> None:
    for url in (
        "https://fcm.googleapis.com/fcm/send/abc:APA91-_x",
        "https://updates.push.services.mozilla.com/wpush/v2/gAAA=",
        "https://web.push.apple.com/QGuQ?x=1",
        "https://wns2-par02p.notify.windows.com/w/?token=BQYA%2b",
    ):
        found = endpoint_of(url)
        assert url.startswith(found.audience)
        assert found.target == url.removeprefix(found.audience)


def test_an_error_does_not_have_the_endpoint_in_it() -> None:
    with pytest.raises(BadEndpoint) as refused:
        endpoint_of("https://secret-token.example.org:1/secret-token")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1", "192.0.0.8"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "2002:c0a8:101::", "64:ff9b::7f00:1"),
        *("64:ff9b::a9fe:a9fe", "2001:0:1:2:3:4:5:6", "::7f00:1", "fec0::1", "64:ff9b:1::1", "nonsense", ""),
    ],
)
def test_an_address_that_is_not_public_is_known(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_an_address_that_is_public_is_known(address: str) -> None:
    assert is_public(address)


@contextmanager
def named(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> Iterator[list[str]]:
    """Names have these addresses; returns which were asked for."""
    asked: list[str] = []

    def found(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", found)
        yield asked


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("8.8.8.8", "127.0.0.1"), ("10.0.0.1",), ()])
def test_a_public_name_that_leads_home_is_not_connected_to(
    service: PushService, monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    endpoint = Endpoint("push.example.org", service.port, "/x")
    with named(monkeypatch, *addresses) as asked, pytest.raises(NotSent, match=r"public|no address"):
        sent(service, endpoint)
    assert asked == ["push.example.org"]
    assert service.got == []


def test_a_name_is_looked_at_again_each_time_and_not_asked_twice_for_one_message(
    service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = own(service)
    with named(monkeypatch, "127.0.0.1") as asked:
        assert sent(service, endpoint).status == 201
        assert asked == ["localhost"]  # connecting took the address that was looked at
    with named(monkeypatch, "127.0.0.1"), pytest.raises(NotSent):
        sent(service, endpoint._replace(is_own=False))


def test_only_the_service_of_ones_own_may_be_private(service: PushService) -> None:
    assert sent(service, own(service)).status == 201
    with pytest.raises(BadEndpoint):
        endpoint_of(service.endpoint(), "")
    with pytest.raises(BadEndpoint):
        endpoint_of(service.endpoint(), f"localhost:{service.port + 1}")
    for text in ("localhost", "localhost:0", "localhost:70000", "https://localhost:1", "a b:1", "-a:1"):
        with pytest.raises(ValueError, match=r"^\[notify\] push_service must be like"):
            push_post.own_service(text)
    assert push_post.own_service("none") == ""
    assert push_post.own_service("Push.lan:8443") == "push.lan:8443"


def test_a_service_needs_a_certificate_of_its_name(service: PushService) -> None:
    with pytest.raises(NotSent, match="TLS"):
        asyncio.run(post(own(service), ssl.create_default_context(), {}, b""))
    other = own(service)._replace(host="push.localhost")
    with pytest.raises(NotSent):
        sent(service, other)
    assert service.got == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(service: PushService, status: int) -> None:
    service.answers.append((status, {"Location": service.endpoint("elsewhere")}))
    assert sent(service, own(service)).status == status
    assert [each.path for each in service.got] == ["/push/x"]


@contextmanager
def talking(tmp_path: Path, talk: Callable[[ssl.SSLSocket], None]) -> Iterator[PushService]:
    """A service that says what it likes after it was asked."""
    service = PushService(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(service.authority, tmp_path / "key.pem")
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(WAIT)

    def serve() -> None:
        with listening.accept()[0] as plain:
            try:
                with context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(65536)
                    talk(connection)
            except OSError:
                pass  # whoever asked has gone

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    service.name = f"localhost:{listening.getsockname()[1]}"
    try:
        yield service
    finally:
        service.close()
        listening.close()
        thread.join(WAIT)


def test_an_answer_is_read_up_to_a_limit(tmp_path: Path) -> None:
    written = 0

    def flood(connection: ssl.SSLSocket) -> None:
        nonlocal written
        connection.sendall(b"HTTP/1.1 201 Created\r\n")
        while written < 64 * 1024 * 1024:
            connection.sendall(b"X-More: " + b"y" * 8000 + b"\r\n")
            written += 8000

    with talking(tmp_path, flood) as service, pytest.raises(NotSent):
        sent(service, own(service))
    assert written < 32 * 1024 * 1024


def test_the_body_of_an_answer_is_not_waited_for(tmp_path: Path) -> None:
    gone = threading.Event()

    def drip(connection: ssl.SSLSocket) -> None:
        connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            connection.recv(1)
        finally:
            gone.set()

    with talking(tmp_path, drip) as service:
        assert sent(service, own(service)).status == 201
        assert gone.wait(WAIT)


def test_a_service_that_says_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PUSH_SECONDS", 0.5)

    def wait(connection: ssl.SSLSocket) -> None:
        connection.recv(1)

    with talking(tmp_path, wait) as service, pytest.raises(NotSent, match="did not answer within"):
        sent(service, own(service))


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 999 x\r\n\r\n", b"HTTP/1.1 100 Go\r\n\r\n" * 9, b"HTTP/1.1 201"],
)
def test_what_is_no_answer_is_none(tmp_path: Path, answer: bytes) -> None:
    with talking(tmp_path, lambda connection: connection.sendall(answer)) as service, pytest.raises(NotSent):
        sent(service, own(service))


def test_answers_before_the_answer_are_skipped_and_a_service_says_when_to_come_back(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 429 Too Many\r\nretry-after:  17 \r\n\r\n"
    with talking(tmp_path, lambda connection: connection.sendall(answer)) as service:
        assert sent(service, own(service)) == (429, 17.0)
