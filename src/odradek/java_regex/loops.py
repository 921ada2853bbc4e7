"""The instructions of quantifiers that are not for one character.

`LoopStart` and `LoopEnd` are for groups whose bodies can match in several ways. `Repetition` and
`GroupRepetition` match the body as a whole each time. If the rest does not match, they give back
whole repetitions. Which text the group of a `GroupRepetition` has then is as in Java: the one before
the end of the repetitions, also if the loop around it has set the group again since.
"""

from __future__ import annotations

from odradek.java_regex.instructions import GroupBefore, LocalBefore, Way
from odradek.java_regex.machine import FAILED, Frame, Instruction, Machine
from odradek.java_regex.nodes import Greed


class _Once(Instruction):
    """The first repetition of a loop."""

    __slots__ = ("_counter",)

    def __init__(self, counter: int, body: Instruction) -> None:
        self._counter = counter
        self.next = body

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        machine.stack.append(LocalBefore(machine, self._counter))
        machine.set_local(self._counter, 1)
        return machine.follow(self.next, position)


class LoopStart(Instruction):
    """The begin of a loop."""

    __slots__ = ("_after", "_greed", "_least", "_most")

    def __init__(
        self,
        counter: int,
        least: int,
        most: int,
        greed: Greed,
        body: Instruction,
        after: Instruction,
    ) -> None:
        self._least = least
        self._most = most
        self._greed = greed
        self._after = after
        self.next = _Once(counter, body)

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        first, second = self.next, self._after
        if self._least == 0:
            if self._most == 0:
                return machine.follow(self._after, position)
            if self._greed is Greed.RELUCTANT:
                first, second = second, first
            machine.stack.append(Way(second, position))
        return machine.follow(first, position)


class _OneMore(Frame):
    """One more repetition, after all that follows has failed."""

    __slots__ = ("_loop", "_position")

    def __init__(self, loop: LoopEnd, position: int) -> None:
        self._loop = loop
        self._position = position

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        return self._loop.again(machine, self._position)


class _Failed(Frame):
    """What follows a loop, after another repetition at this position has failed."""

    __slots__ = ("_at", "_counter", "_position")

    def __init__(self, at: Instruction, counter: int, position: int) -> None:
        self._at = at
        self._counter = counter
        self._position = position

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        machine.add_failed(self._counter, self._position)
        return machine.follow(self._at, self._position)


class LoopEnd(Instruction):
    """The end of a repetition of a loop. A repetition that has matched nothing is the last one.

    With `remembers`, a repetition is not tried where one has failed before in the same search. So
    `(a|aa)*b` takes few steps. Java does this, too.
    """

    __slots__ = ("_begin", "_body", "_counter", "_greed", "_least", "_most", "_remembers")

    def __init__(
        self,
        counter: int,
        begin: int,
        least: int,
        most: int,
        greed: Greed,
        after: Instruction,
        *,
        remembers: bool,
    ) -> None:
        self._remembers = remembers
        self._counter = counter
        self._begin = begin
        self._least = least
        self._most = most
        self._greed = greed
        self._body: Instruction = self
        self.next = after

    def set_body(self, body: Instruction) -> None:
        """Set the instruction at which a repetition begins."""
        self._body = body

    def again(self, machine: Machine, position: int) -> int:
        """Begin another repetition."""
        machine.stack.append(LocalBefore(machine, self._counter))
        machine.set_local(self._counter, machine.locals[self._counter] + 1)
        return machine.follow(self._body, position)

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        if position > machine.locals[self._begin]:
            count = machine.locals[self._counter]
            if count < self._least:
                return self.again(machine, position)
            if count < self._most:
                if self._greed is Greed.RELUCTANT:
                    machine.stack.append(_OneMore(self, position))
                elif not self._remembers:
                    machine.stack.append(Way(self.next, position))
                    return self.again(machine, position)
                elif not machine.has_failed(self._counter, position):
                    machine.stack.append(_Failed(self.next, self._counter, position))
                    return self.again(machine, position)
        return machine.follow(self.next, position)


# -- repetitions of a whole body --------------------------------------------------------------------


class _GivenBack(Frame):
    """Repetitions of one length, which are given back one by one."""

    __slots__ = ("_at", "_count", "_is_first", "_least", "_length", "_position")

    def __init__(self, at: Instruction, position: int, count: int, least: int, length: int) -> None:
        self._at = at
        self._position = position
        self._count = count
        self._least = least
        self._length = length

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        position = self._position
        if self._count > self._least:
            self._position -= self._length
            self._count -= 1
            machine.stack.append(self)
        return machine.follow(self._at, position)


