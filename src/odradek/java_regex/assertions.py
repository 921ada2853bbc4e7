"""The conditions on positions. Each has the text, the position, and the end of the last match."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from odradek.java_regex.characters import (
    LINE_TERMINATORS,
    grapheme_end,
    is_letter_or_digit,
    is_non_spacing_mark,
    is_word,
)


def is_begin(text: str, position: int, last: int) -> bool:
    r"""`^`, `\A`."""
    return position == 0


def is_end(text: str, position: int, last: int) -> bool:
    r"""`\z`."""
    return position == len(text)


def is_last_match(text: str, position: int, last: int) -> bool:
    r"""`\G`."""
    return position == last


def is_line_begin(text: str, position: int, last: int) -> bool:
    """`^` with MULTILINE: not at the end of the text."""
    if position == len(text):
        return False
    if position == 0:
        return True
    before = text[position - 1]
    if before == "\r" and text[position] == "\n":
        return False
    return before in LINE_TERMINATORS


def is_unix_line_begin(text: str, position: int, last: int) -> bool:
    """`^` with MULTILINE and UNIX_LINES."""
    return position < len(text) and (position == 0 or text[position - 1] == "\n")


def is_line_end(text: str, position: int, last: int) -> bool:
    """`$` with MULTILINE: not between `\r` and `\n`."""
    if position == len(text):
        return True
    if text[position] == "\n" and position > 0 and text[position - 1] == "\r":
        return False
    return text[position] in LINE_TERMINATORS


def is_last_line_end(text: str, position: int, last: int) -> bool:
    r"""`$`, `\Z`: the end, or before the line terminator at the end."""
    rest = len(text) - position
    if rest > 2 or (rest == 2 and text[position:] != "\r\n"):
        return False
    return is_line_end(text, position, last)


def is_unix_line_end(text: str, position: int, last: int) -> bool:
    """`$` with MULTILINE and UNIX_LINES."""
    return position == len(text) or text[position] == "\n"


def is_unix_end(text: str, position: int, last: int) -> bool:
    r"""`$`, `\Z` with UNIX_LINES."""
    return position == len(text) or text[position:] == "\n"


def is_grapheme_boundary(text: str, position: int, last: int) -> bool:
    r"""`\b{g}`."""
    at = 0
    while at < position:
        at = grapheme_end(text, at)
    return at == position and bool(text)


def word_boundary(*, is_unicode: bool, wanted: bool) -> Callable[[str, int, int], bool]:
    r"""Return `\b`, or `\B` if `wanted` is false."""

    def is_part(text: str, position: int) -> bool:
        character = text[position]
        if is_word(character) if is_unicode else character == "_" or is_letter_or_digit(character):
            return True
        return is_non_spacing_mark(character) and _has_base(text, position)

    def holds(text: str, position: int, last: int) -> bool:
        left = position > 0 and is_part(text, position - 1)
        right = position < len(text) and is_part(text, position)
        return (left != right) == wanted

    return holds


def _has_base(text: str, position: int) -> bool:
    while position >= 0:
        if is_letter_or_digit(text[position]):
            return True
        if unicodedata.category(text[position]) != "Mn":
            return False
        position -= 1
    return False
