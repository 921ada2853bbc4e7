"""Reads escape sequences in patterns."""

from __future__ import annotations

import re

from odradek.core.group.consumer.regex.classes import ALL, PERL, UNICODE, Mask, folded

CODE_MAX = 0x10FFFF

_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_HEX = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\})")
_UNICODE_CLASS = re.compile(r"\\[pP](?:\{(\^?)([^}]*)\}|([^{]))", re.DOTALL)


class InvalidRegex(ValueError):
    """The pattern is invalid; the message gives the reason."""


def read_set(pattern: str, position: int, ignore_case: bool) -> tuple[Mask, int] | None:
    """Read an escape such as `\\d` or `\\p{...}`. Return its set and the position after it.

    Return None if the escape does not stand for a set.

    Raises:
        InvalidRegex: the set does not exist.
    """
    kind = pattern[position + 1 : position + 2]
    if not kind:
        return None
    if kind in "pP":
        return _read_unicode(pattern, position, ignore_case)
    mask = PERL.get(kind.lower())
    if mask is None:
        return None
    if ignore_case:
        mask = folded(mask)
    return mask if kind.islower() else ALL & ~mask, position + 2


def _read_unicode(pattern: str, position: int, ignore_case: bool) -> tuple[Mask, int]:
    found = _UNICODE_CLASS.match(pattern, position)
    if found is None:
        raise InvalidRegex(f"{pattern[position:][:8]!r} is not a character class")
    caret, name, letter = found.groups()
    mask = UNICODE.get(letter or name)
    if mask is None:
        raise InvalidRegex(f"there is no character class {letter or name!r}")
    if ignore_case:
        mask = folded(mask)
    is_negated = (pattern[position + 1] == "P") != bool(caret)
    return ALL & ~mask if is_negated else mask, found.end()


def read_escape(pattern: str, position: int) -> tuple[str, int]:
    """Return the character of an escape, and the position after the escape.

    Raises:
        InvalidRegex: the escape is invalid.
    """
    character = pattern[position + 1 : position + 2]
    if not character:
        raise InvalidRegex("a backslash at the end")
    if (octal := _OCTAL.match(pattern, position)) is not None:
        return chr(int(octal.group(1), 8)), octal.end()
    if (code := _HEX.match(pattern, position)) is not None:
        number = int(code.group(1) or code.group(2), 16)
        if number <= CODE_MAX:
            return chr(number), code.end()
    elif character in _CONTROLS:
        return _CONTROLS[character], position + 2
    elif not character.isascii() or not character.isalnum():
        return character, position + 2
    raise InvalidRegex(f"\\{character} is not a valid escape")
