"""The instructions of programs (see `odradek.java_regex.machine`), and their frames."""

from __future__ import annotations

from collections.abc import Callable

from odradek.java_regex.characters import CharacterSet, grapheme_end
from odradek.java_regex.errors import MatchRefused
from odradek.java_regex.machine import ACCEPT, FAILED, Frame, Instruction, Machine


class Way(Frame):
    """Another instruction."""

    __slots__ = ("_at", "_position")

    def __init__(self, at: Instruction, position: int) -> None:
        self._at = at
        self._position = position

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        return machine.follow(self._at, self._position)


class GroupBefore(Frame):
    """The text that a group had before."""

    __slots__ = ("_begin", "_end", "_group")

    def __init__(self, machine: Machine, group: int) -> None:
        self._group = group
        self._begin = machine.groups[2 * group]
        self._end = machine.groups[2 * group + 1]

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        machine.set_group(self._group, self._begin, self._end)
        return FAILED


class LocalBefore(Frame):
    """The value that a local variable had before. It is also restored after a match of the body."""

    __slots__ = ("_local", "_value")

    def __init__(self, machine: Machine, local: int) -> None:
        self._local = local
        self._value = machine.locals[local]

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        machine.set_local(self._local, self._value)
        return FAILED

    def accepted(self, machine: Machine) -> None:
        """See `Frame`."""
        machine.set_local(self._local, self._value)


def _set_local(machine: Machine, local: int, value: int) -> None:
    machine.stack.append(LocalBefore(machine, local))
    machine.set_local(local, value)


# -- characters and positions ---------------------------------------------------------------------


class OneCharacter(Instruction):
    """A character of a set."""

    __slots__ = ("_allowed",)

    def __init__(self, allowed: CharacterSet, after: Instruction) -> None:
        self._allowed = allowed
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        text = machine.text
        if position >= len(text) or text[position] not in self._allowed:
            return FAILED
        return machine.follow(self.next, position + 1)


class _Shorter(Frame):
    """The next character must be given back."""

    __slots__ = ("_at", "_least", "_position")

    def __init__(self, at: Instruction, least: int, position: int) -> None:
        self._at = at
        self._least = least
        self._position = position

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        machine.count(1)
        self._position -= 1
        position = self._position
        if position > self._least:
            machine.stack.append(self)
        return machine.follow(self._at, position)


