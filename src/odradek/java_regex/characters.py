"""Sets of characters: classes, properties of Unicode, and cases.

The general categories come from the standard library. Scripts, blocks and other properties come from
the package `regex`, which is imported when a pattern uses one. Both are newer than the Unicode of
older JDKs: characters that a JDK does not know yet belong to no script there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Test = Callable[[str], bool]
"""Whether a character belongs to a set."""

LINE_TERMINATORS = "\n\r\x85\u2028\u2029"
HORIZONTAL_SPACE = "\t \xa0\u1680\u180e\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
VERTICAL_SPACE = "\n\x0b\f\r\x85\u2028\u2029"
ASCII_SPACE = " \t\n\x0b\f\r"


class CharacterSet:
    """A set of characters that remembers its answers."""

    __slots__ = ("_known", "_test")

    def __init__(self, test: Test) -> None:
        self._test = test
        self._known: dict[str, bool] = {}

    def __contains__(self, character: str) -> bool:
        known = self._known.get(character)
        if known is None:
            known = self._test(character)
            if len(self._known) < 1024:
                self._known[character] = known
        return known

    def __and__(self, other: CharacterSet) -> CharacterSet:
        return CharacterSet(lambda each: each in self and each in other)

    def __invert__(self) -> CharacterSet:
        return CharacterSet(lambda each: each not in self)


def union(sets: list[CharacterSet]) -> CharacterSet:
    """Return the union. Sets may be added to the list until the union is used."""
    return CharacterSet(lambda each: any(each in one for one in sets))


# -- cases ----------------------------------------------------------------------------------------


def upper(character: str) -> str:
    """Return the simple upper case: one character, or the character itself."""
    mapped = character.upper()
    if len(mapped) > 1:
        mapped = character.title()
    return mapped if len(mapped) == 1 else character


def lower(character: str) -> str:
    """Return the simple lower case."""
    return "i" if character == "\u0130" else character.lower()


def folded(character: str) -> str:
    """Return what two characters share that are equal with CASE_INSENSITIVE and UNICODE_CASE."""
    return lower(upper(character))


def folded_ascii(character: str) -> str:
    """Return what two characters share that are equal with CASE_INSENSITIVE alone."""
    return character.lower() if character.isascii() else character


def single(character: str, *, ignores_case: bool, is_unicode: bool) -> CharacterSet:
    """Return the set of a character and its other cases."""
    if ignores_case and is_unicode:
        wanted = folded(character)
        if upper(character) != wanted:
            return CharacterSet(lambda each: each == wanted or folded(each) == wanted)
    elif ignores_case and character.isascii():
        both = character.lower() + character.upper()
        return CharacterSet(lambda each: each in both)
    return CharacterSet(lambda each: each == character)


def span(first: str, last: str, *, ignores_case: bool, is_unicode: bool) -> CharacterSet:
    """Return the set of the characters from the first to the last, and their other cases."""
    if not ignores_case:
        return CharacterSet(lambda each: first <= each <= last)
    if is_unicode:
        return CharacterSet(
            lambda each: any(first <= case <= last for case in (each, upper(each), folded(each)))
        )
    return CharacterSet(
        lambda each: (
            first <= each <= last
            or (
                each.isascii()
                and any(first <= case <= last for case in (each.upper(), each.lower()))
            )
        )
    )


# -- predefined classes ---------------------------------------------------------------------------


def predefined(letter: str, *, is_unicode: bool) -> CharacterSet:
    r"""Return the set of `\d`, `\h`, `\s`, `\v` or `\w`, or of the negation in upper case."""
    known: dict[str, tuple[Test, Test]] = {
        "d": (_any_of("0123456789"), is_digit),
        "h": (_any_of(HORIZONTAL_SPACE), _any_of(HORIZONTAL_SPACE)),
        "s": (_any_of(ASCII_SPACE), _is_white_space),
        "v": (_any_of(VERTICAL_SPACE), _any_of(VERTICAL_SPACE)),
        "w": (is_ascii_word, is_word),
    }
    found = CharacterSet(known[letter.lower()][is_unicode])
    return ~found if letter.isupper() else found


def _any_of(characters: str) -> Test:
    return lambda each: each in characters


def _categories(*names: str) -> Test:
    return lambda each: unicodedata.category(each) in names


def is_ascii_word(character: str) -> bool:
    r"""Return whether it belongs to `\w` without UNICODE_CHARACTER_CLASS."""
    return character.isascii() and (character.isalnum() or character == "_")


def is_word(character: str) -> bool:
    r"""Return whether it belongs to `\w` with UNICODE_CHARACTER_CLASS."""
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc", "Nd", "Pc")
        or character in "\u200c\u200d"
        or _has("Alphabetic")(character)
    )


is_digit = _categories("Nd")
is_letter_or_digit = _categories("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")
is_non_spacing_mark = _categories("Mn")


def _is_white_space(character: str) -> bool:
    return character in "\t\n\x0b\f\r\x85" or unicodedata.category(character) in ("Zs", "Zl", "Zp")


# -- properties -----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _table(name: str) -> Any:
    """Return a pattern of the package `regex` for one character with a property; None if unknown."""
    import regex

    try:
        return regex.compile(rf"\p{{{name}}}", regex.V1)
    except regex.error:
        return None


def _has(name: str) -> Test:
    return lambda each: _table(name).match(each) is not None


def grapheme_end(text: str, position: int) -> int:
    r"""Return where the grapheme at a position ends (`\X`)."""
    import regex

    end: int = regex.compile(r"\X").match(text, position).end()
    return end


_GENERAL = (
    *(
        "Cn",
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "Mn",
        "Me",
        "Mc",
        "Nd",
        "Nl",
        "No",
        "Zs",
        "Zl",
        "Zp",
        "Cc",
    ),
    *("Cf", "Co", "Cs", "Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf"),
)
_CASED = ("Lu", "Ll", "Lt")
_GROUPS = {
    **{major: tuple(each for each in _GENERAL if each[0] == major) for major in "LMNZCPS"},
    "LC": _CASED,
    "LD": (*_CASED, "Lm", "Lo", "Nd"),
}
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_ASCII: dict[str, Test] = {
    "ASCII": str.isascii,
    "Alnum": lambda each: each.isascii() and each.isalnum(),
    "Alpha": lambda each: each.isascii() and each.isalpha(),
    "Blank": _any_of(" \t"),
    "Cntrl": lambda each: each < " " or each == "\x7f",
    "Digit": _any_of("0123456789"),
    "Graph": lambda each: "!" <= each <= "~",
    "Lower": lambda each: "a" <= each <= "z",
    "Print": lambda each: " " <= each <= "~",
    "Punct": _any_of(_PUNCTUATION),
    "Space": _any_of(ASCII_SPACE),
    "Upper": lambda each: "A" <= each <= "Z",
    "XDigit": _any_of("0123456789abcdefABCDEF"),
    "L1": lambda each: each <= "\xff",
    "all": lambda each: True,
}
_lower, _upper, _title = _has("Lowercase"), _has("Uppercase"), _categories("Lt")
_ignorable: Test = lambda each: (  # noqa: E731
    each <= "\x08"
    or "\x0e" <= each <= "\x1b"
    or "\x7f" <= each <= "\x9f"
    or unicodedata.category(each) == "Cf"
)
_identifier_start = _categories("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc")
_identifier_part = _categories(*("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc", "Nd", "Mc", "Mn"))
_JAVA: dict[str, Test] = {
    "javaLowerCase": _lower,
    "javaUpperCase": _upper,
    "javaTitleCase": _title,
    "javaAlphabetic": _has("Alphabetic"),
    "javaIdeographic": _has("Ideographic"),
    "javaDigit": is_digit,
    "javaDefined": lambda each: unicodedata.category(each) != "Cn",
    "javaLetter": _categories(*_GROUPS["L"]),
    "javaLetterOrDigit": is_letter_or_digit,
    "javaJavaIdentifierStart": _identifier_start,
    "javaJavaIdentifierPart": lambda each: _identifier_part(each) or _ignorable(each),
    "javaUnicodeIdentifierStart": _has("ID_Start"),
    "javaUnicodeIdentifierPart": lambda each: _has("ID_Continue")(each) or _ignorable(each),
    "javaIdentifierIgnorable": _ignorable,
    "javaSpaceChar": _categories("Zs", "Zl", "Zp"),
    "javaWhitespace": lambda each: (
        each in "\t\n\x0b\f\r\x1c\x1d\x1e\x1f"
        or (each not in "\xa0\u2007\u202f" and unicodedata.category(each) in ("Zs", "Zl", "Zp"))
    ),
    "javaISOControl": lambda each: each <= "\x1f" or "\x7f" <= each <= "\x9f",
    "javaMirrored": lambda each: unicodedata.mirrored(each) == 1,
}
_CASE_NAMES = {
    "Lower": "Alpha",
    "Upper": "Alpha",
    **dict.fromkeys(_CASED, "LC"),
}
"""With CASE_INSENSITIVE a property of one case is the property of all cases."""


def _any_case(character: str) -> bool:
    return _lower(character) or _upper(character) or _title(character)


def _is_graph(character: str) -> bool:
    return unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc", "Cs", "Cn")


_BINARY: dict[str, Test] = {
    "ALPHABETIC": _has("Alphabetic"),
    "ASSIGNED": lambda each: unicodedata.category(each) != "Cn",
    "CONTROL": _categories("Cc"),
    "HEX_DIGIT": lambda each: is_digit(each) or _has("Hex_Digit")(each),
    "IDEOGRAPHIC": _has("Ideographic"),
    "JOIN_CONTROL": _any_of("\u200c\u200d"),
    "LETTER": _categories(*_GROUPS["L"]),
    "LOWERCASE": _lower,
    "NONCHARACTER_CODE_POINT": lambda each: (
        ord(each) & 0xFFFE == 0xFFFE or "\ufdd0" <= each <= "\ufdef"
    ),
    "TITLECASE": _title,
    "PUNCTUATION": _categories(*_GROUPS["P"]),
    "UPPERCASE": _upper,
    "WHITE_SPACE": _is_white_space,
    "WORD": is_word,
    **{
        name.upper(): _has(name)
        for name in (
            *("Emoji", "Emoji_Presentation", "Emoji_Modifier", "Emoji_Modifier_Base"),
            *("Emoji_Component", "Extended_Pictographic"),
        )
    },
}
_BINARY_ALIASES = {
    "HEXDIGIT": "HEX_DIGIT",
    "JOINCONTROL": "JOIN_CONTROL",
    "NONCHARACTERCODEPOINT": "NONCHARACTER_CODE_POINT",
    "WHITESPACE": "WHITE_SPACE",
}
_POSIX: dict[str, Test] = {
    "ALPHA": _has("Alphabetic"),
    "LOWER": _lower,
    "UPPER": _upper,
    "SPACE": _is_white_space,
    "PUNCT": _categories(*_GROUPS["P"]),
    "XDIGIT": _BINARY["HEX_DIGIT"],
    "ALNUM": lambda each: is_digit(each) or _has("Alphabetic")(each),
    "CNTRL": _categories("Cc"),
    "DIGIT": is_digit,
    "BLANK": lambda each: each == "\t" or unicodedata.category(each) == "Zs",
    "GRAPH": _is_graph,
    "PRINT": lambda each: _is_graph(each) or unicodedata.category(each) == "Zs",
}


def _general(name: str, ignores_case: bool) -> Test | None:
    """Return a category, a POSIX class of ASCII, or a method of java.lang.Character."""
    if ignores_case:
        if name in ("javaLowerCase", "javaUpperCase", "javaTitleCase"):
            return _any_case
        name = _CASE_NAMES.get(name, name)
    if name in _GENERAL:
        return _categories(name)
    if name in _GROUPS:
        return _categories(*_GROUPS[name])
    return _ASCII.get(name) or _JAVA.get(name)


def _posix(name: str, ignores_case: bool) -> Test | None:
    """Return a POSIX class of Unicode."""
    if ignores_case and name in ("LOWER", "UPPER"):
        return _any_case
    return _POSIX.get(name)


def _binary(name: str, ignores_case: bool) -> Test | None:
    if ignores_case and name in ("LOWERCASE", "UPPERCASE", "TITLECASE"):
        return _any_case
    return _BINARY.get(_BINARY_ALIASES.get(name, name)) or _posix(name, ignores_case)


def _script(name: str) -> Test | None:
    known = re.fullmatch(r"[A-Za-z_]+", name) and _table(f"Script={name}")
    return _has(f"Script={name}") if known else None


def _block(name: str) -> Test | None:
    known = re.fullmatch(r"[A-Za-z0-9_ -]+", name) and _table(f"Block={name}")
    return _has(f"Block={name}") if known else None


def with_property(name: str, *, ignores_case: bool, is_unicode: bool) -> CharacterSet | None:
    r"""Return the set of `\p{name}`; None if there is no such property."""
    key, is_pair, value = name.partition("=")
    found: Test | None = None
    if is_pair:
        match key.lower():
            case "sc" | "script":
                found = _script(value)
            case "blk" | "block":
                found = _block(value)
            case "gc" | "general_category":
                found = _general(value, ignores_case)
            case _:
                pass
    elif name.startswith("In"):
        found = _block(name[2:])
    elif name.startswith("Is"):
        name = name[2:]
        found = _binary(name.upper(), ignores_case)
        found = found or _general(name, ignores_case) or _script(name)
    else:
        if is_unicode:
            found = _posix(name.upper(), ignores_case)
        found = found or _general(name, ignores_case)
    return None if found is None else CharacterSet(found)
