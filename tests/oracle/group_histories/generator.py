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
"""Of the histories: in these the ids of all topics share a bucket of Java's hash tables."""
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
    """The steps of one history."""
    random = Random(number)
    kind = random.choice((_Classic, _Consumer, _Consumer, _Mixed, _Upgrade))
    family = COLLIDING if random.random() < COLLIDING_SHARE else USUAL
    writer = kind(random, number, family)
    writer.write()
    return writer.steps


class _Writer:
    """Writes one history down."""

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
        """The topic of the family with so many partitions."""
        return f"{self.family}{count}"

    def some_topics(self) -> list[str]:
        """One, three or all topics of the family."""
        counts = self.random.choice(((7,), (2, 4, 7), (2, 4, 7), (1, 2, 4, 7, 12)))
        return [self.topic(each) for each in counts]

    def ask_offsets(self, name: str | None, **options: Any) -> None:
        self.say("offsets", name=name, topics=[self.topic(2), self.topic(4)], **options)

    def say(self, verb: str, **options: Any) -> None:
        self.steps.append((verb, options))

    def one(self) -> str:
        return self.random.choice(self.alive)

    def look(self) -> None:
        """Something that changes nothing."""
        which = self.random.randrange(4)
        if which == 0:
            states = self.random.sample(STATES, self.random.randint(0, 3))
            types = self.random.sample(
                ("classic", "Consumer", "share", "x"), self.random.randint(0, 2)
            )
            self.say("list", states=states, types=types)
        elif which == 1:
            self.ask_offsets(None, version=self.random.choice((8, 9, 10)))
        else:
            self.say("describe")

    def commit(self, name: str | None, **options: Any) -> None:
        topic = self.topic(self.random.choice((2, 4)))
        self.say(
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
        self.say("describe")
        self.ask_offsets(None, version=9)
        self.say("delete")
        self.say("delete_offsets", topic=self.topic(4), partition=0)


class _Consumer(_Writer):
    """The consumer protocol alone."""

    def write(self) -> None:
        self.assignors = self.random.choice((("uniform",), ("range",), ("uniform", "range"), ()))
        self.topics = self.some_topics()
        self.is_varied = self.random.random() < 0.5
        if self.random.random() < 0.3:
            self.commit(None)
        self.instances: dict[str, str] = {}
        self.away: list[str] = []
        is_timed = self.random.random() < 0.08
        if is_timed:
            self.say("session_timeout", ms=1_500)
        for _ in range(self.random.randint(8, 30)):
            self.step()
        if is_timed and self.alive:
            self.lapse()
        if self.alive:
            self.say("settle", names=list(self.alive))
        self.end()

    def step(self) -> None:
        random = self.random.random()
        if not self.alive or random < 0.15:
            self.join()
        elif random < 0.55:
            name = self.one()
            self.say("beat", name=name, lags=self.random.random() < 0.2)
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
        self.say("join", name=name, member_id=member_id, topics=self.wished(), **options)
        self.alive.append(name)
        if instance_id is not None:
            self.instances[name] = instance_id

    def wished(self) -> list[str]:
        """What a member reads: all the same, or everyone something else."""
        if self.is_varied:
            return self.random.sample(self.topics, self.random.randint(1, len(self.topics)))
        return self.topics

    def rare(self, name: str) -> None:
        which = self.random.randrange(14)
        if which == 0:
            self.alive.remove(name)
            self.say("leave", name=name)
        elif which == 1 and name in self.instances:
            self.alive.remove(name)
            self.away.append(self.instances.pop(name))
            self.say("leave", name=name, epoch=-2)
        elif which == 2 and self.away:
            self.join(self.away.pop())
        elif which == 3:
            self.say("wrong_epoch", name=name, step=self.random.choice((-2, -1, 1)))
        elif which == 4:
            self.wish(name)
        elif which == 5:
            fields = self.random.choice(BAD)
            version = self.random.choice((0, 1))
            if "subscribed_topic_regex" in fields or "member_id" in fields:
                version = 1  # in version 0 there are no patterns, and the broker makes the id
            self.say("bad", version=version, fields=fields)
        elif which == 6:
            self.say("beat", name=name, is_short=True)
        elif which == 7:
            self.say(
                "join",
                name=name,
                member_id=f"h{self.number}-{name}",
                topics=self.wished(),
                instance_id=self.instances.get(name),
            )
        elif which == 8 and self.instances:
            taken = self.random.choice(list(self.instances.values()))
            self.say(
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
        """A member wants other topics, or another assignor."""
        if self.assignors and self.random.random() < 0.4:
            self.say("wish", name=name, server_assignor=self.random.choice(self.assignors))
        else:
            self.say("wish", name=name, subscribed_topic_names=self.wished())

    def lapse(self) -> None:
        """Some members are silent until they are lost."""
        self.say("settle", names=list(self.alive))
        survivors = self.random.sample(self.alive, len(self.alive) // 2)
        self.say("silence", names=survivors, seconds=3.2)
        for name in self.alive:
            self.say("beat", name=name)
        self.alive = survivors


class _Classic(_Writer):
    """The classic protocol alone."""

    def write(self) -> None:
        self.instances: dict[str, str] = {}
        self.topics = self.some_topics()
        self.protocols = self.random.choice((("range",), ("range", "roundrobin")))
        if self.random.random() < 0.3:
            self.commit(None)
        for _ in range(self.random.randint(3, 10)):
            self.change()
            if self.alive:
                self.say("round", names=list(self.alive), protocols=self.protocols)
            for _ in range(self.random.randint(0, 5)):
                if self.alive:
                    self.between(self.one())
        for _ in range(self.random.randint(0, len(self.alive))):
            self.leave()
            if self.alive and self.random.random() < 0.5:
                self.say("round", names=list(self.alive), protocols=self.protocols)
        if self.alive and self.steps[-1][0] == "classic_leave":
            self.say("round", names=list(self.alive), protocols=self.protocols)
        self.end()

    def change(self) -> None:
        if len(self.alive) < 4 and (not self.alive or self.random.random() < 0.6):
            name = self.new_name()
            options: dict[str, Any] = {}
            if self.random.random() < 0.3:
                options["instance_id"] = self.instances[name] = f"i{self.count}"
            version = self.random.choice((5, 6, 8, 9))
            self.say(
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
        self.say("classic_leave", name=name, by_instance=by_instance)

    def between(self, name: str) -> None:
        which = self.random.randrange(11)
        if which == 0:
            self.say("classic_heartbeat", name=name, step=self.random.choice((-1, 1)))
        elif which in (1, 2):
            self.say("classic_heartbeat", name=name)
        elif which in (3, 4):
            self.commit(name, is_classic=True, step=self.random.choice((0, 0, 1, -1)))
        elif which == 5:
            self.say("classic_sync", name=name, step=self.random.choice((0, 1)))
        elif which == 6:
            self.say("classic_join", name="odd", topics=self.topics, protocols=("other",))
        elif which == 7:
            self.say("classic_join", name="odd", topics=self.topics, protocol_type="connect")
        elif which == 8:
            self.say("classic_leave", name="odd")
        elif which == 9:
            self.commit(None)
        else:
            self.look()


class _Mixed(_Consumer):
    """Members of both protocols in a consumer group; those of the classic one bring their ids."""

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
            self.say("settle", names=list(self.alive))
        for name in self.classic:
            self.say("classic_heartbeat", name=name)
            self.say("classic_join", name=name)
            self.say("classic_sync", name=name)
        self.end()

    def classic_step(self) -> None:
        if len(self.classic) < 2 and self.random.random() < 0.4:
            name = self.new_name()
            self.classic.append(name)
            member_id = f"h{self.number}-{name}"
            self.say("classic_join", name=name, topics=self.topics, member_id=member_id)
            self.say("classic_sync", name=name)
            return
        if not self.classic:
            return
        name = self.random.choice(self.classic)
        which = self.random.randrange(8)
        if which in (0, 1):
            self.say("classic_heartbeat", name=name, step=self.random.choice((0, 0, 0, 1)))
        elif which in (2, 3):
            self.say("classic_join", name=name)
            self.say("classic_sync", name=name)
        elif which == 4:
            self.say("classic_sync", name=name, step=self.random.choice((0, -1)))
        elif which == 5:
            self.commit(name, is_classic=True, step=self.random.choice((0, 0, -1)))
        elif which == 6:
            self.say("classic_join", name="odd", topics=self.topics, protocols=("other",))
        else:
            self.classic.remove(name)
            self.say("classic_leave", name=name)

    def rare(self, name: str) -> None:
        """Nobody of the consumer protocol leaves: what follows then is for `_Upgrade`."""
        before = list(self.alive)
        super().rare(name)
        if not self.alive:
            self.alive = before
            self.steps.pop()


class _Upgrade(_Writer):
    """A classic group of one becomes a consumer group, and perhaps classic again."""

    def write(self) -> None:
        instance_id = self.random.choice((None, "i1"))
        # Twelve partitions: two or three members share them evenly. Otherwise the id of the old one
        # would decide who gets more, and each broker makes another id.
        counts = self.random.choice(((12,), (1, 4, 7)))
        self.topics = [self.topic(each) for each in counts]
        self.say("classic_join", name="old", topics=self.topics, instance_id=instance_id)
        self.say("round", names=["old"])
        for _ in range(self.random.randint(1, 3)):
            self.meet()
            if self.random.random() < 0.4:
                break
        self.say("describe")
        self.say("classic_heartbeat", name="old")
        self.commit("old", is_classic=True)
        self.say("classic_leave", name="old")
        self.end()

    def meet(self) -> None:
        """Newcomers join, everyone follows, newcomers leave."""
        names = [self.new_name() for _ in range(self.random.randint(1, 2))]
        for name in names:
            self.say("join", name=name, member_id=f"h{self.number}-{name}", topics=self.topics)
            self.say("describe")
        for _ in range(2):
            self.say("classic_heartbeat", name="old")
            self.say("classic_join", name="old")
            self.say("classic_sync", name="old")
            self.say("settle", names=names)
        self.look()
        for name in names:
            self.say("leave", name=name)
        self.say("describe")
        self.say("round", names=["old"])
