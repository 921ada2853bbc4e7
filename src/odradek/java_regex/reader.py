r"""Reads the characters of a pattern one after the other, with what COMMENTS skips.

Quotes (`\Q…\E`) are replaced by escapes first.
"""

from __future__ import annotations

from odradek.java_regex.characters import ASCII_SPACE, LINE_TERMINATORS
from odradek.java_regex.errors import PatternError

END = "\0"
"""What is read after the end. A pattern can also contain it: see `Reader.is_at_end`."""
_LETTERS_AND_DIGITS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_DIGITS = frozenset("0123456789")


def without_quotes(pattern: str) -> str:
    r"""Return the pattern with escapes instead of `\Q…\E`. A quote without end has all that follows."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        two = pattern[position : position + 2]
        if two == "\\Q":
            end = pattern.find("\\E", position + 2)
            quoted = pattern[position + 2 : end if end >= 0 else len(pattern)]
            parts.append(_escaped(quoted))
            position = end + 2 if end >= 0 else len(pattern)
        else:
            size = 2 if two[0] == "\\" else 1
            parts.append(two[:size])
            position += size
    return "".join(parts)


def _escaped(quoted: str) -> str:
    if quoted and quoted[0] in _DIGITS:
        # It may follow a back-reference.
        return f"\\x3{quoted[0]}" + _escaped_rest(quoted[1:])
    return _escaped_rest(quoted)


def _escaped_rest(quoted: str) -> str:
    return "".join(each if _is_plain(each) else f"\\{each}" for each in quoted)


def _is_plain(character: str) -> bool:
    return not character.isascii() or character in _LETTERS_AND_DIGITS


class Reader:
    """A position in a pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.text = without_quotes(pattern)
        self.position = 0
        self._skips_comments = False
        self._unix_lines = False

    def set_flags(self, *, skips_comments: bool, unix_lines: bool) -> None:
        """Set whether spaces and comments are skipped, and whether only \\n ends a comment."""
        self._skips_comments = skips_comments
        self._unix_lines = unix_lines

    def move(self, count: int) -> None:
        """Go so many characters ahead, or back if the number is negative."""
        self.position += count

    def go_to(self, position: int) -> None:
        """Go to a position."""
        self.position = position

    def error(self, problem: str) -> PatternError:
        """Return an error with the pattern and the position."""
        return PatternError(f"{problem} near index {self.position}: {self.pattern}")

    def is_at_end(self) -> bool:
        """Return whether all was read."""
        return self.position >= len(self.text)

    def at(self, position: int) -> str:
        """Return the character at a position."""
        return self.text[position] if 0 <= position < len(self.text) else END

    def peek(self) -> str:
        """Return the next character. The position is then at this character."""
        if self._skips_comments:
            self._skip()
        return self.at(self.position)

    def read(self) -> str:
        """Return the next character, and go to the one after it."""
        if self._skips_comments:
            self._skip()
        character = self.at(self.position)
        self.position += 1
        return character

    def read_escaped(self) -> str:
        """Return the next character also if it is a space or `#`, and go to the one after it."""
        character = self.at(self.position)
        self.position += 1
        return character

    def advance(self) -> str:
        """Go to the next character, and return it."""
        self.position += 1
        return self.peek()

    def _skip(self) -> None:
        while True:
            character = self.at(self.position)
            if character == "#":
                ends = "\n" if self._unix_lines else LINE_TERMINATORS
                while not self.is_at_end() and self.at(self.position) not in ends:
                    self.position += 1
            elif character in ASCII_SPACE:
                self.position += 1
            else:
                return
