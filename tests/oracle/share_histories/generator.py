"""Generates histories of share groups: the same number always gives the same history."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.oracle.share_histories.player import MISSING, TOPICS, Step

NAMES = list(TOPICS)
STEPS = 40
MEMBERS_MAX = 12


def history(number: int) -> list[Step]:
    """Return the steps of a history. One in three is about the share coordinator only."""
    random = Random(number)
    if number % 3 == 0:
        return [_state_step(random) for _ in range(STEPS)]
    writer = _Group(random)
    return [writer.step() for _ in range(STEPS)] + [("describe", {}), ("offsets", {"topics": None})]


def _some_topics(random: Random) -> list[str]:
    names = random.sample(NAMES, random.choice((1, 1, 2, 3, 6)))
    return [*names, MISSING] if random.random() < 0.15 else names


class _Group:
    """Generates the history of a group with members."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.alive: list[str] = []
        self.same = _some_topics(random) if random.random() < 0.6 else None
        """The topics of all members; None if they differ."""

    def step(self) -> Step:
        """Return the next step."""
        random = self.random
        kind = random.random()
        if not self.alive or (kind < 0.3 and len(self.alive) < MEMBERS_MAX):
            if not self.alive and random.random() < 0.25:
                return self.without_members()
            return self.join()
        if kind < 0.62:
            return "beat", {"member": random.choice(self.alive)}
        if kind < 0.7:
            member = self.alive.pop(random.randrange(len(self.alive)))
            return "beat", {"member": member, "epoch": -1}
        if kind < 0.76:
            return "beat", {"member": random.choice(self.alive), "topics": self.topics()}
        if kind < 0.84:
            return self.nonsense()
        return self.look()

    def topics(self) -> list[str]:
        """Return the topics of a member."""
        if self.same is not None and self.random.random() < 0.95:
            return self.same
        return _some_topics(self.random)

    def join(self) -> Step:
        """A member joins."""
        member = f"m{self.random.randrange(10**6)}"
        self.alive.append(member)
        rack = self.random.choice((None, None, "r"))
        return "beat", {"member": member, "topics": self.topics(), "epoch": 0, "rack": rack}

    def nonsense(self) -> Step:
        """A request that may be refused."""
        member = self.random.choice([*self.alive, "unknown", "", "m" * 37])
        epoch = self.random.choice((-2, -3, 1, 2, 100))
        return self.random.choice(
            (
                ("beat", {"member": member, "epoch": epoch}),
                ("beat", {"member": member, "epoch": 0, "topics": []}),
                ("beat", {"member": member, "epoch": 0}),
                ("beat", {"member": self.alive[0], "rack": " "}),
                ("alter", {"topics": [("s1", [(0, 3)])]}),
                ("delete_offsets", {"topics": ["s1"]}),
                ("delete", {}),
            )
        )

    def look(self) -> Step:
        """A description."""
        random = self.random
        # Apache Kafka asks again for half a minute about partitions that do not exist.
        asked = [
            (name, random.sample(range(TOPICS.get(name, 2)), 1)) for name in _some_topics(random)
        ]
        return random.choice(
            (
                ("describe", {}),
                ("offsets", {"topics": None}),
                ("offsets", {"topics": asked}),
                ("offsets", {"topics": []}),
                ("list", {"states": random.choice(([], ["Stable"], ["empty"])), "types": []}),
                (
                    "list",
                    {"states": [], "types": random.choice((["share"], ["Share"], ["classic"]))},
                ),
            )
        )

    def without_members(self) -> Step:
        """An operation of an administrator."""
        random = self.random
        topics = _some_topics(random)
        # Apache Kafka cannot delete a group after an alteration of a topic without a valid partition.
        offsets = [
            (name, [(index, random.randrange(5)) for index in (0, *random.sample(range(1, 5), 1))])
            for name in topics
        ]
        return random.choice(
            (
                ("alter", {"topics": offsets}),
                ("alter", {"topics": offsets}),
                ("delete_offsets", {"topics": topics}),
                ("delete", {}),
                ("describe", {}),
                ("beat", {"member": "nobody", "epoch": 3}),
                ("beat", {"member": "nobody", "epoch": -1}),
            )
        )


def _state_step(random: Random) -> Step:
    """Return a request of a leader or of a group coordinator."""

    def place(**fields: Any) -> tuple[str, int, dict[str, Any]]:
        topic = random.choice(("s1", "s2", "s2", MISSING)) if random.random() < 0.1 else "s2"
        index = random.choice((0, 1, 2, -1)) if random.random() < 0.1 else random.randrange(2)
        return topic, index, fields

    name = random.choice(
        (
            "InitializeShareGroupState",
            "ReadShareGroupState",
            "DeleteShareGroupState",
            "ReadShareGroupStateSummary",
            *(("WriteShareGroupState",) * 8),
        )
    )
    if name == "InitializeShareGroupState":
        made = place(state_epoch=random.randrange(3), start_offset=random.randrange(-1, 9))
    elif name == "ReadShareGroupState":
        made = place(leader_epoch=random.choice((-1, 0, 0, 0, 1, 2)))
    elif name == "WriteShareGroupState":
        batches = []
        for _ in range(random.randrange(4)):
            first = random.randrange(30)
            state, count = random.choice((0, 2, 4)), random.randint(1, 3)
            batches.append((first, first + random.randrange(6), state, count))
        made = place(
            state_epoch=random.choice((2, 2, 1, -1)),
            leader_epoch=random.choice((-1, 2, 2, 1)),
            start_offset=random.choice((-1, -1, random.randrange(20))),
            delivery_complete_count=random.randrange(9),
            state_batches=batches,
        )
    elif random.random() < 0.7:
        return "state", {"name": "ReadShareGroupState", "places": [place(leader_epoch=2)]}
    else:
        made = place()
    return "state", {"name": name, "places": [made]}
