"""Headers that say where a request comes from, and how long it is: each once, and looked at on every path."""

from __future__ import annotations

import socket

import pytest

from tests.hosting import WAIT
from tests.web.browser import Browser


def status(
    browser: Browser, *lines: str, method: str = "POST", path: str = "/api/ops/ping", body: str = "{}"
) -> bytes:
    """The status of a request with just these headers, and ours."""
    ours = (f"Host: {browser.host}", f"Cookie: {browser.cookie}", "Content-Type: application/json")
    head = "\r\n".join((f"{method} {path} HTTP/1.1", *ours, *lines))
    with socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT) as connection:
        connection.sendall(f"{head}\r\n\r\n{body}".encode())
        return connection.recv(4096).split()[1]


def test_a_header_that_counts_is_given_once(browser: Browser) -> None:
    ours, other = f"Origin: {browser.base}", "Origin: https://evil.example"
    length = "Content-Length: 2"
    assert status(browser, ours, length) == b"200"
    for twice in ((ours, other), (other, ours), (ours, ours)):
        assert status(browser, *twice, length) == b"400", twice
    for name in ("Sec-Fetch-Site: same-origin", "Authorization: Bearer x", "Sec-Fetch-Mode: cors"):
        assert status(browser, ours, length, name, name) == b"400", name
    assert status(browser, ours, length, "Content-Type: text/plain") == b"400"


def test_a_length_beside_chunks_is_refused(browser: Browser) -> None:
    chunks, ours = "Transfer-Encoding: chunked", f"Origin: {browser.base}"
    body = "2\r\n{}\r\n0\r\n\r\n"
    assert status(browser, ours, chunks, body=body) == b"200"
    for lines in ((chunks, "Content-Length: 2"), ("Content-Length: 2", chunks)):
        assert status(browser, ours, *lines, body=body) == b"400"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_only_link_to_our_pages(browser: Browser, site: str) -> None:
    for path in ("/metrics", "/healthz", "/api/openapi.json", "/api/me"):
        for mode in ("no-cors", "navigate"):
            answer = browser.ask("GET", path, Sec_Fetch_Site=site, Sec_Fetch_Mode=mode)
            assert (answer.status, answer.code) == (403, "web/origin"), (path, mode)
        assert browser.ask("GET", path, Sec_Fetch_Site="same-origin").status == 200, path
        assert browser.ask("GET", path, Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate").status == 200
    for path in ("/", "/in"):
        assert browser.ask("GET", path, Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate").status == 200
        assert browser.ask("GET", path, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403
