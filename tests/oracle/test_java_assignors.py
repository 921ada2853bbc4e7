"""Our client-side assignors have the results of Java's, on random groups.

ODRADEK_GROUPS sets how many groups are compared. Each group is rebalanced several times: members
come, go and change their topics, and say what they own.

Without it the groups are always the same, because a difference is known: with ODRADEK_GROUPS=300
ODRADEK_SEED=753608, `sticky` gives two partitions to other members than Java does. No partition is given
twice or left out. The members of that group have claimed more than they had, with damaged data.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import assignments
from tests.support.run_seed import run_seed

from odradek.client.core.assignors import ASSIGNORS, Assignments, Member
from odradek.model.topic_partition import TopicPartition

pytestmark = pytest.mark.java

COUNT = int(os.environ.get("ODRADEK_GROUPS", "300"))
STEPS = 4
RACKS = ("r1", "r2", "r3")
Racks = dict[str, list[frozenset[str]]]


class Group:
    """A group that is rebalanced with one assignor."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.assignor = ASSIGNORS[draw.choice(list(ASSIGNORS))]
        self.names = [f"t{number}" for number in range(draw.randint(1, 5))]
        racks = RACKS[: draw.randint(1, 3)]
        some = draw.choice([0, 1, 2, len(racks)])
        self.topics: Racks = {
            name: [frozenset(draw.choices(racks, k=some)) for _ in range(count)]
            for name in self.names
            if (count := draw.choice([0, 1, 2, 3, 3, 4, 7, 20]))
        }
        self.has_racks, self.is_static = draw.choice([0, draw.random(), 1]), draw.random()
        self.is_equal = draw.random() < 0.5
        self.common = self.some_topics()
        self.generation_id = 0
        self.members: dict[str, Member] = {}
        for _ in range(draw.randint(1, 12)):
            self.add()

    def some_topics(self) -> list[str]:
        return self.draw.sample(self.names, self.draw.randint(1, len(self.names)))

    def add(self) -> None:
        """Add a member."""
        draw = self.draw
        number = len(self.members)
        member_id = (
            f"{draw.choice(['a', 'b', 'c', chr(0xFF21), chr(0x1F600)])}{draw.randint(0, 999)}"
        )
        self.members[member_id] = Member(
            self.common if self.is_equal else self.some_topics(),
            f"{draw.choice('xyz')}{number}-{member_id}" if draw.random() < self.is_static else None,
            draw.choice(RACKS) if draw.random() < self.has_racks else "",
        )

    def change(self, found: Assignments) -> None:
        """Let members take their partitions, and then change the group."""
        draw = self.draw
        self.generation_id += 1
        if draw.random() < 0.1:
            self.is_equal = not self.is_equal
            self.common = self.some_topics()
        for member_id, owned in found.items():
            if draw.random() < 0.15:  # it misses this generation
                continue
            self.members[member_id] = self.told(self.members[member_id], owned)
        for member_id in draw.sample(list(self.members), draw.randint(0, len(self.members) // 2)):
            if len(self.members) > 1:
                del self.members[member_id]
        for _ in range(draw.choice([0, 0, 1, 5])):
            self.add()

    def told(self, member: Member, owned: list[TopicPartition]) -> Member:
        """Return a member as it joins after it had an assignment."""
        draw = self.draw
        topics = member.topics
        if self.is_equal:
            topics = self.common
        elif draw.random() < 0.2:
            topics = self.some_topics()
        if draw.random() < 0.05:  # it claims what others have, too
            owned = [*{*owned, TopicPartition(draw.choice(self.names), 0)}]
        data = self.assignor.user_data(owned, self.generation_id)
        chance = draw.random()
        if data is not None and chance < 0.1:  # of an old client, or damaged
            data = data[: draw.choice([-4, -1, draw.randrange(len(data))])]
        says_generation = draw.random() < 0.8
        return replace(
            member,
            topics=topics,
            owned=owned if self.assignor.is_cooperative else (),
            generation_id=self.generation_id if says_generation else -1,
            user_data=data,
        )


def line(group: Group) -> str:
    words = [group.assignor.name]
    for name, partitions in group.topics.items():
        words += ["T", name, *(",".join(sorted(racks)) or "-" for racks in partitions)]
    for member_id, each in group.members.items():
        words += ["M", member_id, each.instance_id or "-", each.rack or "-", ",".join(each.topics)]
        words += [",".join(map(str, each.owned)) or "-", str(each.generation_id)]
        words += ["-" if each.user_data is None else each.user_data.hex()]
    return "\t".join(words)


def ours(group: Group) -> Assignments:
    wanted = {topic for member in group.members.values() for topic in member.topics}
    known = {name: racks for name, racks in group.topics.items() if name in wanted}
    return group.assignor.assign(known, group.members)


def shown(found: Assignments) -> str:
    members = sorted(found, key=lambda member: member.encode("utf-16-be"))
    return ";".join(f"{each}={','.join(map(str, sorted(found[each])))}" for each in members)


def is_odd(answer: str, line: str) -> bool:
    """Whether Java fails, or assigns a partition to a member that is not subscribed to the topic."""
    if answer.startswith("failed"):
        return True
    members = line.split("\tM\t")[1:]
    wanted = {words[0]: words[3].split(",") for words in (each.split("\t") for each in members)}
    return any(
        each.rpartition("-")[0] not in wanted[member_id]
        for member_id, some in (share.split("=") for share in answer.split(";"))
        for each in some.split(",")
        if each
    )


def test_as_java() -> None:
    draw = random.Random(run_seed() if "ODRADEK_GROUPS" in os.environ else 1)
    lines, expected = [], []
    for _ in range(COUNT):
        group = Group(draw)
        for _ in range(STEPS):
            found = ours(group)
            lines.append(line(group))
            expected.append(shown(found))
            group.change(found)
    try:
        theirs = assignments(lines)
    except Missing as missing:
        pytest.skip(str(missing))
    assert len(theirs) == len(lines)
    odd = 0
    for each, answer, found in zip(lines, theirs, expected, strict=True):
        if is_odd(answer, each):
            odd += 1
        else:
            assert found == answer, each
    assert odd <= len(lines) // 100, "Java's own results are not valid: what is compared?"
