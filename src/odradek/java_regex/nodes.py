"""The parts of a parsed pattern."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from odradek.java_regex.characters import CharacterSet

UNLIMITED = 0x7FFFFFFF
"""The maximum of a quantifier without one. As in Java it takes part in sums of 32 bits."""


class Greed(Enum):
    """How a quantifier chooses the number of repetitions."""

    GREEDY = auto()
    RELUCTANT = auto()
    POSSESSIVE = auto()


@dataclass(frozen=True, slots=True)
class Character:
    """One character."""

    allowed: CharacterSet


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition on a position: `holds(text, position, end of the match before)`."""

    holds: Callable[[str, int, int], bool]


@dataclass(frozen=True, slots=True)
class LineEnding:
    r"""A line terminator: `\R`."""


@dataclass(frozen=True, slots=True)
class Grapheme:
    r"""What a reader sees as one character: `\X`."""


@dataclass(frozen=True, slots=True)
class BackReference:
    """The text of a group. `fold` converts a character so that both cases are equal."""

    group: int
    fold: Callable[[str], str] | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first of the alternatives that leads to a match."""

    alternatives: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group. `number` is None for `(?:…)`."""

    body: Node
    number: int | None


@dataclass(frozen=True, slots=True)
class Atomic:
    """`(?>…)`: only the first way to match the body is tried."""

    body: Node


@dataclass(frozen=True, slots=True)
class LookAhead:
    """`(?=…)` or `(?!…)`."""

    body: Node
    is_negative: bool


@dataclass(frozen=True, slots=True)
class LookBehind:
    """`(?<=…)` or `(?<!…)`. `least` and `most` are the lengths of the body."""

    body: Node
    is_negative: bool
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A quantifier."""

    body: Node
    least: int
    most: int
    greed: Greed


Node = (
    Character
    | Assertion
    | LineEnding
    | Grapheme
    | BackReference
    | Sequence
    | Choice
    | Group
    | Atomic
    | LookAhead
    | LookBehind
    | Repeat
)
