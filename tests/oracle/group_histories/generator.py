"""Generates histories: the same number always gives the same history.

A history is a list of (verb, options) for the player. Most requests are valid, so that groups make
progress; some are not.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.oracle.group_histories.player import Step
from tests.oracle.group_histories.requests import COLLIDING, TOPICS, USUAL

COLLIDING_SHARE = 0.25
"""The fraction of histories in which all topic ids are in one bucket of Java's hash tables."""
STATES = ("Stable", "empty", "Reconciling", "Assigning", "PreparingRebalance", "Dead")
BAD: tuple[dict[str, Any], ...] = (
    {"member_id": ""},
    {"member_epoch": -3},
    {"member_epoch": -2},
    {"member_epoch": -1},
    {"member_epoch": 5},
    {"instance_id": ""},
    {"rack_id": " "},
    {"rebalance_timeout_ms": -1},
    {"topic_partitions": None},
    {"subscribed_topic_names": None},
    {"server_assignor": "what"},
    {"subscribed_topic_regex": "["},
    {"instance_id": "i1", "member_epoch": -2},
    {"instance_id": "i1", "member_epoch": 4},
)


def history(number: int) -> list[Step]:
    """Return the steps of a history."""
    random = Random(number)
    kind = random.choice((_Classic, _Consumer, _Consumer, _Mixed, _Upgrade))
    family = COLLIDING if random.random() < COLLIDING_SHARE else USUAL
    writer = kind(random, number, family)
    writer.write()
    return writer.steps


class _Writer:
    """Generates one history."""

    def __init__(self, random: Random, number: int, family: str) -> None:
        self.random = random
        self.number = number
        self.family = family
        self.steps: list[Step] = []
        self.alive: list[str] = []
        self.count = 0

    def write(self) -> None:
        raise NotImplementedError

    def topic(self, count: int) -> str:
        """Return the topic of the family with `count` partitions."""
        return f"{self.family}{count}"

    def some_topics(self) -> list[str]:
        """Return one, three or all topics of the family."""
        counts = self.random.choice(((7,), (2, 4, 7), (2, 4, 7), (1, 2, 4, 7, 12)))
        return [self.topic(each) for each in counts]

    def ask_offsets(self, name: str | None, **options: Any) -> None:
        self.add("offsets", name=name, topics=[self.topic(2), self.topic(4)], **options)

    def add(self, verb: str, **options: Any) -> None:
        self.steps.append((verb, options))

    def one(self) -> str:
        return self.random.choice(self.alive)

    def look(self) -> None:
        """Add a request that changes nothing."""
        which = self.random.randrange(4)
        if which == 0:
            states = self.random.sample(STATES, self.random.randint(0, 3))
            types = self.random.sample(
                ("classic", "Consumer", "share", "x"), self.random.randint(0, 2)
            )
            self.add("list", states=states, types=types)
        elif which == 1:
            self.ask_offsets(None, version=self.random.choice((8, 9, 10)))
        else:
            self.add("describe")

    def commit(self, name: str | None, **options: Any) -> None:
        topic = self.topic(self.random.choice((2, 4)))
        self.add(
            "commit",
            name=name,
            version=self.random.choice((7, 8, 9, 10)),
            topic=topic,
            partition=self.random.randrange(TOPICS[topic] + 1),
            offset=self.random.randrange(1000),
            **options,
        )

    def new_name(self) -> str:
        self.count += 1
        return f"m{self.count}"

    def end(self) -> None:
        self.add("describe")
        self.ask_offsets(None, version=9)
        self.add("delete")
        self.add("delete_offsets", topic=self.topic(4), partition=0)


