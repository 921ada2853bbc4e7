"""Sets of ASCII characters. A set is a number; its bit n stands for the character with code n."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable

Mask = int

ALL: Mask = (1 << 128) - 1
NONE: Mask = 0


def mask_of(characters: Iterable[str]) -> Mask:
    """Return the set of these characters. Ignore non-ASCII characters: no topic name has any."""
    mask = NONE
    for each in characters:
        code = ord(each)
        if code < 128:
            mask |= 1 << code
    return mask


def mask_of_range(low: str, high: str) -> Mask:
    """Return the set of the characters from `low` to `high`, both included."""
    first, last = ord(low), min(ord(high), 127)
    return NONE if first > last else (1 << last + 1) - (1 << first)


NEWLINE = mask_of("\n")
_LOWER = mask_of(string.ascii_lowercase)
_UPPER = mask_of(string.ascii_uppercase)
_CASE_STEP = ord("a") - ord("A")
_FOLDING = {"\u017f": mask_of("sS"), "\u212a": mask_of("kK")}
"""Long s and the Kelvin sign: the two non-ASCII characters that fold to ASCII letters."""


def folded(mask: Mask) -> Mask:
    """Add the other case of each letter."""
    return mask | (mask & _LOWER) >> _CASE_STEP | (mask & _UPPER) << _CASE_STEP


def mask_of_character(character: str, ignore_case: bool) -> Mask:
    """Return the set of characters that match this character."""
    if not ignore_case:
        return mask_of(character)
    return folded(mask_of(character)) | _FOLDING.get(character, NONE)


def mask_of_folded_range(low: str, high: str) -> Mask:
    """Return the set of the characters that match a range if case is ignored."""
    mask = folded(mask_of_range(low, high))
    for character, equal in _FOLDING.items():
        if low <= character <= high:
            mask |= equal
    return mask


DIGIT = mask_of(string.digits)
SPACE = mask_of("\t\n\f\r ")
WORD = mask_of(string.ascii_letters + string.digits + "_")

PERL = {"d": DIGIT, "s": SPACE, "w": WORD}
"""The sets of `\\d`, `\\s` and `\\w`. An upper-case letter stands for the complement."""

POSIX = {
    "alnum": mask_of(string.ascii_letters + string.digits),
    "alpha": mask_of(string.ascii_letters),
    "ascii": ALL,
    "blank": mask_of("\t "),
    "cntrl": mask_of_range("\x00", "\x1f") | mask_of("\x7f"),
    "digit": DIGIT,
    "graph": mask_of_range("!", "~"),
    "lower": _LOWER,
    "print": mask_of_range(" ", "~"),
    "punct": mask_of(string.punctuation),
    "space": SPACE | mask_of("\v"),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": mask_of(string.hexdigits),
}

_CATEGORIES = """
C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So
Z Zl Zp Zs
"""
_SCRIPTS = """
Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid
Canadian_Aboriginal Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret
Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han
Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar
New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya
Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri
Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan Tifinagh
Ugaritic Unknown Vai Yi
"""


def _unicode() -> dict[str, Mask]:
    """Return the ASCII characters of all general categories and scripts.

    ASCII letters are in the script Latin. All other ASCII characters are in the script Common.
    """
    letters = _LOWER | _UPPER
    found = dict.fromkeys(_SCRIPTS.split(), NONE) | {"Latin": letters, "Common": ALL & ~letters}
    for name in _CATEGORIES.split():
        found[name] = mask_of(
            chr(code) for code in range(128) if unicodedata.category(chr(code)).startswith(name)
        )
    return found | {"Any": ALL}


UNICODE = _unicode()
"""The ASCII characters of the general categories and scripts, by their names in `\\p`."""
