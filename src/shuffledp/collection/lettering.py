"""Labels in any script as a picture can show them: by a font of this machine that has the letters, or spelled out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from shuffledp.escaping import visible

BASE = "DejaVu Sans"
LONGEST = 40
"""How much of a label a picture has room for."""
NO_LETTERS = ("LastResort", "Last Resort", ".")
"""How the names of fonts begin that have a box for everything, or are not for use."""
SPELLED = "Letters that no font here has are spelled out; the tables have them as they are."
USUAL_WEIGHTS = (400, "normal", "regular", "book")
IDEOGRAPHS = ("CJK ", "TANGUT ", "NUSHU ", "KHITAN ")
"""Scripts whose letters' names are numbers."""


@dataclass(frozen=True)
class Lettering:
    """The fonts that some texts are drawn with, and how each text is written in them."""

    families: tuple[str, ...]
    drawable: frozenset[str]
    """Letters that one of the fonts has."""
    spelled: bool
    """Whether some are in none."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> Lettering:
        """Fonts for all letters of these texts, as far as there are any."""
        wanted = {letter for text in texts for letter in text if letter.isprintable()}
        chosen, missing = [BASE], wanted - _letters_of(BASE)
        for family in _families() if missing else ():
            found = missing & _letters_of(family)
            if found:
                chosen.append(family)
                missing -= found
            if not missing:
                break
        visible = {letter for letter in missing if not _is_silent(letter)}
        return cls(tuple(chosen), frozenset(wanted - missing), bool(visible))

    def shown(self, text: str, longest: int = LONGEST) -> str:
        """A text as plain letters that can be drawn, cut where it would leave no room for the estimates."""
        written = "".join(self._written(visible(text))).strip()
        short = written if len(written) <= longest else written[: longest - 1] + "…"
        return short.replace("$", r"\$")

    def _written(self, text: str) -> list[str]:
        parts: list[str] = []
        for letter in text:
            if letter in self.drawable or letter.isascii():
                parts.append(letter)
            elif not _is_silent(letter):
                _spell(letter, parts)
            elif parts and _drops_vowel(letter):
                parts[-1] = parts[-1].removesuffix("a")
        return parts


def _spell(letter: str, parts: list[str]) -> None:
    """Add the sound of a letter by its name, or its name, or its number."""
    name = unicodedata.name(letter, "")
    sound = name.split(" WITH ")[0].split(" ")[-1].lower()
    if not name or name.startswith(IDEOGRAPHS):
        between = " " if parts and parts[-1].lstrip().startswith("U+") else ""
        parts.append(f"{between}U+{ord(letter):04X}")
    elif " VOWEL SIGN " in name:
        # A consonant is read with an a of its own, which the sign replaces.
        if parts:
            parts[-1] = parts[-1].removesuffix("a")
        parts.append(sound)
    elif " LETTER " in name or " SYLLABLE " in name:
        parts.append(sound)
    elif " DIGIT " in name:
        parts.append(str(unicodedata.digit(letter, 0)))
    else:
        parts.append(f"[{name.lower()}]")


def _drops_vowel(letter: str) -> bool:
    return "VIRAMA" in unicodedata.name(letter, "")


def _is_silent(letter: str) -> bool:
    """Marks and joiners that are nothing by themselves; the signs of vowels are something."""
    if " VOWEL SIGN " in unicodedata.name(letter, ""):
        return False
    return unicodedata.category(letter) in ("Cf", "Mn", "Me", "Zs")


@cache
def _letters_of(family: str) -> frozenset[str]:
    """The letters of a font; none where it cannot be drawn with."""
    from matplotlib import font_manager

    try:
        font = font_manager.get_font(_families()[family])
        return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
    except (KeyError, RuntimeError, OSError):
        return frozenset()


@cache
def _families() -> dict[str, str]:
    """The fonts of this machine, upright and of usual weight, by name with their files."""
    from matplotlib import font_manager

    fonts = [one for one in font_manager.fontManager.ttflist if not one.name.startswith(NO_LETTERS)]
    usual = [one for one in fonts if (one.style, one.stretch) == ("normal", "normal") and one.weight in USUAL_WEIGHTS]
    return {one.name: one.fname for one in sorted(usual, key=lambda one: one.name)}
