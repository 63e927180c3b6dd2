"""Proofs of who asks: each counts once, for a minute, on one host, by credentials of the account."""

import json
from typing import Any

import pytest

from fairlead.fleet import limits, subjects
from fairlead.fleet.authority import Authority
from fairlead.fleet.creds import Creds, read_creds
from fairlead.fleet.jwt import encoded
from fairlead.fleet.nkeys import OPERATOR, KeyPair
from fairlead.fleet.signing import ASK, CONSENT, SignatureFault, Verifier, canonical, digest, proof
from fairlead.formats.edn import Keyword


class Clock:
    def __init__(self) -> None:
        import time

        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    directory = tmp_path_factory.mktemp("fleet") / "f"
    made = Authority.new(str(directory), "team", "127.0.0.1:4222", "127.0.0.1:7422", ["127.0.0.1"])
    with made.changing():
        made.issue(subjects.MACHINE, "roses")
        made.issue(subjects.MACHINE, "brief", seconds=3600)
        made.add_account("rivals")
        made.issue(subjects.MACHINE, "spy", "rivals")
    return made


def creds(authority: Authority, name: str) -> Creds:
    return read_creds(authority.path("creds", name))


def refusal(verifier: Verifier, text: object, what: bytes = b"what", purpose: str = ASK) -> str:
    try:
        verifier.check(purpose, text, what)
    except SignatureFault as error:
        return str(error)
    return ""


def verifier(authority: Authority, clock: Clock) -> Verifier:
    made = Verifier(authority.account().public, "tulips", clock, operator=authority.register.operator)
    clock.now += 0.5
    return made


def test_a_right_proof_counts_once(authority: Authority) -> None:
    clock = Clock()
    clock.now -= 1
    checks = verifier(authority, clock)
    text = proof(creds(authority, "machine-roses.creds"), ASK, "tulips", b"what")
    assert checks.check(ASK, text, b"what").name == "roses"
    assert "repetition" in refusal(checks, text)


@pytest.mark.parametrize(
    ("seconds", "why"), [(limits.SIGNED_SECONDS + 2, "look at the clocks"), (-2, "before this host's")]
)
def test_an_old_proof_and_one_from_before_the_start_are_refused(
    authority: Authority, seconds: float, why: str
) -> None:
    text = proof(creds(authority, "machine-roses.creds"), ASK, "tulips", b"what")
    clock = Clock()
    clock.now += -seconds if seconds < 0 else -1
    checks = verifier(authority, clock)
    clock.now = Clock().now + max(0.0, seconds)
    assert why in refusal(checks, text)


def test_what_is_for_another_purpose_host_or_text_is_refused(authority: Authority) -> None:
    clock = Clock()
    clock.now -= 1
    checks = verifier(authority, clock)
    own = creds(authority, "machine-roses.creds")
    for text in (
        proof(own, CONSENT, "tulips", b"what"),
        proof(own, ASK, "lilies", b"what"),
        proof(own, ASK, "tulips", b"other"),
    ):
        assert "does not fit" in refusal(checks, text)
    changed = json.loads(proof(own, ASK, "tulips", b"what"))
    changed["nonce"] = "0" * 32
    assert "does not fit" in refusal(checks, json.dumps(changed))
    for senseless in (None, 1, "", "{}", "[]", "null", '{"jwt":1}', "[" * 9000, "x" * 100_000):
        assert refusal(checks, senseless)


def test_another_accounts_revoked_and_expired_credentials_prove_nothing(authority: Authority) -> None:
    clock = Clock()
    clock.now -= 1
    checks = verifier(authority, clock)
    spy = proof(creds(authority, "rivals-machine-spy.creds"), ASK, "tulips", b"what")
    assert "another account" in refusal(checks, spy)
    brief = creds(authority, "machine-brief.creds")
    checks.check(ASK, proof(brief, ASK, "tulips", b"what"), b"what")
    with authority.changing():
        _, account = authority.revoke("brief")
    checks.learn(account)
    assert "revoked" in refusal(checks, proof(brief, ASK, "tulips", b"what"))
    with pytest.raises(SignatureFault, match="another account"):
        checks.learn(authority.account_jwt(authority.account("rivals")))
    clock.now += 7200
    assert "expired" in refusal(checks, proof(brief, ASK, "tulips", b"what"))


def test_a_flood_of_proofs_is_refused_and_nothing_is_forgotten_for_it(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_NONCES", 3)
    clock = Clock()
    clock.now -= 1
    checks = verifier(authority, clock)
    own = creds(authority, "machine-roses.creds")
    first, *others = [proof(own, ASK, "tulips", b"what") for _ in range(4)]
    assert [refusal(checks, text) for text in (first, *others[:2])] == ["", "", ""]
    assert "too many" in refusal(checks, others[2])
    assert "repetition" in refusal(checks, first)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ({Keyword("a"): 1, Keyword("b"): 2}, {Keyword("b"): 2, Keyword("a"): 1}),
        ([1, "a"], (1, "a")),
    ],
)
def test_the_same_values_have_the_same_digest(value: Any, other: Any) -> None:
    assert digest(value) == digest(other)
    assert digest(value) != digest([value])


def test_values_that_can_not_be_signed_are_an_error() -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(SignatureFault, match="nested"):
        canonical(deep)
    with pytest.raises(SignatureFault, match="object"):
        canonical(object())


def test_only_the_operator_says_who_was_revoked_and_nobody_takes_it_back(authority: Authority) -> None:
    with authority.changing():
        gone = read_creds(authority.issue(subjects.MACHINE, "gone"))
    assert gone.identity.operator == authority.register.operator
    before = authority.account_jwt(authority.account())
    checks = verifier(authority, Clock())
    mallory = KeyPair.new(OPERATOR)
    forged = encoded("account", "team", authority.account().public, mallory, {"revocations": {}})
    with pytest.raises(SignatureFault, match="another operator"):
        checks.learn(forged)  # the first that is seen
    with authority.changing():
        _, after = authority.revoke("gone")
    assert checks.learn(after)
    assert not checks.learn(after)
    checks.learn(before)
    with pytest.raises(SignatureFault, match="was revoked"):
        checks.standing(gone.jwt)
    with pytest.raises(SignatureFault):
        Verifier(authority.account().public, "tulips").learn(after)
