"""Matches texts by following all paths of the automaton at the same time, character by character.

After each character the automaton is in a set of states. The transitions from a set of states to
the next set are cached (RE2's lazy DFA). So most characters need only one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.consumer.regex.classes import NONE, WORD
from odradek.core.group.consumer.regex.escapes import InvalidRegex
from odradek.core.group.consumer.regex.nodes import Place
from odradek.core.group.consumer.regex.parser import parse
from odradek.core.group.consumer.regex.program import Program

REMEMBERED_MAX = 300_000
"""Maximum number of states in all cached sets (about 10 MB). Above it, the cache is cleared."""
LENGTH_MAX = 10_000
"""Maximum length of a pattern. It limits the time for parsing."""
WORK_MAX = 20_000_000
"""Maximum number of states that a pattern may visit, in all its matches together (a few seconds).
Above it, matching is aborted."""

_EDGE = -1
"""The code that stands for the beginning and for the end of the text."""


class CostlyRegex(Exception):
    """A pattern takes too long to match."""


class _Set:
    """A set of states and its cached transitions. `before` is the previous character's code."""

    __slots__ = ("before", "is_match", "next", "states")

    def __init__(self, states: frozenset[int], before: int) -> None:
        self.states = states
        self.before = before
        self.next: dict[str, _Set] = {}
        self.is_match: bool | None = None
        """Whether a text that ends in these states matches; None if this is not computed yet."""

    def remember_match(self, is_match: bool) -> bool:
        """Store and return whether a text that ends in these states matches."""
        self.is_match = is_match
        return is_match


class Regex:
    """A compiled pattern.

    Raises:
        InvalidRegex: the pattern is invalid or too large.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > LENGTH_MAX:
            raise InvalidRegex(f"it is longer than {LENGTH_MAX} characters")
        self._program = Program(parse(pattern))
        self._work = 0
        self._remembered = 0
        self._sets: dict[tuple[frozenset[int], int], _Set] = {}
        self._begin = self._set(frozenset((self._program.begin,)), _EDGE)

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole text, which must be ASCII.

        Raises:
            CostlyRegex: matching has visited more than `WORK_MAX` states.
        """
        current = self._begin
        for character in text:
            following = current.next.get(character)
            if following is None:
                following = self._step(current, character)
            current = following
            if not current.states:
                return False
        if current.is_match is not None:
            return current.is_match
        return current.remember_match(self._program.accept in self._reach(current, _EDGE))

    def _set(self, states: frozenset[int], before: int) -> _Set:
        """Return the cached set, or a new set.

        Two previous characters are equivalent if both or neither are word characters.
        """
        kind = before if before == _EDGE else WORD >> before & 1
        key = (states, kind)
        found = self._sets.get(key)
        if found is None:
            self._remembered += len(states) + 1
            if self._remembered > REMEMBERED_MAX:
                self._forget()
            found = self._sets[key] = _Set(states, before)
        return found

    def _forget(self) -> None:
        for each in self._sets.values():
            each.next.clear()
        self._sets.clear()
        self._remembered = 0

    def _step(self, current: _Set, character: str) -> _Set:
        code = ord(character)
        states = self._program.states
        reached = self._reach(current, code)
        following = frozenset(
            states[number].following[0] for number in reached if states[number].mask >> code & 1
        )
        found = self._set(following, code)
        current.next[character] = found
        return found

    def _reach(self, current: _Set, after: int) -> Iterable[int]:
        """Return the states that are reached without reading a character.

        `after` is the code of the next character.

        Raises:
            CostlyRegex: matching has visited more than `WORK_MAX` states.
        """
        states = self._program.states
        seen = set(current.states)
        waiting = list(current.states)
        while waiting:
            state = states[waiting.pop()]
            if state.mask != NONE:
                continue
            if state.place is not None and not _holds(state.place, current.before, after):
                continue
            for number in state.following:
                if number not in seen:
                    seen.add(number)
                    waiting.append(number)
        self._work += len(seen)
        if self._work > WORK_MAX:
            raise CostlyRegex("it takes too long to match")
        return seen


def _holds(place: Place, before: int, after: int) -> bool:
    if place is Place.BEGIN:
        return before == _EDGE
    if place is Place.END:
        return after == _EDGE
    return (_is_word(before) != _is_word(after)) is (place is Place.BOUNDARY)


def _is_word(code: int) -> bool:
    return code != _EDGE and bool(WORD >> code & 1)
