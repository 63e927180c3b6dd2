"""Make the fonts that `fairlead screen --png` falls back to: subsets of two free ones, without hints.

    pip install fonttools
    python tools/make_fonts.py DejaVuSansMono.ttf Symbola.ttf

The fonts are in Debian's fonts-dejavu-core and fonts-symbola. The results are committed, with their licences,
as data of the package; this is needed only to make them anew.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PLACE = Path(__file__).parents[1] / "src/fairlead/fonts"
LETTERS = ((0x20, 0x7E), (0xA0, 0x17F), (0x2C6, 0x2DD), (0x370, 0x3FF), (0x400, 0x45F), (0x2010, 0x205E))
SIGNS = ((0x20A0, 0x20BF), (0x2100, 0x22FF), (0x2308, 0x230B), (0x25A0, 0x25FF), (0xFFFD, 0xFFFD))
SYMBOLS = (
    *(
        (0x2070, 0x209C),
        (0x2190, 0x23FF),
        (0x2460, 0x2473),
        (0x25A0, 0x27BF),
        (0x2B00, 0x2B1C),
        (0x2B50, 0x2B55),
    ),
    *((0x1F300, 0x1F321), (0x1F378, 0x1F37D), (0x1F380, 0x1F3AF), (0x1F3C1, 0x1F3C6), (0x1F3E0, 0x1F3F0)),
    *((0x1F40D, 0x1F427), (0x1F440, 0x1F450), (0x1F464, 0x1F465), (0x1F47B, 0x1F480), (0x1F48E, 0x1F4FD)),
    *((0x1F500, 0x1F540), (0x1F550, 0x1F553), (0x1F575, 0x1F5A5), (0x1F5B1, 0x1F5BC), (0x1F5C2, 0x1F5DE)),
    *((0x1F5E3, 0x1F64F), (0x1F680, 0x1F6AD), (0x1F6D1, 0x1F6F3), (0x1F7E0, 0x1F7EB), (0x1F910, 0x1F980)),
)
FAMILIES = {"FairleadMono": (*LETTERS, *SIGNS), "FairleadSymbols": SYMBOLS}
"""Each font and its characters. The names are ours: a subset may not be called as its original."""


def main(arguments: list[str]) -> int:
    from fontTools import subset  # type: ignore[import-not-found]

    if len(arguments) != len(FAMILIES):
        print(__doc__, file=sys.stderr)
        return 2
    for source, (name, ranges) in zip(arguments, FAMILIES.items()):
        options = subset.Options(hinting=False, layout_features=[], glyph_names=False, notdef_outline=True)
        options.drop_tables += ["FFTM", "GDEF", "GPOS", "GSUB", "kern", "MATH"]
        font = subset.load_font(source, options)
        cut = subset.Subsetter(options)
        cut.populate(unicodes=[code for first, last in ranges for code in range(first, last + 1)])
        cut.subset(font)
        _rename(font, name)
        subset.save_font(font, PLACE / f"{name}.ttf", options)
        print(f"{name}: {len(font.getBestCmap())} characters, {(PLACE / f'{name}.ttf').stat().st_size} bytes")
    return 0


def _rename(font: Any, name: str) -> None:
    """Give a font its name; the copyright stays."""
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6, 16):
            record.string = name


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
