"""Makes the instructions of a parsed pattern."""

from __future__ import annotations

from odradek.java_regex.instructions import (
    Ahead,
    Behind,
    BehindEnd,
    Characters,
    Close,
    Condition,
    FewCharacters,
    LastEnd,
    LineTerminator,
    OneCharacter,
    OneGrapheme,
    Open,
    Reference,
    Split,
    Whole,
)
from odradek.java_regex.loops import GroupRepetition, LoopEnd, LoopStart, Repetition
from odradek.java_regex.machine import ACCEPT, Instruction
from odradek.java_regex.nodes import (
    UNLIMITED,
    Assertion,
    Atomic,
    BackReference,
    Character,
    Choice,
    Grapheme,
    Greed,
    Group,
    LineEnding,
    LookAhead,
    LookBehind,
    Node,
    Repeat,
    Sequence,
)
from odradek.java_regex.study import repeats_whole


class Program:
    """The instructions of a pattern."""

    def __init__(self, node: Node, *, has_references: bool) -> None:
        self._remembers = not has_references
        """Whether loops that are not in other loops remember where they failed."""
        self._depth = 0
        """The number of quantified groups and look-behinds around the present node."""
        self.variables = 0
        """The number of local variables."""
        self.start = self._made(node, LastEnd())

    def _variable(self) -> int:
        self.variables += 1
        return self.variables - 1

    def _made(self, node: Node, after: Instruction) -> Instruction:
        """Return the first instruction of a node that `after` follows."""
        match node:
            case Character():
                return OneCharacter(node.allowed, after)
            case Assertion():
                return Condition(node.holds, after)
            case LineEnding():
                return LineTerminator(after)
            case Grapheme():
                return OneGrapheme(after)
            case BackReference():
                return Reference(node.group, node.fold, after)
            case Sequence():
                for part in reversed(node.parts):
                    after = self._made(part, after)
                return after
            case Choice():
                return Split([self._made(each, after) for each in node.alternatives])
            case Group():
                return self._group(node, after)[0]
            case Atomic():
                return Whole(self._made(node.body, ACCEPT), after)
            case LookAhead():
                body = self._made(node.body, ACCEPT)
                return Ahead(body, after, is_negative=node.is_negative)
            case LookBehind():
                body = self._inner(node.body, BehindEnd())
                return Behind(body, node.least, node.most, after, is_negative=node.is_negative)
            case Repeat():
                return self._repeat(node, after)

    def _inner(self, node: Node, after: Instruction) -> Instruction:
        """Return the first instruction of the body of a quantified group or look-behind."""
        self._depth += 1
        made = self._made(node, after)
        self._depth -= 1
        return made

    def _group(self, node: Group, after: Instruction) -> tuple[Instruction, int]:
        """Return the first instruction of a group, and the variable with its begin."""
        begin = self._variable()
        if node.number is not None:
            after = Close(begin, node.number, after)
        return Open(begin, self._made(node.body, after)), begin

    def _repeat(self, node: Repeat, after: Instruction) -> Instruction:
        body, least, most, greed = node.body, node.least, node.most, node.greed
        if isinstance(body, Character):
            if greed is Greed.RELUCTANT:
                return FewCharacters(body.allowed, least, most, after)
            keeps_all = greed is Greed.POSSESSIVE
            return Characters(body.allowed, least, most, after, keeps_all=keeps_all)
        if not isinstance(body, Group):
            return Repetition(self._made(body, ACCEPT), least, most, greed, after)
        if greed is Greed.POSSESSIVE:
            return Repetition(self._inner(body, ACCEPT), least, most, greed, after)
        if (least, most) == (0, 1):
            ways = [self._inner(body, after), after]
            return Split(ways if greed is Greed.GREEDY else ways[::-1])
        if repeats_whole(body):
            inner = self._inner(body.body, ACCEPT)
            return GroupRepetition(inner, least, most, greed, body.number, after)
        counter = self._variable()
        # The begin of the group is known when the group is made, and the group needs the end first.
        begin = self.variables
        remembers = self._remembers and self._depth == 0 and most == UNLIMITED
        end = LoopEnd(counter, begin, least, most, greed, after, remembers=remembers)
        self._depth += 1
        start, made = self._group(body, end)
        self._depth -= 1
        assert made == begin
        end.set_body(start)
        return LoopStart(counter, least, most, greed, start, after)
