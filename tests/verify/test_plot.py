"""Confidence over time as a picture."""

from xml.etree import ElementTree

from fairlead.verify.plot import COLOURS, MAX_POINTS, Point, svg
from fairlead.verify.report import Confidence

SVG = "{http://www.w3.org/2000/svg}"
DAY = 86_400.0


def drawn(points: list[Point], title: str = "t") -> ElementTree.Element:
    return ElementTree.fromstring(svg(points, title))


def texts(picture: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


def test_each_report_is_a_dot_of_its_colour_at_its_height_in_the_order_of_time() -> None:
    points = [Point(1_700_000_000.0 + n * DAY, each, f"turn {n}") for n, each in enumerate(Confidence)]
    dots = list(drawn([*reversed(points)]).iter(f"{SVG}circle"))
    assert [dot.get("fill") for dot in dots] == [COLOURS[each] for each in Confidence]
    assert [float(dot.get("cx", "")) for dot in dots] == sorted(float(dot.get("cx", "")) for dot in dots)
    assert [float(dot.get("cy", "")) for dot in dots] == sorted(float(dot.get("cy", "")) for dot in dots)
    assert dots[0].findtext(f"{SVG}title") == "2023-11-14 22:13 PERFECT turn 0"


def test_axes_have_names_that_fit_the_time() -> None:
    start = 1_700_000_000.0
    days = texts(
        drawn([Point(start, Confidence.PERFECT), Point(start + 9 * DAY, Confidence.FAILED)], "Title")
    )
    assert days[:6] == ["Title", "PERFECT", "VERIFIED", "PARTIAL", "FAILED", "ERROR"]
    assert (days[6], days[-1]) == ("2023-11-14", "2023-11-23")
    hours = texts(drawn([Point(start, Confidence.PERFECT), Point(start + 7200, Confidence.FAILED)]))
    assert (hours[6], hours[-2], hours[-1]) == ("22:13", "00:13", "2023-11-14 UTC")
    some = texts(drawn([Point(start, Confidence.PERFECT), Point(start + 2 * DAY, Confidence.FAILED)]))
    assert (some[6], some[-1]) == ("11-14 22:13", "11-16 22:13")
    one = texts(drawn([Point(start, Confidence.PERFECT)]))
    assert one[6:] == ["22:13:20", "2023-11-14 UTC"]


def test_nothing_to_draw_is_said_and_too_much_is_bounded() -> None:
    assert "no reports" in texts(drawn([]))
    many = [Point(float(n), Confidence.VERIFIED) for n in range(MAX_POINTS + 500)]
    assert len(list(drawn(many).iter(f"{SVG}circle"))) == MAX_POINTS


def test_no_text_can_break_out_of_the_picture() -> None:
    evil = '"><script>alert(1)</script>&\x00\x1b' + "x" * 500
    picture = drawn([Point(1.0, Confidence.PERFECT, evil)], evil)
    assert not list(picture.iter(f"{SVG}script"))
    assert picture.get("aria-label", "").startswith('"><script>')
    assert len(picture.get("aria-label", "")) <= 120
