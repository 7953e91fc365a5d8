"""fontTools reads the fonts that the program writes."""

import subprocess
import sys

import accrue
import numpy as np
import pytest

pytest.importorskip("fontTools")

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.areaPen import AreaPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont

pytestmark = pytest.mark.thorough

CODES = [*range(0x4E00, 0x4E14), 0x20000]


def write_source(path):
    """A font of bars, one of which is half as wide as the others."""
    font, names = FontBuilder(1024), {code: f"u{code:X}" for code in CODES}
    font.setupGlyphOrder([".notdef", *names.values()])
    font.setupCharacterMap(names)
    glyphs = {".notdef": TTGlyphPen(None).glyph()}
    for i, code in enumerate(CODES):
        pen, top = TTGlyphPen(None), 900 - 20 * i
        for k, (x, y) in enumerate(((100, 100), (100, top), (400, top), (400, 100))):
            (pen.lineTo if k else pen.moveTo)((x, y))
        pen.closePath()
        glyphs[names[code]] = pen.glyph()
    font.setupGlyf(glyphs)
    font.setupHorizontalMetrics({name: (512 if name == names[0x20000] else 1024, 100)
                                 for name in glyphs})
    font.setupHorizontalHeader(ascent=1024, descent=-24, lineGap=100)
    font.setupNameTable({"familyName": "Bars", "styleName": "Regular", "fullName": "Bars Regular",
                         "licenseDescription": "Free for all"})
    font.setupOS2(sTypoAscender=1024, sTypoDescender=-24, usWeightClass=500)
    font.setupPost()
    font.save(path)


def test_font(tmp_path):
    source, out = tmp_path / "source.ttf", tmp_path / "drawn.ttf"
    write_source(source)
    weights, x = tmp_path / "weights", np.zeros((2, 64, 64), np.uint8)
    accrue.train("zi2zi", (x, x, [0, 0]), steps=0, width=0.125, micro_batch=1, effective_batch=2,
                 init_scheme="normal").weights.save(weights)
    ran = subprocess.run([sys.executable, "-m", "accrue", "font", "export", "--weights", weights,
                          "--font", source, "--chars", "".join(map(chr, CODES)), "--name", "Drawn",
                          "--out", out], capture_output=True, text=True, check=False)
    if "apt install potrace" in ran.stderr:
        pytest.skip("no potrace")
    assert ran.returncode == 0, ran.stderr

    font = TTFont(out, checkChecksums=2)  # raises if one is wrong
    for table in font.keys():
        font[table]
    assert font["head"].unitsPerEm == 1024
    assert (font["hhea"].ascent, font["hhea"].descent, font["hhea"].lineGap) == (1024, -24, 100)
    assert (font["OS/2"].sTypoAscender, font["OS/2"].usWeightClass) == (1024, 500)
    names = {record.nameID: record.toUnicode() for record in font["name"].names}
    assert names[1] == "Drawn" and names[13] == "Free for all"
    cmap, glyphs = font.getBestCmap(), font.getGlyphSet()
    assert set(CODES) <= set(cmap)
    assert {t.format: set(t.cmap) for t in font["cmap"].tables} == {
        4: {code for code in cmap if code < 0x10000}, 12: set(cmap)}
    for code in CODES:
        assert font["hmtx"][cmap[code]][0] == (512 if code == 0x20000 else 1024)
        pen = AreaPen(glyphs)
        glyphs[cmap[code]].draw(pen)
        assert pen.value < 0, code  # clockwise around ink
    # The values of the tables for all glyphs follow from the glyphs.
    said = {table: {key: value for key, value in vars(font[table]).items()
                    if isinstance(value, int)} for table in ("maxp", "hhea", "head")}
    font["maxp"].recalc(font)
    font["hhea"].recalc(font)
    for table, values in said.items():
        assert {key: getattr(font[table], key) for key in values} == values
    average = font["OS/2"].xAvgCharWidth
    assert font["OS/2"].recalcAvgCharWidth(font) == average
