"""Our client-side assignors have the results of Java's, on random groups.

ODRADEK_GROUPS sets how many groups are compared.
"""

from __future__ import annotations

import os
import random

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import assignments
from tests.support.run_seed import run_seed

from odradek.client.assignors import ASSIGNORS, Wish

pytestmark = pytest.mark.java

COUNT = int(os.environ.get("ODRADEK_GROUPS", "2000"))
RACKS = ("r1", "r2", "r3")


def drawn(draw: random.Random) -> tuple[str, dict[str, list[frozenset[str]]], dict[str, Wish]]:
    """Draw an assignor, topics, and members: some are static, some have racks, wishes may be equal."""
    names = [f"t{number}" for number in range(draw.randint(1, 5))]
    counts = [draw.choice([1, 2, 3, 3, 4, 7]) for _ in names]
    racks = RACKS[: draw.randint(1, 3)]
    some = draw.choice([1, 2, len(racks)])
    topics = {
        name: [frozenset(draw.choices(racks, k=some)) for _ in range(count)]
        for name, count in zip(names, counts, strict=True)
    }
    if draw.random() < 0.3:  # the brokers have no racks
        topics = {name: [frozenset()] * len(some) for name, some in topics.items()}
    has_racks, is_equal, is_static = draw.random(), draw.random() < 0.5, draw.random()
    common = draw.sample(names, draw.randint(1, len(names)))
    wishes = {}
    for number in range(draw.randint(1, 7)):
        member = draw.choice(["a", "b", "c", "\uff21", "\U0001f600"]) + str(number)
        wishes[member] = Wish(
            common if is_equal else draw.sample(names, draw.randint(0, len(names))),
            f"{draw.choice('xyz')}{number}" if draw.random() < is_static else None,
            draw.choice(RACKS) if draw.random() < has_racks else "",
        )
    return draw.choice(list(ASSIGNORS)), topics, wishes


def line(assignor: str, topics: dict[str, list[frozenset[str]]], wishes: dict[str, Wish]) -> str:
    words = [assignor]
    for name, partitions in topics.items():
        words += ["T", name, *(",".join(sorted(racks)) or "-" for racks in partitions)]
    for member, wish in wishes.items():
        subscribed = ",".join(wish.topics) or "-"
        words += ["M", member, wish.instance_id or "-", wish.rack or "-", subscribed]
    return "\t".join(words)


def ours(assignor: str, topics: dict[str, list[frozenset[str]]], wishes: dict[str, Wish]) -> str:
    wanted = {topic for wish in wishes.values() for topic in wish.topics}
    known = {name: racks for name, racks in topics.items() if name in wanted}
    found = ASSIGNORS[assignor](known, wishes)
    members = sorted(found, key=lambda member: member.encode("utf-16-be"))
    return ";".join(f"{each}={','.join(map(str, sorted(found[each])))}" for each in members)


def test_as_java() -> None:
    draw = random.Random(run_seed())
    groups = [drawn(draw) for _ in range(COUNT)]
    try:
        theirs = assignments([line(*group) for group in groups])
    except Missing as missing:
        pytest.skip(str(missing))
    for group, expected in zip(groups, theirs, strict=True):
        assert ours(*group) == expected, group