class Repetition(Instruction):
    """Repeats a body that is matched as a whole each time."""

    __slots__ = ("_body", "_greed", "_least", "_most")

    def __init__(
        self, body: Instruction, least: int, most: int, greed: Greed, after: Instruction
    ) -> None:
        self._body = body
        self._least = least
        self._most = most
        self._greed = greed
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        for _ in range(self._least):
            end = machine.run(self._body, position)
            if end < 0:
                return FAILED
            if end == position:
                break
            position = end
        match self._greed:
            case Greed.GREEDY:
                position = self._take_all(machine, position)
            case Greed.RELUCTANT:
                if self._least < self._most:
                    machine.stack.append(_Another(self, position, self._least))
            case Greed.POSSESSIVE:
                position = self._take_and_keep(machine, position)
        return machine.follow(self.next, position)

    def another(self, machine: Machine, position: int, count: int) -> int:
        """Take one more repetition."""
        end = machine.run(self._body, position)
        if end < 0 or end == position:
            return FAILED
        if count + 1 < self._most:
            machine.stack.append(_Another(self, end, count + 1))
        return machine.follow(self.next, end)

    def _take_and_keep(self, machine: Machine, position: int) -> int:
        for _ in range(self._least, self._most):
            end = machine.run(self._body, position)
            if end < 0 or end == position:
                break
            position = end
        return position

    def _take_all(self, machine: Machine, position: int) -> int:
        """Take as many as possible. Each length that differs begins a new series."""
        count = self._least
        while count < self._most:
            least = count
            end = machine.run(self._body, position)
            if end < 0 or end == position:
                break
            length = end - position
            position, count = end, count + 1
            differs = False
            while count < self._most and not differs:
                end = machine.run(self._body, position)
                if end < 0:
                    break
                differs = end != position + length
                if not differs:
                    position, count = end, count + 1
            if not differs:
                machine.stack.append(
                    _GivenBack(self.next, position - length, count - 1, least, length)
                )
                break
            machine.stack.append(_GivenBack(self.next, position, count, least, length))
            position, count = end, count + 1
        return position


class _Another(Frame):
    """One more repetition of a whole body."""

    __slots__ = ("_count", "_position", "_repetition")

    def __init__(self, repetition: Repetition | GroupRepetition, position: int, count: int) -> None:
        self._repetition = repetition
        self._position = position
        self._count = count

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        return self._repetition.another(machine, self._position, self._count)


class _GroupGivenBack(Frame):
    """Repetitions of a group, of one length, which are given back one by one."""

    __slots__ = (
        "_at",
        "_begin",
        "_count",
        "_end",
        "_group",
        "_is_tried",
        "_least",
        "_length",
        "_position",
    )

    def __init__(
        self, machine: Machine, at: Instruction, group: int | None, begin: int, end: int
    ) -> None:
        self._at = at
        self._group = group
        self._begin = begin
        self._end = end
        self._position = 0
        self._count = 0
        self._least = 0
        self._length = 0
        self._is_tried = False

    def set(self, position: int, count: int, least: int, length: int, *, is_tried: bool) -> None:
        """Set the end of the repetitions, and whether what follows is being tried there."""
        self._position = position
        self._count = count
        self._least = least
        self._length = length
        self._is_tried = is_tried

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        if self._is_tried:
            self._position -= self._length
            self._count -= 1
        self._is_tried = True
        if self._count > self._least:
            if self._group is not None:
                machine.set_group(self._group, self._position - self._length, self._position)
            machine.stack.append(self)
        elif self._group is not None:
            machine.set_group(self._group, self._begin, self._end)
        return machine.follow(self._at, self._position)

    def accepted(self, machine: Machine) -> None:
        """See `Frame`."""
        if self._is_tried and self._group is not None:
            machine.set_group(self._group, self._position - self._length, self._position)


class GroupRepetition(Instruction):
    """Repeats a group whose body is matched as a whole each time."""

    __slots__ = ("_body", "_greed", "_group", "_least", "_most")

    def __init__(
        self,
        body: Instruction,
        least: int,
        most: int,
        greed: Greed,
        group: int | None,
        after: Instruction,
    ) -> None:
        self._body = body
        self._least = least
        self._most = most
        self._greed = greed
        self._group = group
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        if self._group is not None:
            machine.stack.append(GroupBefore(machine, self._group))
        for _ in range(self._least):
            end = machine.run(self._body, position)
            if end < 0:
                return FAILED
            self._set(machine, position, end)
            if end == position:
                break
            position = end
        if self._greed is Greed.GREEDY:
            position = self._take_all(machine, position)
        elif self._least < self._most:
            machine.stack.append(_Another(self, position, self._least))
        return machine.follow(self.next, position)

    def _set(self, machine: Machine, begin: int, end: int) -> None:
        if self._group is not None:
            machine.set_group(self._group, begin, end)

    def another(self, machine: Machine, position: int, count: int) -> int:
        """Take one more repetition."""
        end = machine.run(self._body, position)
        if end < 0 or end == position:
            return FAILED
        self._set(machine, position, end)
        if count + 1 < self._most:
            machine.stack.append(_Another(self, end, count + 1))
        return machine.follow(self.next, end)

    def _take_all(self, machine: Machine, position: int) -> int:
        """Take as many as possible. Each length that differs begins a new series."""
        count = self._least
        while count < self._most:
            begin, end_before = -1, -1
            if self._group is not None:
                begin, end_before = machine.groups[2 * self._group : 2 * self._group + 2]
            least = count
            end = machine.run(self._body, position)
            if end < 0 or end == position:
                break
            length = end - position
            frame = _GroupGivenBack(machine, self.next, self._group, begin, end_before)
            differs = False
            while True:
                self._set(machine, position, end)
                position, count = end, count + 1
                if count >= self._most:
                    break
                end = machine.run(self._body, position)
                if end < 0:
                    break
                if end != position + length:
                    differs = True
                    break
            frame.set(position, count, least, length, is_tried=not differs)
            machine.stack.append(frame)
            if not differs:
                break
        return position
