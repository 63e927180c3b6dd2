"""Keys, JWTs and files of credentials: what is right is taken, and everything else is refused."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.fleet import jwt, subjects
from fairlead.fleet.authority import Authority, FleetFault
from fairlead.fleet.creds import CredsFault, creds_text, read_creds
from fairlead.fleet.nkeys import ACCOUNT, USER, KeyFault, KeyPair, check_signature
from tests.hosting import Hosting


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    made = Hosting()
    yield made
    made.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    directory = tmp_path_factory.mktemp("fleet") / "f"
    return Authority.new(str(directory), "team", "127.0.0.1:4222", "127.0.0.1:7422", ["127.0.0.1"])


def test_a_key_is_the_same_again_from_its_seed() -> None:
    key = KeyPair.new(USER)
    again = KeyPair.from_seed(key.seed, USER)
    assert again.public == key.public
    assert key.seed.startswith("SU")
    assert key.public.startswith("U")
    check_signature(key.public, USER, b"text", again.sign(b"text"))
    assert key.seed not in repr(key)


def test_a_known_seed_gives_the_key_that_other_programs_make_of_it() -> None:
    # a pair that NATS' own tools print in their documentation of user keys
    seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
    assert KeyPair.from_seed(seed, USER).public == "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


@given(st.text(max_size=80))
def test_what_is_no_key_is_a_fault(text: str) -> None:
    with pytest.raises(KeyFault):
        KeyPair.from_seed(text, USER)


def test_a_seed_of_another_kind_or_with_a_typing_error_is_refused() -> None:
    seed = KeyPair.new(ACCOUNT).seed
    with pytest.raises(KeyFault, match="SU"):
        KeyPair.from_seed(seed, USER)
    wrong = seed[:-1] + ("A" if seed[-1] != "A" else "B")
    with pytest.raises(KeyFault, match="checksum"):
        KeyPair.from_seed(wrong, ACCOUNT)


def test_a_jwt_that_was_changed_or_signed_by_another_is_refused() -> None:
    account, user = KeyPair.new(ACCOUNT), KeyPair.new(USER)
    signed = jwt.encoded("user", "roses", user.public, account, {"tags": ["x"]})
    assert jwt.decoded(signed, "user").issuer == account.public
    head, body, signature = signed.split(".")
    other = jwt.encoded("user", "tulips", user.public, account, {"tags": ["x"]}).split(".")[1]
    for wrong in (
        f"{head}.{other}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        "",
        "a.b.c",
        "x" * 9000,
    ):
        with pytest.raises(jwt.JwtFault):
            jwt.decoded(wrong, "user")
    with pytest.raises(jwt.JwtFault):
        jwt.decoded(signed, "account")
    with pytest.raises(jwt.JwtFault, match="not signed by"):
        jwt.decoded(jwt.encoded("user", "roses", user.public, user, {}), "user")


@given(st.text(max_size=200))
def test_what_is_no_jwt_is_a_fault(text: str) -> None:
    with pytest.raises(jwt.JwtFault):
        jwt.decoded(text, "user")


def test_keys_are_for_our_user_alone_and_are_not_printed(hosting: Hosting) -> None:
    directory = hosting.directory / "own"
    said = hosting.run("fleet", "init", str(directory), "--address", "127.0.0.1")
    made = hosting.run("fleet", "creds", "machine", "workbox", "--dir", str(directory))
    seeds = [each.read_text().strip() for each in Path(directory, "keys").iterdir()]
    assert len(seeds) == 3
    for path in [directory, *directory.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    for done in (said, made):
        assert not any(seed in done.stdout + done.stderr for seed in seeds)
        assert "SU" not in done.stdout.replace(str(directory), "")


def test_a_second_credential_for_a_name_needs_the_first_to_be_revoked(authority: Authority) -> None:
    with authority.changing():
        authority.issue(subjects.MACHINE, "twice")
    with pytest.raises(FleetFault, match="revoke"), authority.changing():
        authority.issue(subjects.MACHINE, "twice")
    with authority.changing():
        authority.revoke("twice")
        authority.issue(subjects.MACHINE, "twice")


@pytest.mark.parametrize("name", ["", "A", "a:b", "a/b", "a b", "a*", ">", "ask", "-a", "a" * 65, "@a"])
def test_names_that_would_mean_something_else_in_a_subject_are_refused(
    authority: Authority, name: str
) -> None:
    with pytest.raises(FleetFault), authority.changing():
        authority.issue(subjects.MACHINE, name)
    assert not any(each.name == name for each in authority.register.credentials)


@given(st.sampled_from(["a.b", "a_b", "a-b", "a", "ab", "a..b", "a.b.c"]))
def test_a_name_and_its_word_in_subjects_belong_together(name: str) -> None:
    assert subjects.name_of(subjects.word_of(name)) == name
    assert subjects.word_of(name, subjects.PERSON) != subjects.word_of(name)
    assert "." not in subjects.word_of(name)


def test_credentials_that_others_can_read_or_whose_parts_differ_are_refused(
    authority: Authority, tmp_path: Path
) -> None:
    with authority.changing():
        path = Path(authority.issue(subjects.PERSON, "mary", read_only=True))
    creds = read_creds(str(path))
    assert creds.identity.read_only
    assert creds.identity.account == authority.account().public
    path.chmod(0o644)
    with pytest.raises(CredsFault, match="chmod"):
        read_creds(str(path))
    mixed = tmp_path / "mixed.creds"
    mixed.write_text(creds_text(creds.jwt, KeyPair.new(USER)))
    mixed.chmod(0o600)
    with pytest.raises(CredsFault, match="not that of its JWT"):
        read_creds(str(mixed))
    mixed.write_text("nothing")
    with pytest.raises(CredsFault, match="no file of credentials"):
        read_creds(str(mixed))
    with pytest.raises(CredsFault, match="can't read"):
        read_creds(str(tmp_path / "none"))


def test_init_refuses_a_directory_that_has_a_fleet_and_addresses_that_are_none(hosting: Hosting) -> None:
    directory = str(hosting.directory / "again")
    hosting.run("fleet", "init", directory, "--address", "127.0.0.1")
    before = Path(directory, "fleet.json").read_bytes()
    again = hosting.run("fleet", "init", directory, check=False)
    assert again.returncode == 1
    assert "already" in again.stderr
    assert Path(directory, "fleet.json").read_bytes() == before
    for words in (["--listen", "here"], ["--address", "a b"], ["--listen", "0.0.0.0:99999"]):
        refused = hosting.run("fleet", "init", f"{directory}-2", *words, check=False)
        assert refused.returncode == 1, refused
        assert not os.path.exists(f"{directory}-2/fleet.json")


def test_ls_shows_what_was_made_and_revoked(hosting: Hosting) -> None:
    directory = str(hosting.directory / "listed")
    hosting.run("fleet", "init", directory, "--address", "127.0.0.1")
    hosting.run("fleet", "creds", "user", "mary", "--read-only", "--for", "1d", "--dir", directory)
    revoked = hosting.run("fleet", "revoke", "mary", "--dir", directory, check=False)
    assert revoked.returncode == 1
    assert "it will know when it starts" in revoked.stderr
    rows = json.loads(hosting.run("fleet", "ls", "--json", "--dir", directory).stdout)
    (mary,) = [each for each in rows if each["name"] == "mary"]
    assert mary["read_only"]
    assert mary["revoked_at"]
    hosting.run("fleet", "creds", "user", "brief", "--for", "1s", "--dir", directory)
    hosting.until(lambda: "expired" in hosting.run("fleet", "ls", "--dir", directory).stdout)
    head, *lines = hosting.run("fleet", "ls", "--dir", directory).stdout.splitlines()
    assert head.split() == ["NAME", "KIND", "ACCOUNT", "STATE"]
    assert any("mary" in line and "revoked" in line for line in lines)
