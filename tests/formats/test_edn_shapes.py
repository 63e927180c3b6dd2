"""Shapes: a text that differs from known ones only in its strings is filled in, not read again."""

from typing import Any

import pytest

from fairlead.formats.edn import EdnError, Keyword, Vector, loads, loads_all
from fairlead.formats.edn.shapes import MAX_SHAPE_DEPTH, MAX_SHAPES, Hole, Shape, Shapes
from tests.formats.exactly import exactly

K = Keyword


class Reading:
    """Stands for the reader: gives a value that is made with the strings, and counts how often."""

    def __init__(self, value: Any) -> None:
        self.value, self.times = value, 0

    def __call__(self, strings: list[str]) -> list[Any]:
        self.times += 1
        value = self.value(strings) if callable(self.value) else self.value
        return [value]


def met_twice(value: Any, strings: int = 0) -> Shape | None:
    shapes = Shapes()
    for _ in range(2):
        shapes.met("key", strings, Reading(value))
    return shapes.find("key")


def test_a_shape_is_made_when_it_is_met_for_the_second_time() -> None:
    shapes, reading = Shapes(), Reading(lambda strings: {K("a"): strings[0], K("b"): [strings[1], 1]})
    assert shapes.find("key") is None
    shapes.met("key", 2, reading)
    assert (shapes.find("key"), reading.times) == (None, 0)
    shapes.met("key", 2, reading)
    assert reading.times == 1
    shape = shapes.find("key")
    assert shape is not None
    assert shape.filled(["x", "y"]) == [{K("a"): "x", K("b"): ["y", 1]}]
    shapes.met("key", 2, reading)
    assert reading.times == 1


def test_a_shape_that_can_t_be_filled_is_not_tried_again() -> None:
    shapes, reading = Shapes(), Reading(lambda strings: {strings[0]: 1})
    for _ in range(5):
        shapes.met("key", 1, reading)
    assert (shapes.find("key"), reading.times) == (None, 1)


@pytest.mark.parametrize(
    "value",
    [
        lambda strings: {strings[0]: 1},
        lambda strings: {Vector((strings[0],)): 1},
        lambda strings: {(strings[0],): 1},
        lambda strings: [(strings[0],)],
        lambda strings: [{K("a"): {K("b"): frozenset({strings[0]})}}],
    ],
)
def test_strings_that_are_keys_or_in_other_collections_make_no_shape(value: Any) -> None:
    assert met_twice(value, strings=1) is None


def test_a_shape_that_nests_too_deep_is_not_remembered() -> None:
    value: Any = 1
    for _ in range(MAX_SHAPE_DEPTH - 1):
        value = [value]
    assert met_twice(value) is not None
    assert met_twice([[value]]) is None


def test_only_so_many_shapes_are_remembered() -> None:
    shapes = Shapes()
    for key in range(2 * MAX_SHAPES + 1):
        shapes.met(key, 0, Reading(1))
        assert len(shapes._shapes) <= MAX_SHAPES


def test_what_is_filled_is_new_each_time() -> None:
    shape = met_twice({K("a"): [[]], K("b"): {}})
    assert shape is not None
    first, second = shape.filled([]), shape.filled([])
    first[0][K("a")][0].append(1)
    first[0][K("b")]["x"] = 1
    assert second == shape.filled([]) == [{K("a"): [[]], K("b"): {}}]


def test_no_hole_is_left_in_what_is_read() -> None:
    def holes(value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(holes, [*value, *value.values()]))
        return any(map(holes, value)) if isinstance(value, list | tuple) else type(value) is Hole

    for word in ("a", "b", "c", "d"):
        for text in (
            '["{w}" {k "{w}"}]',
            '{["{w}"] 1}',
            '{{k "{w}"} 1}',
            '{("{w}") 1}',
            '("{w}")',
            '{"{w}" 1}',
        ):
            read = loads(text.replace("{w}", word))
            assert not holes(read)
            assert repr(word) in repr(read)


@pytest.mark.parametrize(
    "text",
    ["[1 2]", '{:a "b"}', '[{"a" 1} {"b" 2}]', "{1 :a 1.0 :b}", "(1 2)", '["a" nil true false 1.5 sym]'],
)
def test_a_text_is_read_the_same_however_often_it_was_met(text: str) -> None:
    first = exactly(loads(text))
    for _ in range(4):
        assert exactly(loads(text)) == first


def test_a_shape_does_not_hide_the_limits_that_a_caller_sets() -> None:
    for _ in range(4):
        assert loads("[[12345]]") == [[12345]]
    with pytest.raises(EdnError, match="nest deeper than 1"):
        loads("[[12345]]", max_depth=1)
    with pytest.raises(EdnError, match="at most 4 are allowed"):
        loads("[[12345]]", max_digits=4)
    with pytest.raises(EdnError, match="at most 8 are allowed"):
        loads("[[12345]]", max_length=8)


def test_a_shape_of_several_forms_gives_several_forms() -> None:
    for word in "abcd":
        assert loads_all(f'"{word}" [1]') == [word, [1]]
        with pytest.raises(EdnError, match="expected one form, found 2"):
            loads(f'"{word}" [1]')


def test_escapes_are_replaced_in_a_shape_that_is_known() -> None:
    for number in range(5):
        assert loads(rf'[:escaped "\u000{number}\n"]') == [K("escaped"), f"{chr(number)}\n"]


def test_duplicate_strings_are_found_in_a_shape_that_is_known() -> None:
    for first in "abc":
        assert loads(f'{{"{first}" 1 "x" 2}}') == {first: 1, "x": 2}
    with pytest.raises(EdnError, match='duplicate key "x"'):
        loads('{"x" 1 "x" 2}')
