"""What SBCL 2.2.9 printed and read, text by text."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from fairlead.formats.sexp import SexpError, Single, dumps, loads
from tests.formats.exactly import exactly

DATA = Path(__file__).parents[1] / "data"
PRINTED: list[dict[str, Any]] = json.loads((DATA / "sexp-sbcl-printed.json").read_text("utf-8"))
READ: list[dict[str, str]] = json.loads((DATA / "sexp-sbcl-read.json").read_text("utf-8"))
FLOATS: list[dict[str, str]] = json.loads((DATA / "sexp-sbcl-floats.json").read_text("utf-8"))

MACRO = "a reader macro that no message needs"
RADIX = "a reader macro: numbers are written in decimal"
QUASI = "backquote and comma have no place in data"
SEVERAL = "one text holds one form; SBCL's reader was asked for the first only"
HALF = "half of a surrogate pair can't be sent as UTF-8"
UNREADABLE = "what is printed as #<…> can't be read by SBCL either"

REFUSED_SOURCES = {
    "#36rZZ": RADIX,
    "#c(1 2)": MACRO,
    "#c(1.0 2.0)": MACRO,
    "#'car": MACRO,
    "#*1011": MACRO,
    "#*": MACRO,
    "#2A((1 2) (3 4))": MACRO,
    '#P"/tmp/x"': MACRO,
    "`(a ,b)": QUASI,
}
REFUSED_PRINTED = {
    "#C(1 2)": MACRO,
    "#C(1.0 2.0)": MACRO,
    "#*1011": MACRO,
    "#*": MACRO,
    "#2A((1 2) (3 4))": MACRO,
    '#P"/tmp/x"': MACRO,
    "#<SINGLE-FLOAT-POSITIVE-INFINITY>": UNREADABLE,
    "(SB-INT:QUASIQUOTE (A #S(SB-IMPL::COMMA :EXPR B :KIND 0)))": QUASI,
}
REFUSED_PAYLOADS = {
    "#-sbcl :no :other": MACRO,
    "#+(or) :no :x": MACRO,
    "#3(1)": MACRO,
    "#5*1": MACRO,
    "#36rZZ": RADIX,
    "[1 2]": SEVERAL,
    "1,000": QUASI,
}
"""Text → why it is refused on purpose. Nothing else that SBCL reads is."""

NOT_PRINTED = {'"\ud800"': HALF}
NO_VALUE = ":ERROR"
"""How SBCL's answer says that it could not read; the keyword `:error` is printed in the same way."""


def is_read(text: str) -> bool:
    try:
        loads(text)
    except SexpError:
        return False
    return True


def test_just_what_the_tables_name_is_refused() -> None:
    sources = {case["lisp_source"] for case in PRINTED if not case["lisp_source"].startswith("#.")}
    assert {text for text in sources if not is_read(text)} == REFUSED_SOURCES.keys()
    assert {case["printed"] for case in PRINTED if not is_read(case["printed"])} == REFUSED_PRINTED.keys()
    payloads = {case["payload"] for case in READ if case["result"] != NO_VALUE or case["payload"] == ":error"}
    assert {text for text in payloads if not is_read(text)} == REFUSED_PAYLOADS.keys()


@pytest.mark.parametrize("case", PRINTED, ids=lambda case: case["lisp_source"])
def test_what_sbcl_prints_is_printed_in_the_same_way(case: dict[str, Any]) -> None:
    source, printed = case["lisp_source"], case["printed"]
    assert len(printed) == case["chars"]
    if printed in NOT_PRINTED:
        with pytest.raises(SexpError, match="surrogate"):
            dumps(loads(printed))
        return
    if printed not in REFUSED_PRINTED:
        assert dumps(loads(printed)) == printed
        assert len(dumps(loads(printed)).encode()) == case["utf8_bytes"]
    if not source.startswith("#.") and source not in REFUSED_SOURCES:
        assert dumps(loads(source)) == printed


@pytest.mark.parametrize("case", READ, ids=lambda case: repr(case["payload"]))
def test_what_sbcl_reads_is_read_in_the_same_way(case: dict[str, str]) -> None:
    payload, result = case["payload"], case["result"]
    if (result == NO_VALUE and payload != ":error") or payload in REFUSED_PAYLOADS:
        with pytest.raises(SexpError):
            loads(payload)
    else:
        assert dumps(loads(payload)) == result
        assert exactly(loads(result)) == exactly(loads(payload))


@pytest.mark.parametrize("case", FLOATS, ids=lambda case: case["printed"])
def test_a_float_has_the_digits_that_sbcl_gives_it(case: dict[str, str]) -> None:
    value: float
    if case["kind"] == "double":
        (value,) = struct.unpack(">d", int(case["bits"], 16).to_bytes(8, "big"))
    else:
        value = Single(struct.unpack(">f", int(case["bits"], 16).to_bytes(4, "big"))[0])
    assert dumps(value) == case["printed"]
    assert exactly(loads(case["printed"])) == exactly(value)