class Characters(Instruction):
    """Characters of a set, as many as possible."""

    __slots__ = ("_allowed", "_is_possessive", "_least", "_most")

    def __init__(
        self, allowed: CharacterSet, least: int, most: int, after: Instruction, *, keeps_all: bool
    ) -> None:
        self._allowed = allowed
        self._least = least
        self._most = most
        self._is_possessive = keeps_all
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        text, allowed = machine.text, self._allowed
        end, limit = position, min(len(text), position + self._most)
        while end < limit and text[end] in allowed:
            end += 1
        machine.count((end - position) // 8)
        least = position + self._least
        if end < least:
            return FAILED
        if end > least and not self._is_possessive:
            machine.stack.append(_Shorter(self.next, least, end))
        return machine.follow(self.next, end)


class _Longer(Frame):
    """One more character must be taken."""

    __slots__ = ("_allowed", "_at", "_left", "_position")

    def __init__(self, at: Instruction, allowed: CharacterSet, position: int, left: int) -> None:
        self._at = at
        self._allowed = allowed
        self._position = position
        self._left = left

    def resume(self, machine: Machine) -> int:
        """See `Frame`."""
        text, position = machine.text, self._position
        if position >= len(text) or text[position] not in self._allowed:
            return FAILED
        machine.count(1)
        self._position = position + 1
        self._left -= 1
        if self._left:
            machine.stack.append(self)
        return machine.follow(self._at, position + 1)


class FewCharacters(Instruction):
    """Characters of a set, as few as possible."""

    __slots__ = ("_allowed", "_least", "_most")

    def __init__(self, allowed: CharacterSet, least: int, most: int, after: Instruction) -> None:
        self._allowed = allowed
        self._least = least
        self._most = most
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        text = machine.text
        end = position + self._least
        if end > len(text) or any(text[at] not in self._allowed for at in range(position, end)):
            return FAILED
        if self._most > self._least:
            left = self._most - self._least
            machine.stack.append(_Longer(self.next, self._allowed, end, left))
        return machine.follow(self.next, end)


class Condition(Instruction):
    """A condition on the position."""

    __slots__ = ("_holds",)

    def __init__(self, holds: Callable[[str, int, int], bool], after: Instruction) -> None:
        self._holds = holds
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        if not self._holds(machine.text, position, machine.last):
            return FAILED
        return machine.follow(self.next, position)


class LineTerminator(Instruction):
    r"""`\R`. The two characters `\r\n` are tried before `\r`."""

    __slots__ = ()

    def __init__(self, after: Instruction) -> None:
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        text = machine.text
        if position >= len(text) or text[position] not in "\n\x0b\f\r\x85\u2028\u2029":
            return FAILED
        if not text.startswith("\r\n", position):
            return machine.follow(self.next, position + 1)
        machine.stack.append(Way(self.next, position + 1))
        return machine.follow(self.next, position + 2)


class OneGrapheme(Instruction):
    r"""`\X`."""

    __slots__ = ()

    def __init__(self, after: Instruction) -> None:
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        if position >= len(machine.text):
            return FAILED
        return machine.follow(self.next, grapheme_end(machine.text, position))


class Reference(Instruction):
    """The text of a group again. A group that is not set does not match."""

    __slots__ = ("_fold", "_group")

    def __init__(self, group: int, fold: Callable[[str], str] | None, after: Instruction) -> None:
        self._group = group
        self._fold = fold
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        if 2 * self._group >= len(machine.groups) or machine.groups[2 * self._group] < 0:
            return FAILED
        begin, end = machine.groups[2 * self._group : 2 * self._group + 2]
        wanted = machine.text[begin:end]
        found = machine.text[position : position + len(wanted)]
        fold = self._fold
        if found != wanted and (
            fold is None
            or len(found) < len(wanted)
            or any(fold(one) != fold(two) for one, two in zip(found, wanted, strict=True))
        ):
            return FAILED
        machine.count(len(wanted) // 8)
        return machine.follow(self.next, position + len(wanted))


# -- groups and choices ---------------------------------------------------------------------------


class Open(Instruction):
    """The begin of a group."""

    __slots__ = ("_local",)

    def __init__(self, local: int, after: Instruction) -> None:
        self._local = local
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        _set_local(machine, self._local, position)
        return machine.follow(self.next, position)


class Close(Instruction):
    """The end of a group with a number."""

    __slots__ = ("_group", "_local")

    def __init__(self, local: int, group: int, after: Instruction) -> None:
        self._local = local
        self._group = group
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        machine.stack.append(GroupBefore(machine, self._group))
        machine.set_group(self._group, machine.locals[self._local], position)
        return machine.follow(self.next, position)


class Split(Instruction):
    """The first of several ways."""

    __slots__ = ("_others",)

    def __init__(self, ways: list[Instruction]) -> None:
        self.next = ways[0]
        self._others = ways[:0:-1]

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        machine.stack.extend(Way(each, position) for each in self._others)
        return machine.follow(self.next, position)


class Ahead(Instruction):
    """A look-ahead."""

    __slots__ = ("_body", "_is_negative")

    def __init__(self, body: Instruction, after: Instruction, *, is_negative: bool) -> None:
        self._body = body
        self._is_negative = is_negative
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        if (machine.run(self._body, position) < 0) != self._is_negative:
            return FAILED
        return machine.follow(self.next, position)


class BehindEnd(Instruction):
    """The end of the body of a look-behind."""

    __slots__ = ()

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        if position != machine.behind_end:
            return FAILED
        return machine.follow(ACCEPT, position)


class Behind(Instruction):
    """A look-behind. The body is tried with the shortest length first."""

    __slots__ = ("_body", "_is_negative", "_least", "_most")

    def __init__(
        self, body: Instruction, least: int, most: int, after: Instruction, *, is_negative: bool
    ) -> None:
        self._body = body
        self._least = least
        self._most = most
        self._is_negative = is_negative
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        first = position - self._most
        if first >= 0x80000000:
            first -= 0x100000000  # Java's sum of 32 bits
        if not machine.text.isascii() and max(machine.text[:position], default="") > "\uffff":
            raise MatchRefused("a look-behind meets a character above U+FFFF")  # two for Java
        outer = machine.set_behind_end(position)
        has_matched = False
        for begin in range(position - self._least, max(first, 0) - 1, -1):
            if machine.run(self._body, begin) >= 0:
                has_matched = True
                break
        machine.set_behind_end(outer)
        if has_matched == self._is_negative:
            return FAILED
        return machine.follow(self.next, position)


class Whole(Instruction):
    """An atomic group."""

    __slots__ = ("_body",)

    def __init__(self, body: Instruction, after: Instruction) -> None:
        self._body = body
        self.next = after

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        end = machine.run(self._body, position)
        return machine.follow(self.next, end)


class LastEnd(Instruction):
    """The end of the pattern."""

    __slots__ = ()

    def step(self, machine: Machine, position: int) -> int:
        """See `Instruction`."""
        if machine.must_end and position != len(machine.text):
            return FAILED
        return machine.follow(ACCEPT, position)
