"""Executes the instructions of a pattern with an explicit stack, in a limited number of steps.

An instruction returns the position after what it has matched, or FAILED. `Machine.follow` sets the
instruction that is next. Before it goes on, it pushes a `Frame` for each other way. If something
fails, the newest frame is popped: it takes its way, or undoes what was changed and fails, too.

The bodies of look-arounds, atomic groups and some quantifiers are matched by a call of `run` with a
stack of its own. When such a body has matched, its frames are dropped. So groups that were set in it
keep their texts if the rest fails, as in Java.
"""

from __future__ import annotations

from odradek.java_regex.errors import MatchRefused

FAILED = -1
STEPS_MAX = 200_000
"""The steps of one search. They take about 0.1 s."""


class Frame:
    """What to do if something fails that came later."""

    __slots__ = ()

    def resume(self, machine: Machine) -> int:
        """Take another way: return its position. Or undo changes, and return FAILED."""
        raise NotImplementedError

    def accepted(self, machine: Machine) -> None:
        """Finish: all that came later has matched. The newest frames are finished first."""


class Instruction:
    """A step of a program. `next` is the instruction after it."""

    __slots__ = ("next",)

    next: Instruction

    def step(self, machine: Machine, position: int) -> int:
        """Match at a position, and return the position after it, or FAILED."""
        raise NotImplementedError


class Accept(Instruction):
    """The end of a program or of a body."""

    __slots__ = ()

    def step(self, machine: Machine, position: int) -> int:
        """Never called."""
        raise AssertionError


ACCEPT = Accept()


class Machine:
    """The state of a search in a text."""

    __slots__ = (
        "_failed",
        "at",
        "behind_end",
        "groups",
        "last",
        "locals",
        "must_end",
        "stack",
        "steps",
        "text",
    )

    def __init__(self, text: str, groups: int, variables: int, *, must_end: bool = False) -> None:
        self.text = text
        self.groups = [-1] * (2 * (groups + 1))
        """The begin and end of each group; -1 if it is not set. The first is the whole match."""
        self.locals = [0] * variables
        """Counters of loops, and begins of groups."""
        self._failed: dict[int, set[int]] = {}
        """Where repetitions of loops have failed, by the counter of the loop."""
        self.stack: list[Frame] = []
        self.at: Instruction = ACCEPT
        self.last = 0
        """The end of the last match."""
        self.behind_end = -1
        """Where the body of a look-behind must end."""
        self.must_end = must_end
        """Whether the match must end at the end of the text."""
        self.steps = STEPS_MAX

    def run(self, start: Instruction, position: int) -> int:
        """Match from an instruction to ACCEPT. Return the position after the match, or FAILED.

        Raises:
            MatchRefused: there are too many ways.
        """
        outer = self.stack
        stack: list[Frame] = []
        self.stack = stack
        self.at = start
        steps = 0
        while True:
            if position >= 0:
                at = self.at
                if at is ACCEPT:
                    break
                steps += 1
                position = at.step(self, position)
            elif stack:
                position = stack.pop().resume(self)
            else:
                break
            if steps >= 64:
                self.count(steps)
                steps = 0
        self.count(steps + 1)
        if position >= 0:
            for frame in reversed(stack):
                frame.accepted(self)
        self.stack = outer
        return position

    def count(self, steps: int) -> None:
        """Count steps.

        Raises:
            MatchRefused: there were too many.
        """
        self.steps -= steps
        if self.steps < 0:
            raise MatchRefused(f"the match takes more than {STEPS_MAX} steps")

    def follow(self, at: Instruction, position: int) -> int:
        """Set the next instruction. Return the position."""
        self.at = at
        return position

    def set_local(self, local: int, value: int) -> None:
        """Set a local variable. The caller pushes a frame that undoes it."""
        self.locals[local] = value

    def has_failed(self, counter: int, position: int) -> bool:
        """Return whether a repetition of a loop has failed at a position in this search."""
        return position in self._failed.get(counter, ())

    def add_failed(self, counter: int, position: int) -> None:
        """Remember that a repetition of a loop has failed at a position."""
        self._failed.setdefault(counter, set()).add(position)

    def set_behind_end(self, position: int) -> int:
        """Set where the body of a look-behind must end. Return what was set before."""
        before = self.behind_end
        self.behind_end = position
        return before

    def set_group(self, group: int, begin: int, end: int) -> None:
        """Set the text of a group. The caller pushes a frame that undoes it."""
        self.groups[2 * group] = begin
        self.groups[2 * group + 1] = end

    def search(self, start: Instruction, position: int) -> bool:
        """Search for the next match from a position on. Its groups are then set."""
        self.groups = [-1] * len(self.groups)
        self._failed = {}
        for begin in range(position, len(self.text) + 1):
            end = self.run(start, begin)
            if end >= 0:
                self.set_group(0, begin, end)
                self.last = end
                return True
        return False
