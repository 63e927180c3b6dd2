"""Values that only have fields."""

from __future__ import annotations

import pytest

from fairlead.formats.record import Record


class Place(Record):
    row: int
    column: int = 1


def test_fields_are_given_in_their_order_or_by_name_and_have_defaults() -> None:
    assert Place(3) == Place(row=3) == Place(3, 1) == Place(column=1, row=3)
    assert Place(3, 2) != Place(3)
    match Place(3, 2):
        case Place(row, column):
            assert (row, column) == (3, 2)


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"row": 1}), ((1,), {"depth": 1})]
)
def test_a_field_that_is_missing_unknown_or_given_twice_is_refused(
    values: tuple[int, ...], named: dict[str, int]
) -> None:
    with pytest.raises(TypeError, match=r"^a Place has row, column$"):
        Place(*values, **named)


def test_a_field_can_not_be_changed() -> None:
    place = Place(3)
    with pytest.raises(AttributeError):
        place.row = 4  # type: ignore[misc]
    assert place.row == 3
