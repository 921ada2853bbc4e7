"""What a parsed pattern is made of."""

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
    """Nothing, at a certain place."""

    place: Place


class Sequence(NamedTuple):
    """One after another; without parts: nothing, anywhere."""

    parts: tuple[Node, ...]


class Choice(NamedTuple):
    """One of several."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """Several times."""

    node: Node
    least: int
    most: int | None
    """None: any number of times."""


Node = Characters | At | Sequence | Choice | Repeat

NOTHING = Sequence(())
