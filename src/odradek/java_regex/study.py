"""Finds how long the matches of a part can be, and whether Java repeats it without going back into it.

Java repeats a group whose body is deterministic in another way than other groups: if what follows
does not match, it removes whole repetitions. Which text a group has afterwards depends on this, and
so does the maximum length in a look-behind, in sums of 32 bits.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Lengths(NamedTuple):
    """What is known of a part, and of the parts before it in its sequence.

    Java counts anew after each choice. Whether a sum of 32 bits overflows is checked only in the
    parts since then.
    """

    least: int = 0
    most: int = 0
    has_most: bool = True
    is_deterministic: bool = True
    earlier: Lengths | None = None
    """The lengths of what is before the last choice, and of this choice."""

    def sum(self) -> Lengths:
        """Return the lengths of all parts."""
        if self.earlier is None:
            return self
        return Lengths(
            self.least + self.earlier.least,
            _sum(self.most, self.earlier.most),
            self.has_most and self.earlier.has_most,
            is_deterministic=False,
        )


_NOTHING = Lengths()


def study(node: Node) -> Lengths:
    """Return the lengths of a part."""
    return _after(node, _NOTHING).sum()


def repeats_whole(group: Group) -> bool:
    """Return whether Java removes whole repetitions of a group."""
    return study(group).is_deterministic


def _sum(one: int, two: int) -> int:
    """Return a sum as Java's 32 bits."""
    return (one + two + 0x80000000) % 0x100000000 - 0x80000000


def _after(node: Node, before: Lengths) -> Lengths:
    least, most, _has_most, _is_deterministic, _ = before
    match node:
        case Assertion() | LookAhead() | LookBehind():
            return before
        case Character():
            return before._replace(least=least + 1, most=_sum(most, 1))
        case LineEnding():
            return before._replace(least=least + 1, most=_sum(most, 2))
        case Grapheme():
            return before._replace(least=least + 1, is_deterministic=False)
        case BackReference():
            return before._replace(has_most=False)
        case Sequence():
            for part in node.parts:
                before = _after(part, before)
            return before
        case Group():
            return _after(node.body, before)
        case Atomic():
            return _after_own(node.body, before)
        case Choice():
            return _after_choice([study(each) for each in node.alternatives], before)
        case Repeat():
            return _after_repeat(node, before)


def _after_own(body: Node, before: Lengths) -> Lengths:
    """Return the lengths after a body that does not lead to what follows it."""
    after = _after(body, before._replace(earlier=None)).sum()
    return after._replace(earlier=before.earlier)


def _after_choice(alternatives: list[Lengths], before: Lengths) -> Lengths:
    whole = before.sum()
    earlier = Lengths(
        whole.least + min(each.least for each in alternatives),
        _sum(whole.most, max(-1, *(each.most for each in alternatives))),  # Java begins with -1
        whole.has_most and all(each.has_most for each in alternatives),
    )
    return Lengths(is_deterministic=False, earlier=earlier)


def _after_repeat(node: Repeat, before: Lengths) -> Lengths:
    least, most, has_most, is_deterministic, _ = before
    body = study(node.body)
    is_group = isinstance(node.body, Group) and node.greed is not Greed.POSSESSIVE
    if (node.least, node.most) == (0, 1):
        if is_group:
            return _after_choice([body, _NOTHING], before)
        after = _after_own(node.body, before)
        return after._replace(least=least, is_deterministic=False)
    if is_group and not body.is_deterministic:
        return before._replace(has_most=False, is_deterministic=False)
    is_character = isinstance(node.body, Character)
    if is_character and node.greed is Greed.GREEDY and node.most == UNLIMITED:
        longest = _sum(most, UNLIMITED) if has_most else most
        least += node.least
        return before._replace(least=least, most=longest, is_deterministic=False)
    is_deterministic &= body.is_deterministic and node.least == node.most
    least = min(body.least * node.least + least, 0xFFFFFFF)
    longest = _sum(body.most * node.most, most)
    if not has_most or not body.has_most or longest < most:
        has_most, longest = False, most
    return before._replace(
        least=least, most=longest, has_most=has_most, is_deterministic=is_deterministic
    )
