"""The two kinds of fault."""

from fairlead.wire.faults import Broken, LocalError


def test_a_broken_is_equal_to_another_with_the_same_reason_and_reply() -> None:
    assert Broken("why", b"reply") == Broken("why", b"reply")
    assert hash(Broken("why", b"reply")) == hash(Broken("why", b"reply"))
    assert Broken("why") != Broken("why", b"reply")
    assert Broken("why") != Broken("else")
    assert Broken("why") != "why"


def test_a_broken_tells_its_reason_and_its_reply() -> None:
    assert repr(Broken("frame too short")) == "Broken('frame too short', reply=b'')"
    assert repr(Broken("no", b"\x01")) == "Broken('no', reply=b'\\x01')"


def test_our_own_fault_is_not_a_value_error_so_that_no_handler_for_bad_values_hides_it() -> None:
    assert not issubclass(LocalError, ValueError)
