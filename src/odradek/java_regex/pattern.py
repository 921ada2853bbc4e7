"""Patterns, and Java's replacement syntax."""

from __future__ import annotations

from odradek.java_regex.errors import MatchRefused, PatternError
from odradek.java_regex.machine import Machine
from odradek.java_regex.parser import Parser
from odradek.java_regex.program import Program

_DIGITS = "0123456789"
_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class Replacement:
    """A replacement: text, `$1`, `${name}`, and characters after a backslash."""

    def __init__(self, text: str, groups: int, names: dict[str, int]) -> None:
        """Parse the replacement for a pattern with so many groups, and with these names.

        Raises:
            PatternError: it is malformed, or the pattern lacks one of its groups.
        """
        self._text = text
        self._groups = groups
        self._names = names
        self._parts: list[str | int] = []
        position = 0
        while position < len(text):
            position = self._read(position)

    def expanded(self, machine: Machine) -> str:
        """Return the text for the last match. A group that is not set is empty."""
        return "".join(
            part if isinstance(part, str) else _group_text(machine, part) for part in self._parts
        )

    def _error(self, problem: str) -> PatternError:
        return PatternError(f"{problem} in the replacement {self._text}")

    def _read(self, position: int) -> int:
        text = self._text
        character = text[position]
        position += 1
        if character == "\\":
            if position == len(text):
                raise self._error("the character after the backslash is missing")
            self._parts.append(text[position])
            return position + 1
        if character != "$":
            self._parts.append(character)
            return position
        if position == len(text):
            raise self._error("the number or name of a group is missing after $")
        return (
            self._read_name(position + 1) if text[position] == "{" else self._read_number(position)
        )

    def _read_name(self, position: int) -> int:
        text = self._text
        end = position
        while end < len(text) and text[end] in _NAME:
            end += 1
        name = text[position:end]
        if not name or end == len(text) or text[end] != "}":
            raise self._error("${ is not followed by a name and }")
        if name[0] in _DIGITS or name not in self._names:
            raise self._error(f"the pattern has no group {{{name}}}")
        self._parts.append(self._names[name])
        return end + 1

    def _read_number(self, position: int) -> int:
        text = self._text
        if text[position] not in _DIGITS:
            raise self._error("$ is followed by neither a number nor a name")
        number = int(text[position])
        position += 1
        while position < len(text) and text[position] in _DIGITS:
            longer = number * 10 + int(text[position])
            if longer > self._groups:
                break
            number = longer
            position += 1
        if number > self._groups:
            raise self._error(f"the pattern has no group {number}")
        self._parts.append(number)
        return position


def _group_text(machine: Machine, group: int) -> str:
    begin, end = machine.groups[2 * group : 2 * group + 2]
    return "" if begin < 0 else machine.text[begin:end]


class Pattern:
    """A pattern. All functions with a text raise `MatchRefused` if it takes too long."""

    def __init__(self, text: str) -> None:
        """Parse a pattern.

        Raises:
            PatternError: it is malformed or not supported.
        """
        self.text = text
        parser = Parser(text)
        self._program = Program(parser.parse(), has_references=parser.has_references)
        self._names = parser.names
        self.groups = parser.groups
        """The number of groups."""

    def replacement(self, text: str) -> Replacement:
        """Parse a replacement for the matches of this pattern.

        Raises:
            PatternError: it is malformed, or there is no such group.
        """
        return Replacement(text, self.groups, self._names)

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        machine = Machine(text, self.groups, self._program.variables, must_end=True)
        return machine.run(self._program.start, 0) >= 0

    def replace_all(self, text: str, replacement: Replacement) -> str:
        """Return the text with all matches replaced."""
        return self._replaced(text, replacement, only_first=False)

    def replace_first(self, text: str, replacement: Replacement) -> str:
        """Return the text with the first match replaced."""
        return self._replaced(text, replacement, only_first=True)

    def _replaced(self, text: str, replacement: Replacement, *, only_first: bool) -> str:
        machine = Machine(text, self.groups, self._program.variables)
        parts: list[str] = []
        position = kept = 0
        while position <= len(text) and machine.search(self._program.start, position):
            begin, end = machine.groups[:2]
            parts += (text[kept:begin], replacement.expanded(machine))
            kept = end
            position = end + 1 if end == begin else end
            if end == begin and text[end : end + 1] > "\uffff":
                # Java searches on in the middle of the character.
                raise MatchRefused("an empty match is followed by a character above U+FFFF")
            if only_first:
                break
        return "".join(parts) + text[kept:]
