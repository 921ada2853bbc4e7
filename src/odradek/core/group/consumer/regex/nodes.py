"""The nodes of a parsed pattern."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from odradek.core.group.consumer.regex.classes import Mask


class Place(Enum):
    """A condition on the place between two characters."""

    BEGIN = "begin of the text"
    END = "end of the text"
    BOUNDARY = "begin or end of a word"
    NO_BOUNDARY = "neither"


class Characters(NamedTuple):
    """One character of a set."""

    mask: Mask


class At(NamedTuple):
    """The empty string at a certain place."""

    place: Place


class Sequence(NamedTuple):
    """Parts that follow each other; without parts, the empty string."""

    parts: tuple[Node, ...]


class Choice(NamedTuple):
    """One of several alternatives."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """A repetition."""

    node: Node
    least: int
    most: int | None
    """None if unlimited."""


Node = Characters | At | Sequence | Choice | Repeat

NOTHING = Sequence(())
