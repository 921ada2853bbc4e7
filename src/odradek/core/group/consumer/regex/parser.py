"""Parses patterns in the syntax of RE2 with its Perl extensions, in the same way as RE2/J.

A pattern must match the whole text, and the text of groups is not returned. Therefore two things
have no effect: whether an operator is greedy or lazy, and the names of groups. The parser checks
the syntax of both, and otherwise ignores them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from odradek.core.group.consumer.regex import classes
from odradek.core.group.consumer.regex.character_class import ClassReader
from odradek.core.group.consumer.regex.escapes import InvalidRegex, read_escape, read_set
from odradek.core.group.consumer.regex.nodes import (
    NOTHING,
    At,
    Characters,
    Choice,
    Node,
    Place,
    Repeat,
    Sequence,
)

__all__ = ["InvalidRegex", "parse"]

REPEAT_MAX = 1000
DEPTH_MAX = 200
"""Maximum nesting of groups."""

_COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_GROUP_NAME = re.compile(r"\(\?P?<([^>]*)>")
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_PLACES = {
    "A": Place.BEGIN,
    "b": Place.BOUNDARY,
    "B": Place.NO_BOUNDARY,
    "z": Place.END,
}


class _Flags(NamedTuple):
    ignore_case: bool = False
    dot_is_all: bool = False


class _Group:
    """The parsed part of a group that is still open."""

    __slots__ = ("flags_before", "options", "parts")

    def __init__(self, flags_before: _Flags) -> None:
        self.flags_before = flags_before
        self.options: list[Node] = []
        self.parts: list[Node] = []

    def end_option(self) -> None:
        self.options.append(_sequence(self.parts))
        self.parts = []

    def node(self) -> Node:
        self.end_option()
        return self.options[0] if len(self.options) == 1 else Choice(tuple(self.options))


def parse(pattern: str) -> Node:
    """Return the pattern's syntax tree.

    Raises:
        InvalidRegex: RE2 rejects the pattern, or groups are nested more than `DEPTH_MAX` deep.
    """
    return _Parser(pattern).parse()


class _Parser:
    """Parses one pattern in one pass, without recursion."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._flags = _Flags()
        self._groups = [_Group(self._flags)]
        self._names: set[str] = set()
        self._was_repeat = False

    def parse(self) -> Node:
        while self._position < len(self._pattern):
            # RE2/J rejects two repetition operators in a row. In this check it also treats a
            # literal "{" as a repetition operator.
            is_brace = self._pattern[self._position] == "{"
            is_repeat = self._read_repeat()
            if not is_repeat:
                self._read_one()
            self._was_repeat = is_repeat or is_brace
        if len(self._groups) > 1:
            raise InvalidRegex("missing )")
        return self._groups[0].node()

    # -- single nodes -----------------------------------------------------------------------------

    def _read_one(self) -> None:
        character = self._pattern[self._position]
        if character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "\\":
            self._read_backslash()
        elif character == "[":
            reader = ClassReader(self._pattern, self._position, self._flags.ignore_case)
            self._add(Characters(reader.read()))
            self._position = reader.position
        else:
            self._position += 1
            self._read_plain(character)

    def _read_plain(self, character: str) -> None:
        if character == "|":
            self._groups[-1].end_option()
        elif character == "^":
            self._add(At(Place.BEGIN))
        elif character == "$":
            self._add(At(Place.END))
        elif character == ".":
            mask = classes.ALL
            if not self._flags.dot_is_all:
                mask &= ~classes.NEWLINE
            self._add(Characters(mask))
        else:
            self._add_character(character)

    def _add(self, node: Node) -> None:
        self._groups[-1].parts.append(node)

    def _add_character(self, character: str) -> None:
        mask = classes.mask_of_character(character, self._flags.ignore_case)
        self._add(Characters(mask))

    def _read_backslash(self) -> None:
        pattern, position = self._pattern, self._position
        following = pattern[position + 1 : position + 2]
        if following in _PLACES and following:
            self._add(At(_PLACES[following]))
            self._position += 2
        elif following == "Q":
            literal, _, _ = pattern[position + 2 :].partition("\\E")
            self._position = min(position + 4 + len(literal), len(pattern))
            for character in literal:
                self._add_character(character)
        elif (found := read_set(pattern, position, self._flags.ignore_case)) is not None:
            mask, self._position = found
            self._add(Characters(mask))
        else:
            character, self._position = read_escape(pattern, position)
            self._add_character(character)

    # -- groups -----------------------------------------------------------------------------------

    def _open(self) -> None:
        pattern, position = self._pattern, self._position
        if not pattern.startswith("(?", position):
            self._begin_group(position + 1, self._flags)
        elif (named := _GROUP_NAME.match(pattern, position)) is not None:
            self._take_name(named.group(1))
            self._begin_group(named.end(), self._flags)
        else:
            self._read_flags()

    def _begin_group(self, position: int, flags: _Flags) -> None:
        if len(self._groups) > DEPTH_MAX:
            raise InvalidRegex(f"groups are nested more than {DEPTH_MAX} deep")
        self._groups.append(_Group(self._flags))
        self._flags = flags
        self._position = position

    def _take_name(self, name: str) -> None:
        if not name or not all(each == "_" or (each.isascii() and each.isalnum()) for each in name):
            raise InvalidRegex(f"{name!r} is not a valid group name")
        if name in self._names:
            raise InvalidRegex(f"two groups have the name {name!r}")
        self._names.add(name)

    def _read_flags(self) -> None:
        found = _FLAGS.match(self._pattern, self._position)
        if found is None:
            raise InvalidRegex(f"unknown syntax {self._pattern[self._position :][:4]!r}")
        on, off, end = found.groups()
        flags = _Flags(
            ("i" in on or self._flags.ignore_case) and "i" not in (off or ""),
            ("s" in on or self._flags.dot_is_all) and "s" not in (off or ""),
        )
        if end == ":":
            self._begin_group(found.end(), flags)
        else:
            self._flags = flags
            self._position = found.end()

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise InvalidRegex("unexpected )")
        group = self._groups.pop()
        self._flags = group.flags_before
        self._add(group.node())
        self._position += 1

    # -- repetition -------------------------------------------------------------------------------

    def _read_repeat(self) -> bool:
        """Read a repetition operator; return False if there is none."""
        pattern, begin = self._pattern, self._position
        character = pattern[begin]
        most: int | None = None
        if character in "*+?":
            least = int(character == "+")
            most = 1 if character == "?" else None
            end = begin + 1
        elif character == "{" and (count := _COUNT.match(pattern, begin)) is not None:
            least, most = _counts(count)
            end = count.end()
        else:
            return False
        if pattern.startswith("?", end):
            end += 1
        parts = self._groups[-1].parts
        if not parts:
            raise InvalidRegex(f"nothing for {pattern[begin:end]!r} to repeat")
        if self._was_repeat:
            raise InvalidRegex(f"{pattern[begin:end]!r} repeats a repetition")
        parts[-1] = Repeat(parts[-1], least, most)
        self._position = end
        return True


def _counts(found: re.Match[str]) -> tuple[int, int | None]:
    low, comma, high = found.groups()
    if max(len(low), len(high or "")) > 8:
        raise InvalidRegex(f"{found.group()} has too many repetitions")
    least = int(low)
    most = int(high) if high else None if comma else least
    if least > REPEAT_MAX or (most is not None and not least <= most <= REPEAT_MAX):
        raise InvalidRegex(f"{found.group()} is not a valid count")
    return least, most


def _sequence(parts: list[Node]) -> Node:
    if not parts:
        return NOTHING
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))
