"""What is made from other files is what its script makes of them now."""

from __future__ import annotations

from tools import make_api, make_sdk


def test_the_sdk_is_made_from_that_for_asyncio() -> None:
    assert make_sdk.made(make_sdk.SOURCE.read_text()) == make_sdk.MADE.read_text(), "run `make sdk`"


def test_the_page_of_the_api_is_made_from_the_source() -> None:
    assert make_api.made() == make_api.PAGE.read_text(), "run `make sdk`"