class _Consumer(_Writer):
    """A history with the consumer protocol only."""

    def write(self) -> None:
        # One assignor: Apache Kafka rebalances for ever while two have the same number of votes.
        self.assignors = self.random.choice((("uniform",), ("range",), ()))
        self.topics = self.some_topics()
        self.is_varied = self.random.random() < 0.5
        if self.random.random() < 0.3:
            self.commit(None)
        self.instances: dict[str, str] = {}
        self.away: list[str] = []
        is_timed = self.random.random() < 0.08
        if is_timed:
            self.add("session_timeout", ms=1_500)
        for _ in range(self.random.randint(8, 30)):
            self.step()
        if is_timed and self.alive:
            self.lapse()
        if self.alive:
            self.add("settle", names=list(self.alive))
        self.end()

    def step(self) -> None:
        random = self.random.random()
        if not self.alive or random < 0.15:
            self.join()
        elif random < 0.55:
            name = self.one()
            self.add("beat", name=name, lags=self.random.random() < 0.2)
        else:
            self.rare(self.one())

    def join(self, instance_id: str | None = None) -> None:
        if len(self.alive) >= 5:
            return
        name = self.new_name()
        if instance_id is None and self.random.random() < 0.3:
            instance_id = f"i{self.count}"
        options: dict[str, Any] = {
            "instance_id": instance_id,
            "rack_id": self.random.choice((None, "r")),
        }
        if self.assignors and self.random.random() < 0.8:
            options["server_assignor"] = self.random.choice(self.assignors)
        member_id = f"h{self.number}-{name}"
        self.add("join", name=name, member_id=member_id, topics=self.wished(), **options)
        self.alive.append(name)
        if instance_id is not None:
            self.instances[name] = instance_id

    def wished(self) -> list[str]:
        """Return the subscription of a member: the same for all members, or a random one."""
        if self.is_varied:
            return self.random.sample(self.topics, self.random.randint(1, len(self.topics)))
        return self.topics

    def rare(self, name: str) -> None:
        which = self.random.randrange(14)
        if which == 0:
            self.alive.remove(name)
            self.add("leave", name=name)
        elif which == 1 and name in self.instances:
            self.alive.remove(name)
            self.away.append(self.instances.pop(name))
            self.add("leave", name=name, epoch=-2)
        elif which == 2 and self.away:
            self.join(self.away.pop())
        elif which == 3:
            self.add("wrong_epoch", name=name, step=self.random.choice((-2, -1, 1)))
        elif which == 4:
            self.wish(name)
        elif which == 5:
            fields = self.random.choice(BAD)
            version = self.random.choice((0, 1))
            if "subscribed_topic_regex" in fields or "member_id" in fields:
                version = 1  # version 0 has no patterns, and the broker generates the member id
            self.add("bad", version=version, fields=fields)
        elif which == 6:
            self.add("beat", name=name, is_short=True)
        elif which == 7:
            self.add(
                "join",
                name=name,
                member_id=f"h{self.number}-{name}",
                topics=self.wished(),
                instance_id=self.instances.get(name),
            )
        elif which == 8 and self.instances:
            taken = self.random.choice(list(self.instances.values()))
            self.add(
                "join",
                name="thief",
                member_id=f"h{self.number}-thief",
                topics=[self.topic(7)],
                instance_id=taken,
            )
        elif which in (9, 10):
            self.commit(name, step=self.random.choice((0, 0, 0, -1, 1)))
        elif which == 11:
            version = self.random.choice((9, 10))
            self.ask_offsets(name, version=version, step=self.random.choice((0, 0, 1)))
        elif which == 12:
            self.commit(None)
        else:
            self.look()

    def wish(self, name: str) -> None:
        """Change the topics or the assignor of a member."""
        if self.assignors and self.random.random() < 0.4:
            self.add("change", name=name, server_assignor=self.random.choice(self.assignors))
        else:
            self.add("change", name=name, subscribed_topic_names=self.wished())

    def lapse(self) -> None:
        """Let some members send nothing until their sessions expire."""
        self.add("settle", names=list(self.alive))
        survivors = self.random.sample(self.alive, len(self.alive) // 2)
        self.add("silence", names=survivors, seconds=3.2)
        for name in self.alive:
            self.add("beat", name=name)
        self.alive = survivors


class _Classic(_Writer):
    """A history with the classic protocol only."""

    def write(self) -> None:
        self.instances: dict[str, str] = {}
        self.topics = self.some_topics()
        self.protocols = self.random.choice((("range",), ("range", "roundrobin")))
        if self.random.random() < 0.3:
            self.commit(None)
        for _ in range(self.random.randint(3, 10)):
            self.change()
            if self.alive:
                self.add("round", names=list(self.alive), protocols=self.protocols)
            for _ in range(self.random.randint(0, 5)):
                if self.alive:
                    self.between(self.one())
        for _ in range(self.random.randint(0, len(self.alive))):
            self.leave()
            if self.alive and self.random.random() < 0.5:
                self.add("round", names=list(self.alive), protocols=self.protocols)
        if self.alive and self.steps[-1][0] == "classic_leave":
            self.add("round", names=list(self.alive), protocols=self.protocols)
        self.end()

    def change(self) -> None:
        if len(self.alive) < 4 and (not self.alive or self.random.random() < 0.6):
            name = self.new_name()
            options: dict[str, Any] = {}
            if self.random.random() < 0.3:
                options["instance_id"] = self.instances[name] = f"i{self.count}"
            version = self.random.choice((5, 6, 8, 9))
            self.add(
                "classic_join",
                name=name,
                topics=self.topics,
                version=version,
                protocols=self.protocols,
                **options,
            )
            self.alive.append(name)
        elif self.alive:
            self.leave()

    def leave(self) -> None:
        name = self.one()
        self.alive.remove(name)
        by_instance = name in self.instances and self.random.random() < 0.5
        self.add("classic_leave", name=name, by_instance=by_instance)

    def between(self, name: str) -> None:
        which = self.random.randrange(11)
        if which == 0:
            self.add("classic_heartbeat", name=name, step=self.random.choice((-1, 1)))
        elif which in (1, 2):
            self.add("classic_heartbeat", name=name)
        elif which in (3, 4):
            self.commit(name, is_classic=True, step=self.random.choice((0, 0, 1, -1)))
        elif which == 5:
            self.add("classic_sync", name=name, step=self.random.choice((0, 1)))
        elif which == 6:
            self.add("classic_join", name="odd", topics=self.topics, protocols=("other",))
        elif which == 7:
            self.add("classic_join", name="odd", topics=self.topics, protocol_type="connect")
        elif which == 8:
            self.add("classic_leave", name="odd")
        elif which == 9:
            self.commit(None)
        else:
            self.look()


class _Mixed(_Consumer):
    """A consumer group with members of both protocols. Classic members have fixed ids."""

    def write(self) -> None:
        self.assignors = ()
        self.is_varied = False
        self.topics = self.random.choice(([self.topic(12)], self.some_topics()))
        self.instances = {}
        self.away = []
        self.classic: list[str] = []
        self.join()
        anchor = self.alive[0]
        for _ in range(self.random.randint(8, 25)):
            if self.random.random() < 0.5:
                self.classic_step()
            else:
                self.step()
            if anchor not in self.alive:
                break
        if self.alive:
            self.add("settle", names=list(self.alive))
        for name in self.classic:
            self.add("classic_heartbeat", name=name)
            self.add("classic_join", name=name)
            self.add("classic_sync", name=name)
        self.end()

    def classic_step(self) -> None:
        if len(self.classic) < 2 and self.random.random() < 0.4:
            name = self.new_name()
            self.classic.append(name)
            member_id = f"h{self.number}-{name}"
            self.add("classic_join", name=name, topics=self.topics, member_id=member_id)
            self.add("classic_sync", name=name)
            return
        if not self.classic:
            return
        name = self.random.choice(self.classic)
        which = self.random.randrange(8)
        if which in (0, 1):
            self.add("classic_heartbeat", name=name, step=self.random.choice((0, 0, 0, 1)))
        elif which in (2, 3):
            self.add("classic_join", name=name)
            self.add("classic_sync", name=name)
        elif which == 4:
            self.add("classic_sync", name=name, step=self.random.choice((0, -1)))
        elif which == 5:
            self.commit(name, is_classic=True, step=self.random.choice((0, 0, -1)))
        elif which == 6:
            self.add("classic_join", name="odd", topics=self.topics, protocols=("other",))
        else:
            self.classic.remove(name)
            self.add("classic_leave", name=name)

    def rare(self, name: str) -> None:
        """No member of the consumer protocol leaves. `_Upgrade` tests this case."""
        before = list(self.alive)
        super().rare(name)
        if not self.alive:
            self.alive = before
            self.steps.pop()


class _Upgrade(_Writer):
    """A classic group with one member becomes a consumer group, and in some histories classic
    again."""

    def write(self) -> None:
        instance_id = self.random.choice((None, "i1"))
        # Twelve partitions can be assigned evenly to two or three members. Otherwise the assignment
        # would depend on the generated member id, which differs between the brokers.
        counts = self.random.choice(((12,), (1, 4, 7)))
        self.topics = [self.topic(each) for each in counts]
        self.add("classic_join", name="old", topics=self.topics, instance_id=instance_id)
        self.add("round", names=["old"])
        for _ in range(self.random.randint(1, 3)):
            self.meet()
            if self.random.random() < 0.4:
                break
        self.add("describe")
        self.add("classic_heartbeat", name="old")
        self.commit("old", is_classic=True)
        self.add("classic_leave", name="old")
        self.end()

    def meet(self) -> None:
        """New members join, all members apply their assignments, and the new members leave."""
        names = [self.new_name() for _ in range(self.random.randint(1, 2))]
        for name in names:
            self.add("join", name=name, member_id=f"h{self.number}-{name}", topics=self.topics)
            self.add("describe")
        for _ in range(2):
            self.add("classic_heartbeat", name="old")
            self.add("classic_join", name="old")
            self.add("classic_sync", name="old")
            self.add("settle", names=names)
        self.look()
        for name in names:
            self.add("leave", name=name)
        self.add("describe")
        self.add("round", names=["old"])
