"""The nodes of a parsed pattern."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from odradek.core.group.consumer.regex.classes import Mask


class Place(Enum):
    """A condition on the place between two characters."""

    BEGIN = "beginning of the text"
    END = "end of the text"
    BOUNDARY = "beginning or end of a word"
    NO_BOUNDARY = "neither beginning nor end of a word"


class Characters(NamedTuple):
    """One character of a set."""

    mask: Mask


class At(NamedTuple):
    """The empty string at a certain place."""

    place: Place


class Sequence(NamedTuple):
    """Parts that follow each other. A sequence without parts is the empty string."""

    parts: tuple[Node, ...]


class Choice(NamedTuple):
    """One of several alternatives."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """A node that is repeated from `least` to `most` times."""

    node: Node
    least: int
    most: int | None
    """None if the number is unlimited."""


Node = Characters | At | Sequence | Choice | Repeat

NOTHING = Sequence(())
