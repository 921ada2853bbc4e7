"""Generates histories of Streams groups: the same number always gives the same history."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.oracle.streams_histories.player import TOPICS, Plan, Step

STEPS = 40
MEMBERS_MAX = 7
OWN = "-own"
"""A topic of the group, which is created and deleted during the history."""


def history(number: int) -> list[Step]:
    """Return the steps of a history."""
    writer = _Group(Random(number))
    return [
        *writer.begin(),
        *(writer.step() for _ in range(STEPS)),
        ("describe", {}),
        ("fetch", {"member": None, "ahead": 0}),
    ]


def _plans(source: str, other: str) -> list[Plan]:
    """Topologies of a real application, and some that cannot be configured."""
    counting = {"id": "1", "repartition": {"-words": 0}, "changelogs": ["-counts"]}
    return [
        {"subtopologies": [{"id": "0", "sources": [source]}]},
        {"subtopologies": [{"id": "0", "sources": [source], "changelogs": ["-log"]}]},
        {"subtopologies": [{"id": "0", "sources": [source], "sinks": ["-words"]}, counting]},
        {
            "subtopologies": [
                {"id": "0", "sources": [source], "sinks": ["-words"]},
                {**counting, "repartition": {"-words": 4}},
                {"id": "2", "sources": [other], "changelogs": ["-more", "-most"]},
            ]
        },
        {
            "subtopologies": [
                {"id": "0", "sources": [source, other], "together": [((0, 1), ())]},
            ]
        },
        {
            "subtopologies": [
                {"id": "0", "sources": [source], "sinks": ["-words"]},
                {
                    "id": "1",
                    "sources": [other],
                    "repartition": {"-words": 0},
                    "together": [((0,), (0,))],
                    "changelogs": ["-joined"],
                },
            ]
        },
        {
            "subtopologies": [
                {"id": "0", "repartition": {"-y": 0}, "sinks": ["-x"]},
                {"id": "1", "repartition": {"-x": 0}, "sinks": ["-y"]},
            ]
        },
        {"subtopologies": [{"id": "0", "sources": [source], "repartition": {"-lost": 0}}]},
    ]


class _Group:
    """Generates the history of a group."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.alive: list[str] = []
        self.instances: dict[str, str] = {}
        """The instance ids of static members."""
        self.away: list[str] = []
        """The instance ids of members that have left for a time."""
        self.processes = [f"process-{random.randrange(10**6)}" for _ in range(4)]
        names = [*TOPICS, OWN]
        source, other = random.choice(names), random.choice(names)
        plans = _plans(source, other)
        number = random.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 7))
        self.plan = {"epoch": random.choice((0, 0, 2)), **plans[number]}
        self.other_plan = plans[random.randrange(len(plans))]
        self.has_own = True
        # With an endpoint, Apache Kafka cannot answer while source topics are missing.
        is_certain = OWN not in (source, other) and number in (0, 1, 2, 3, 5)
        self.has_endpoints = is_certain and random.random() < 0.5

    def begin(self) -> list[Step]:
        """The settings of the group, and its own topic."""
        steps: list[Step] = [("create", {"topic": OWN, "partitions": self.random.choice((2, 3))})]
        replicas = self.random.choice((0, 0, 1, 2))
        if replicas:
            steps.append(("standby", {"replicas": replicas}))
        return steps

    def step(self) -> Step:
        """Return the next step."""
        random = self.random
        kind = random.random()
        if not self.alive or (kind < 0.2 and len(self.alive) < MEMBERS_MAX):
            if not self.alive and random.random() < 0.2:
                return self.without_members()
            return self.join()
        if kind < 0.62:
            return self.beat()
        if kind < 0.7:
            member = self.alive.pop(random.randrange(len(self.alive)))
            instance = self.instances.pop(member, None)
            if instance is not None and random.random() < 0.7:
                self.away.append(instance)
                return "beat", {"member": member, "epoch": -2, "instance_id": instance}
            return "beat", {
                "member": member,
                "epoch": -1,
                "shutdown_application": random.random() < 0.2,
                "instance_id": instance,
            }
        if kind < 0.76:
            return self.topics()
        if kind < 0.86:
            return self.nonsense()
        return self.look()

    def join(self) -> Step:
        """A member joins."""
        random = self.random
        member = f"m{random.randrange(10**6)}"
        self.alive.append(member)
        fields = self.fields()
        if self.has_endpoints:
            fields["endpoint"] = (f"host-{random.randrange(3)}", random.randrange(1, 60_000))
        if self.away and random.random() < 0.6:
            self.instances[member] = self.away.pop()
        elif random.random() < 0.3:
            self.instances[member] = f"instance-{random.randrange(10**6)}"
        plan = self.plan
        if random.random() < 0.06:
            plan = {**plan, "epoch": random.choice((0, 1, 3))}
        return "beat", {
            "member": member,
            "plan": plan,
            "epoch": 0,
            "rebalance_timeout_ms": 600_000,
            "process_id": random.choice(self.processes),
            "rack_id": random.choice((None, None, "r")),
            "tags": random.choice((None, {}, {"zone": "a", "cluster": "b"})),
            "instance_id": self.instances.get(member),
            **fields,
            **self.offsets(),
        }

    def offsets(self) -> dict[str, Any]:
        """Offsets of tasks, sometimes one twice."""
        random = self.random
        if random.random() < 0.6:
            return {}
        tasks = [
            (str(random.randrange(2)), random.randrange(4)) for _ in range(random.randrange(4))
        ]
        if random.random() < 0.9:
            tasks = list(dict.fromkeys(tasks))
        return {"offsets": [(*each, random.choice((0, 7, 1000))) for each in tasks]}

    def fields(self) -> dict[str, Any]:
        """The last epoch of the endpoints that a member has seen."""
        return {"endpoint_epoch": self.random.choice((-1, 0, 0, 1, 2, 3))}

    def beat(self) -> Step:
        """A usual heartbeat."""
        owned = self.random.choice(("held",) * 8 + ("none", "unknown"))
        member = self.random.choice(self.alive)
        return "beat", {
            "member": member,
            "owned": owned,
            "instance_id": self.instances.get(member),
            **self.fields(),
            **self.offsets(),
        }

    def topics(self) -> Step:
        """The group's own topic is created or deleted, or the number of standby tasks changes."""
        if self.random.random() < 0.4:
            return "standby", {"replicas": self.random.randrange(3)}
        if self.has_own:
            self.has_own = False
            return "drop", {"topic": OWN}
        self.has_own = True
        return "create", {"topic": OWN, "partitions": self.random.choice((2, 3))}

    def nonsense(self) -> Step:
        """A request that may be refused."""
        random = self.random
        member = random.choice([*self.alive, "unknown", "", " "])
        first = self.alive[0]
        return random.choice(
            (
                ("beat", {"member": member, "epoch": random.choice((-2, -3, 1, 2, 3, 100))}),
                ("beat", {"member": first, "owned": "all"}),
                ("beat", {"member": first, "plan": self.plan}),
                ("beat", {"member": first, "rack_id": ""}),
                ("beat", {"member": first, "instance_id": "static"}),
                ("beat", {"member": member, "instance_id": self.some_instance(), "epoch": -2}),
                ("beat", {"member": first, "rack_id": "another"}),
                (
                    "beat",
                    {
                        "member": "another",
                        "plan": self.other_plan,
                        "epoch": 0,
                        "rebalance_timeout_ms": random.choice((-1, 1000)),
                        "process_id": "another",
                    },
                ),
                ("delete", {}),
                ("consume", {"member": "consumer"}),
                ("join", {"member": ""}),
            )
        )

    def some_instance(self) -> str | None:
        """The instance id of a member, or of one that has left for a time.

        No other member uses it: Apache Kafka refuses the request, but then gives this member the
        target of the owner (`relabelRefinedAssignment` is called before the check).
        """
        return self.random.choice([None, *self.instances.values(), *self.away])

    def look(self) -> Step:
        """A description, or a commit."""
        random = self.random
        member = random.choice(self.alive)
        return random.choice(
            (
                ("describe", {}),
                ("describe", {}),
                self.commit(member),
                self.commit(member),
                ("fetch", {"member": member, "ahead": random.choice((0, 0, -1, 1))}),
                ("fetch", {"member": None, "ahead": 0}),
                ("list", {"states": random.choice(([], ["Stable"], ["not_ready"])), "types": []}),
                (
                    "list",
                    {"states": [], "types": random.choice((["streams"], ["Streams"], ["share"]))},
                ),
            )
        )

    def commit(self, member: str) -> Step:
        """A commit of a partition of a source topic."""
        random = self.random
        return "commit", {
            "member": random.choice((member, member, "nobody")),
            "topic": random.choice(("s2", "s3", "s5")),
            "partition": random.randrange(3),
            "ahead": random.choice((0, 0, 0, -1, -1, -2, 1)),
            "version": random.choice((8, 9, 9, 9)),
        }

    def without_members(self) -> Step:
        """A request to a group without members."""
        return self.random.choice(
            (
                ("delete", {}),
                ("describe", {}),
                ("beat", {"member": "nobody", "epoch": 3}),
                ("beat", {"member": "nobody", "epoch": -1}),
                self.commit("nobody"),
                ("list", {"states": [], "types": []}),
            )
        )
