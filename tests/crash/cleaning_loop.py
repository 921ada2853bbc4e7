"""Kills a node while it compacts, and checks the log after each start.

The topic is compacted, rolls many times per second, and is cleaned continuously at a limited rate;
each kill waits until there are incomplete cleaned segments. After each start the producer pauses,
and all records are read: each record must be the one that was written at its offset, the last value
of each key must exist, and deleted keys must not.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Message
from tests.crash.fault_loop import PARTITIONS, PATIENCE_SECONDS, TOPIC, read_all
from tests.crash.kill_loop import KillLoop

KEYS = 100
TOMBSTONES = 0.2
"""The fraction of the records that are tombstones."""
INCOMPLETE = (".cleaned", ".swap")
NODE_SETTINGS = {
    "odradek.log.level": "info",
    "log.cleaner.backoff.ms": "10",
    "log.cleaner.io.max.bytes.per.second": "1000000",
}
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "100",
}


class CleaningLoop(KillLoop):
    """Compacts the topic while the node is killed. See the module."""

    node_settings = NODE_SETTINGS
    topic_settings = TOPIC_SETTINGS
    pause_seconds = 0.002

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        self.written: list[list[tuple[bytes, bytes | None]]] = [[] for _ in range(PARTITIONS)]
        """For each partition: key and value of each number."""
        self.left_behind: Counter[str] = Counter()
        """Number of kills that left incomplete segments, by suffix."""
        self._contents = random.Random(seed + 1)

    @property
    def rounds(self) -> int:
        """The number of cleaned logs according to the node's log."""
        return self.node.log.read_text(encoding="utf-8").count(" is compacted up to offset ")

    def _record(self, partition: int, number: int) -> dict[str, bytes | None]:
        draw = self._contents
        value = None if draw.random() < TOMBSTONES else b"%d " % number * 30
        key = b"%d" % draw.randrange(KEYS)
        self.written[partition].append((key, value))
        return {"key": key, "value": value}

    def _incomplete(self) -> set[str]:
        found = self.node.data.glob(f"{TOPIC}-*/*")
        return {path.suffix for path in found} & set(INCOMPLETE)

    def _wait_before_fault(self) -> None:
        time.sleep(self._random.uniform(0.0, 1.0))
        if not self.left_behind[".cleaned"]:  # do not give the cleaner the time to rename them
            self._wait_until(lambda: ".cleaned" in self._incomplete())
            return
        self._wait_until(lambda: bool(self._incomplete()))
        time.sleep(self._random.uniform(0.0, 0.1))

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"nothing is cleaned: {self.node.last_words()}"
            time.sleep(0.001)

    def _wait_for_consumer(self) -> None:
        super()._wait_for_consumer()
        self._wait_until(lambda: self.rounds > 0)  # the kills may have ended all earlier rounds

    def _on_killed(self) -> None:
        self.left_behind.update(self._incomplete() or {"nothing"})

    def _on_started(self) -> None:
        self._is_paused.clear()
        self._may_produce.clear()
        assert self._is_paused.wait(PATIENCE_SECONDS), f"not acknowledged: {self.node.last_words()}"
        self._compare()
        self._may_produce.set()

    def _note(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        self.report.seen[partition][offset] = offset
        self._check(message)

    def _check(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if (message.key(), message.value()) != self.written[partition][offset]:
            where = f"{TOPIC}-{partition} at {offset}"
            self.report.errors.append(f"{where} is what was not written there")

    def _unseen_count(self) -> int:
        seen = self.report.seen
        return sum(
            sent - 1 - max(seen[partition], default=-1)
            for partition, sent in enumerate(self.report.sent)
        )

    def _compare(self) -> None:
        for partition, written in enumerate(self.written):
            text = f"{TOPIC}-{partition}"
            for number, offset in self.report.acknowledged[partition].items():
                if number != offset:
                    self.report.errors.append(f"{text}: {number} was acknowledged at {offset}")
                    return
            expected = {key: value for key, value in dict(written).items() if value is not None}
            found = self._state(partition)
            if found != expected:  # perhaps it read for longer than delete.retention.ms
                found = self._state(partition)
            for key in expected.keys() | found.keys():
                if found.get(key) != expected.get(key):
                    self.report.errors.append(
                        f"{text}: {key!r} is {found.get(key)!r}, not {expected.get(key)!r}"
                    )

    def _state(self, partition: int) -> dict[bytes, bytes]:
        """Return the last value of each key that is not deleted."""
        state: dict[bytes, bytes] = {}
        for message in read_all(self.node, partition):
            self._check(message)
            key, value = message.key(), message.value()
            assert key is not None
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        return state
