"""What Clojure 1.11 read and printed, text by text."""

import json
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from fairlead.formats.edn import (
    BigInt,
    Char,
    EdnError,
    Keyword,
    Symbol,
    Tagged,
    dumps,
    loads,
    loads_all,
)
from tests.formats.exactly import exactly

CASES: list[dict[str, str]] = json.loads(
    Path(__file__).parents[1].joinpath("data/edn-clojure.json").read_text("utf-8")
)
READ = [case for case in CASES if case["result"] == "ok"]

TYPES: dict[str, type] = {
    "nil": type(None),
    "Boolean": bool,
    "Long": int,
    "BigInt": BigInt,
    "Double": float,
    "BigDecimal": Decimal,
    "Ratio": Fraction,
    "String": str,
    "Character": Char,
    "Keyword": Keyword,
    "Symbol": Symbol,
    "EmptyList": tuple,
    "PersistentList": tuple,
    "PersistentVector": list,
    "PersistentArrayMap": dict,
    "PersistentHashSet": frozenset,
    "Date": datetime,
    "UUID": UUID,
}

TAG = "the golden values come from a reader that turned a tag into a list; here it is a Tagged"
PRINTED_OTHERWISE = {
    '#inst "2020-01-01T12:30:45.123456789Z"': (
        "a datetime keeps microseconds, java.util.Date only milliseconds",
        '#inst "2020-01-01T12:30:45.123456-00:00"',
    ),
    "#foo/bar {:a 1}": (TAG, "#foo/bar {:a 1}"),
    "#foo 1": (TAG, "#foo 1"),
}
"""Text → why we print something else on purpose, and what."""


def case_id(case: Any) -> str:
    return repr(case["text"])


@pytest.mark.parametrize("case", READ, ids=case_id)
def test_what_clojure_reads_is_read_and_printed_as_clojure_prints_it(case: dict[str, str]) -> None:
    value = loads_all(case["text"])[0]
    _, printed = PRINTED_OTHERWISE.get(case["text"], ("", case["printed"]))
    if type(value) is frozenset:  # a set has no order, in Clojure neither
        assert exactly(loads(dumps(value))) == exactly(loads(printed)) == exactly(value)
    else:
        assert dumps(value) == printed


@pytest.mark.parametrize("case", READ, ids=case_id)
def test_each_type_of_clojure_has_one_of_python(case: dict[str, str]) -> None:
    value = loads_all(case["text"])[0]
    reason, _ = PRINTED_OTHERWISE.get(case["text"], ("", ""))
    assert type(value) is (Tagged if reason is TAG else TYPES[case["type"]])


@pytest.mark.parametrize("case", [case for case in CASES if case["result"] == "error"], ids=case_id)
def test_what_clojure_refuses_is_refused(case: dict[str, str]) -> None:
    with pytest.raises(EdnError):
        loads_all(case["text"])


@pytest.mark.parametrize("case", [case for case in CASES if case["result"] == "eof"], ids=case_id)
def test_where_clojure_finds_no_form_there_is_none(case: dict[str, str]) -> None:
    assert loads_all(case["text"]) == []
    with pytest.raises(EdnError, match="expected one form, found none"):
        loads(case["text"])


def test_loads_refuses_just_the_texts_with_more_than_one_form() -> None:
    several = {case["text"] for case in READ if len(loads_all(case["text"])) > 1}
    assert several == {"1 2", "{:a 1} {:b 2}", "a,b"}
    for case in READ:
        if case["text"] in several:
            with pytest.raises(EdnError, match="expected one form, found 2"):
                loads(case["text"])
        else:
            assert exactly(loads(case["text"])) == exactly(loads_all(case["text"])[0])
