"""Generates histories of transactional producers.

A history is a sequence of requests about two transactional ids: initializations with and without a
producer, additions, verifications, records, offsets, ends, timeouts and descriptions, in all
versions. Some have stale epochs, wrong sequence numbers or ids of other producers. Some requests read
the records in both isolation levels. Producer ids differ between brokers. They are replaced by
numbers in order of first use.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

REQUESTS = 30
"""Number of random requests in a history."""
PARTITIONS = 3
NOBODY = (-1, -1)
BRIEF_TIMEOUT_MS = 100
Step = dict[str, Any]
Answer = tuple[Any, ...]

_WEIGHTS = {
    "initialize": 17,
    "add": 13,
    "produce": 25,
    "plain": 3,
    "offsets": 5,
    "commit": 7,
    "end": 20,
    "describe": 5,
    "look": 6,
    "lapse": 0.8,
}


class Histories:
    """Generates the requests. The responses give the ids and epochs of producers."""

    def __init__(self, seed: int, name: str) -> None:
        """`name` is in the group id and in the transactional ids."""
        self._random = random.Random(seed)
        self._group = f"group-{name}"
        self._names = [f"{name}-a", f"{name}-b"]
        self._producers: dict[str, tuple[int, int]] = {}
        self._sequences: dict[tuple[int, int, int], int] = {}
        """The next sequence number by producer, epoch and partition."""
        self._count = 0

    def steps(self) -> Iterator[Step]:
        """Yield the requests of a history. Call `learn` with the response before the next
        request."""
        yield {"kind": "begin", "group": self._group}
        for _ in range(REQUESTS):
            name = "" if self._random.random() < 0.02 else self._random.choice(self._names)
            (kind,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
            yield {"kind": kind, "name": name, **getattr(self, f"_{kind}")(name)}
        for name in self._names:
            yield {"kind": "initialize", "name": name, **_TAKE_OVER}
        yield {"kind": "look", "group": self._group}

    def learn(self, step: Step, answer: Answer) -> None:
        """Store the ids, epochs and sequence numbers for the next requests."""
        if answer[0] != "NONE":
            return
        kind = step["kind"]
        if kind in {"initialize", "end"} and len(answer) > 1:
            self._producers[step["name"]] = answer[1], answer[2]
        elif kind == "produce":
            place = *step["producer"], step["partition"]
            self._sequences[place] = step["sequence"] + len(step["values"])

    def _producer(self, name: str) -> tuple[int, int]:
        """Return the current producer; sometimes a stale epoch or another producer's id."""
        chance = self._random
        producer_id, epoch = self._producers.get(name, NOBODY)
        if chance.random() < 0.12:
            epoch = max(0, epoch + chance.choice((-2, -1, 1)))
        if chance.random() < 0.04:
            producer_id = chance.randrange(4)
        return producer_id, epoch

    def _values(self) -> list[str]:
        self._count += 1
        return [f"{self._count}.{place}" for place in range(self._random.randint(1, 3))]

    def _initialize(self, name: str) -> Step:
        chance = self._random
        is_new = name not in self._producers or chance.random() < 0.5
        return {
            "producer": NOBODY if is_new else self._producer(name),
            "timeout_ms": chance.choice((60_000,) * 8 + (0, 900_001)),
            "version": chance.choice((1, 3, 4, 5) if is_new else (3, 4, 5)),
        }

    def _add(self, name: str) -> Step:
        chance = self._random
        return {
            "producer": self._producer(name),
            "partitions": chance.choice(([0], [0, 1], [2], [1, 2], [0, 7])),
            "version": chance.choice((0, 1, 2, 3, 4, 5, 5, 5)),
            "verify_only": chance.random() < 0.2,
        }

    def _produce(self, name: str) -> Step:
        chance = self._random
        producer, partition = self._producer(name), chance.randrange(PARTITIONS)
        values = self._values()
        sequence = self._sequences.get((*producer, partition), 0)
        if chance.random() < 0.15:
            sequence = max(0, sequence + chance.choice((-len(values), -1, 1, 5)))
        return {
            "producer": producer,
            "partition": partition,
            "sequence": sequence,
            "values": values,
            "version": chance.choice((3, 9, 11, 12, 12, 12, 12)),
        }

    def _plain(self, name: str) -> Step:
        return {"partition": self._random.randrange(PARTITIONS), "values": self._values()}

    def _offsets(self, name: str) -> Step:
        version = self._random.choice((0, 1, 2, 4))
        return {"producer": self._producer(name), "group": self._group, "version": version}

    def _commit(self, name: str) -> Step:
        chance = self._random
        return {
            "producer": self._producer(name),
            "group": self._group,
            "partition": chance.randrange(PARTITIONS + 1),
            "offset": chance.randrange(1000),
            "version": chance.choice((0, 2, 3, 4, 5, 5, 5)),
        }

    def _end(self, name: str) -> Step:
        return {
            "producer": self._producer(name),
            "committed": self._random.random() < 0.6,
            "version": self._random.choice((0, 1, 3, 4, 5, 5, 5, 5)),
        }

    def _describe(self, name: str) -> Step:
        return {}

    def _look(self, name: str) -> Step:
        return {"group": self._group}

    def _lapse(self, name: str) -> Step:
        """Return a request in which a new producer begins a transaction that times out."""
        self._count += 1
        return {
            "name": f"{self._names[0]}-{self._count}",
            "partition": self._random.randrange(PARTITIONS),
            "values": self._values(),
            "version": self._random.choice((4, 5, 5)),
        }


_TAKE_OVER: Step = {"producer": NOBODY, "timeout_ms": 60_000, "version": 5}
