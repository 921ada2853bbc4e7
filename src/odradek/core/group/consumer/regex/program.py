"""Converts a parsed pattern to a nondeterministic automaton (Thompson's construction)."""

from __future__ import annotations

from typing import NamedTuple

from odradek.core.group.consumer.regex.classes import NONE, Mask
from odradek.core.group.consumer.regex.escapes import InvalidRegex
from odradek.core.group.consumer.regex.nodes import (
    At,
    Characters,
    Choice,
    Node,
    Place,
    Repeat,
    Sequence,
)

STATES_MAX = 5_000
"""Maximum number of states of a pattern. A counted repetition has states for each repetition."""


class State(NamedTuple):
    """A state of the automaton.

    The state reads a character of `mask`. If `mask` is `NONE`, it continues without reading.
    """

    mask: Mask
    place: Place | None
    """The condition for continuing; None if there is no condition."""
    following: tuple[int, ...]


class Program:
    """States by number. The start state is `begin`, the accepting state is `accept`."""

    def __init__(self, node: Node) -> None:
        """Build the automaton.

        Raises:
            InvalidRegex: the automaton would have more than `STATES_MAX` states.
        """
        self.states: list[State] = []
        # Build from the end, so that the number of the next state is known (except in loops).
        self.accept = self._add(NONE, None, ())
        self.begin = self._build(node, self.accept)

    def _add(self, mask: Mask, place: Place | None, following: tuple[int, ...]) -> int:
        if len(self.states) >= STATES_MAX:
            raise InvalidRegex("it is too large after its counts are expanded")
        self.states.append(State(mask, place, following))
        return len(self.states) - 1

    def _build(self, node: Node, after: int) -> int:
        """Build the states of a node that continues at `after`. Return the first state."""
        if isinstance(node, Characters):
            return self._add(node.mask, None, (after,)) if node.mask else self._dead_end()
        if isinstance(node, At):
            return self._add(NONE, node.place, (after,))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self._build(part, after)
            return after
        if isinstance(node, Choice):
            return self._add(NONE, None, tuple(self._build(each, after) for each in node.options))
        return self._build_repeat(node, after)

    def _dead_end(self) -> int:
        return self._add(NONE, None, ())

    def _build_repeat(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = self._add(NONE, None, ())
            body = self._build(node.node, loop)
            self.states[loop] = State(NONE, None, (body, after))
            first = loop
        else:
            first = after
            for _ in range(node.most - node.least):
                first = self._add(NONE, None, (self._build(node.node, first), after))
        for _ in range(node.least):
            before = len(self.states)
            first = self._build(node.node, first)
            if len(self.states) == before:
                break  # the node is empty, so more repetitions have no effect
        return first
