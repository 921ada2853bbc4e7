"""Reads character classes in brackets, such as `[a-z]` and `[^[:space:]\\d]`."""

from __future__ import annotations

from odradek.core.group.consumer.regex.classes import (
    ALL,
    NONE,
    POSIX,
    Mask,
    folded,
    mask_of_folded_range,
    mask_of_range,
)
from odradek.core.group.consumer.regex.escapes import InvalidRegex, read_escape, read_set


class ClassReader:
    """Reads one class. `position` is the start of the class. After `read`, it is the end."""

    def __init__(self, pattern: str, position: int, ignore_case: bool) -> None:
        self._pattern = pattern
        self._begin = position
        self._ignore_case = ignore_case
        self.position = position

    def read(self) -> Mask:
        """Read the class and return its set of characters.

        Raises:
            InvalidRegex: the class does not end, or has an invalid part.
        """
        self.position += 1
        is_negated = self._pattern.startswith("^", self.position)
        self.position += is_negated
        mask = NONE
        is_first = True
        while is_first or not self._pattern.startswith("]", self.position):
            mask |= self._read_posix() or self._read_set_or_range()
            is_first = False
        self.position += 1
        return ALL & ~mask if is_negated else mask

    def _read_posix(self) -> Mask | None:
        pattern, position = self._pattern, self.position
        if not pattern.startswith("[:", position):
            return None
        end = pattern.find(":]", position + 2)
        if end < 0:
            return None
        name = pattern[position + 2 : end]
        mask = POSIX.get(name.removeprefix("^"))
        if mask is None:
            raise InvalidRegex(f"there is no class of characters [:{name}:]")
        self.position = end + 2
        if self._ignore_case:
            mask = folded(mask)
        return ALL & ~mask if name.startswith("^") else mask

    def _read_set_or_range(self) -> Mask:
        pattern = self._pattern
        if pattern.startswith("\\", self.position):
            found = read_set(pattern, self.position, self._ignore_case)
            if found is not None:
                mask, self.position = found
                return mask
        low = high = self._read_character()
        following = pattern[self.position : self.position + 2]
        if len(following) == 2 and following[0] == "-" and following[1] != "]":
            self.position += 1
            high = self._read_character()
            if high < low:
                raise InvalidRegex(f"{low}-{high} is not a valid range")
        return (mask_of_folded_range if self._ignore_case else mask_of_range)(low, high)

    def _read_character(self) -> str:
        pattern, position = self._pattern, self.position
        if position >= len(pattern):
            raise InvalidRegex(f"missing ] after {pattern[self._begin :][:8]!r}")
        if pattern[position] == "\\":
            character, self.position = read_escape(pattern, position)
            return character
        self.position += 1
        return pattern[position]
