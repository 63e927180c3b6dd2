"""How Java and SBCL print a float: the same shortest digits and the same range of plain notation."""

from __future__ import annotations

_PLAIN_FROM, _PLAIN_TO = -3, 8  # the decimal points between which 0.001 … 9999999.0 lie


def digits_of(text: str) -> tuple[str, str, int]:
    """Sign, digits and place of the decimal point before them, of a float's `repr` that is finite."""
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text[len(sign) :].partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(exponent or 0)
    return sign, digits.rstrip("0"), point


def notation(sign: str, digits: str, point: int, marker: str, plain_suffix: str) -> str:
    """The number 0.DIGITS × 10^point, in plain notation where Java and SBCL use it, else with an exponent."""
    if not digits:
        return f"{sign}0.0{plain_suffix}"
    if not _PLAIN_FROM < point < _PLAIN_TO:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}{marker}{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}{plain_suffix}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}{plain_suffix}"
