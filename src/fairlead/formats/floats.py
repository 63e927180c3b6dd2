"""How Java and SBCL print a float: the shortest digits that tell it from others, and plain notation in the
same range."""

from __future__ import annotations

import math

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


def shortest(value: float, precision: int) -> tuple[str, int]:
    """The digits of a positive float and the place of the decimal point before them, as SBCL finds them.

    These are the digits of the exact value until what is left is nothing to the next float, as Burger and
    Dybvig print floats. Python does the same for doubles, but a tie goes up here, and a denormal gets the
    digits that it would have with full precision.
    """
    fraction, exponent = math.frexp(value)
    mantissa, exponent = int(math.ldexp(fraction, precision)), exponent - precision
    shift = max(exponent, 0)
    rest, scale = mantissa << shift + 2, 4 << shift - exponent  # whose quotient is the value
    above = 2 << shift  # half of the way to the next float
    below = above // 2 if fraction == 0.5 else above  # below a power of two they are closer
    bounds_belong = mantissa % 2 == 0
    point = math.floor(math.log10(value)) + 1  # or one more, or one less
    scale *= 10 ** max(point, 0)
    rest, above, below = (part * 10 ** max(-point, 0) for part in (rest, above, below))
    if rest + above + bounds_belong > scale:
        point, scale = point + 1, scale * 10
    elif (rest + above) * 10 + bounds_belong <= scale:
        point, rest, above, below = point - 1, rest * 10, above * 10, below * 10
    digits = ""
    while True:
        digit, rest = divmod(rest * 10, scale)
        above, below = above * 10, below * 10
        is_low = rest < below + bounds_belong
        is_high = rest + above + bounds_belong > scale
        if is_low or is_high:
            return f"{digits}{digit + (is_high and (not is_low or rest * 2 >= scale))}", point
        digits += str(digit)
