"""Messages of web push are those of RFC 8291, and signatures those of RFC 8292."""

from __future__ import annotations

import json

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.web.push_crypto import (
    MAX_TEXT,
    BadKeys,
    BrowserKeys,
    Vapid,
    browser_keys,
    decode,
    encode,
    encrypt,
)
from tests.web.push_service import PushedBrowser, checked_signature

# The example of RFC 8291, section 5 and appendix A.
TEXT = b"When I grow up, I want to be a watermelon"
THEIRS = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
OURS = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
MESSAGE = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
    "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
    "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def test_the_example_of_the_standard_comes_out_byte_for_byte() -> None:
    own = ec.derive_private_key(int.from_bytes(decode(OURS), "big"), ec.SECP256R1())
    keys = browser_keys(THEIRS, AUTH)
    assert encode(encrypt(TEXT, keys, salt=decode(SALT), own=own)) == MESSAGE


@given(st.binary(max_size=300), st.integers(0, 300))
def test_only_the_browser_reads_a_message_whatever_its_padding(text: bytes, size: int) -> None:
    browser = PushedBrowser()
    message = encrypt(text, browser.keys, size=size)
    assert browser.read(message) == text
    with pytest.raises(InvalidTag):
        PushedBrowser().read(message)


def test_the_length_of_a_message_tells_nothing_and_two_are_never_the_same() -> None:
    browser = PushedBrowser()
    short, long = encrypt(b"a", browser.keys, size=500), encrypt(b"a" * 500, browser.keys, size=500)
    assert len(short) == len(long)
    assert encrypt(b"a", browser.keys) != encrypt(b"a", browser.keys)


def test_a_message_has_at_most_what_services_take() -> None:
    browser = PushedBrowser()
    assert len(encrypt(b"a" * MAX_TEXT, browser.keys)) == 4096
    with pytest.raises(ValueError, match="at most"):
        encrypt(b"a" * (MAX_TEXT + 1), browser.keys)
    with pytest.raises(ValueError, match="at most"):
        encrypt(b"a", browser.keys, size=MAX_TEXT + 1)


@pytest.mark.parametrize(
    ("p256dh", "auth"),
    [
        ("", AUTH),
        (THEIRS, ""),
        (THEIRS, AUTH + "AA"),
        (THEIRS[:-2], AUTH),
        ("A" + THEIRS[1:], AUTH),  # no uncompressed point
        (THEIRS[:-4] + "AAAA", AUTH),  # not on the curve
        ("é" + THEIRS, AUTH),
        (THEIRS, "!" * 22),
        (THEIRS + "\n", AUTH),
    ],
)
def test_keys_that_make_no_sense_are_refused(p256dh: str, auth: str) -> None:
    with pytest.raises(BadKeys):
        browser_keys(p256dh, auth)


def test_a_signature_names_us_and_the_service() -> None:
    vapid = Vapid.new()
    header = vapid.authorization("https://push.example.org", 1234567890.5, "mailto:a@example.org")
    key, claims = checked_signature(header)
    assert key == vapid.public
    assert claims == {"aud": "https://push.example.org", "exp": 1234567890, "sub": "mailto:a@example.org"}
    assert Vapid(vapid.private).public == vapid.public
    assert json.dumps(claims)
    with pytest.raises(ValueError, match="32 bytes"):
        Vapid(b"short")


def test_keys_are_written_as_browsers_write_them() -> None:
    keys = browser_keys(THEIRS, AUTH)
    assert isinstance(keys, BrowserKeys)
    assert encode(keys.point) == THEIRS
    assert "=" not in encode(b"a")
