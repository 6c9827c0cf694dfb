"""Fonts for letters that matplotlib's own font does not have, Chinese ones for instance: those that are installed."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterable, Iterator

_NOT_THERE = r"Glyph \d+ .* missing from font"


@contextlib.contextmanager
def having(texts: Iterable[str]) -> Iterator[None]:
    """What is drawn in it takes each letter from the first font that has it; one warning names letters of none."""
    import matplotlib
    from matplotlib.font_manager import FontProperties

    letters = frozenset(letter for text in texts for letter in text if not letter.isspace())
    more, missing = _fonts_for(letters - _letters_of(_own_font()))
    if missing:
        warnings.warn(
            f"no font has {''.join(sorted(missing)[:10])}, so pictures have boxes in their place: install one, such as "
            "Noto Sans CJK (Debian: fonts-noto-cjk)",
            stacklevel=4,
        )
    with quiet(), matplotlib.rc_context({"font.family": [*FontProperties().get_family(), *more]}):
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without a warning for each letter that no font has."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NOT_THERE)
        yield


def _own_font() -> str:
    from matplotlib.font_manager import FontProperties, fontManager

    return str(fontManager.findfont(FontProperties()))


@functools.cache
def _letters_of(path: str) -> frozenset[str]:
    """The letters that a font has; none of a file that is no font."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError, ValueError):
        return frozenset()


def _fonts_for(letters: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """The families of installed fonts that have these letters between them, and the letters that none of them has."""
    from matplotlib.font_manager import fontManager, get_font

    families: list[str] = []
    while letters:
        best = max(_installed(), key=lambda path: len(letters & _letters_of(path)), default="")
        found = letters & _letters_of(best)
        if not found:
            break
        fontManager.addfont(best)  # it may be newer than matplotlib's list of fonts
        families.append(get_font(best).family_name)
        letters -= found
    return families, letters


@functools.cache
def _installed() -> tuple[str, ...]:
    """The files of this system's fonts, plain ones first."""
    from matplotlib.font_manager import findSystemFonts

    return tuple(sorted(findSystemFonts(), key=lambda path: ("Regular" not in path, path)))
