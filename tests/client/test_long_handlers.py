"""A handler that works for a quarter of an hour on one record, in both shells and both protocols.

With `max.poll.interval.ms` above it, the member keeps its partition, although the session of the classic
group is six seconds. With the default it loses it, is told so, and comes back; the log and the commit
name the setting. All cases run at the same time, each in a group with a second member that always polls.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from odradek.client import Consumer, Producer, aio
from odradek.client.errors import CommitFailedError
from odradek.testing import Broker

SECONDS = int(os.environ.get("ODRADEK_HANDLER_SECONDS", "900"))
SESSION = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 2_000}
PROTOCOLS = {
    "classic": {"group_protocol": "classic", **SESSION},
    "consumer": {"group_protocol": "consumer"},
}
DEFAULT_MS = 300_000


class Case(NamedTuple):
    protocol: str
    is_patient: bool
    """Whether `max.poll.interval.ms` is longer than the work on a record."""

    def settings(self, broker, group):
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in PROTOCOLS[self.protocol].items()},
        }
        interval_ms = 2 * SECONDS * 1000 if self.is_patient else SECONDS * 1000 // 3
        if interval_ms != DEFAULT_MS:
            settings["max.poll.interval.ms"] = interval_ms
        return settings


class Peer:
    """The other member of a group."""

    def __init__(self, settings, topic):
        self.assignment = frozenset()
        self.assigned = []
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(settings, topic))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_ending.set()
        self._thread.join()

    def _run(self, settings, topic):
        with Consumer(settings) as consumer:
            consumer.subscribe([topic], on_assigned=self.assigned.extend)
            while not self._is_ending.is_set():
                consumer.poll(0.2)
                self.assignment = consumer.assignment


class Told:
    """What a member was told."""

    def __init__(self):
        self.events = []

    def callbacks(self):
        return {
            f"on_{name}": lambda some, name=name: self.events.append((name, some))
            for name in ("assigned", "revoked", "lost")
        }


def blocking(settings, topic, peer, told):
    with Consumer(settings) as consumer:
        consumer.subscribe([topic], **told.callbacks())
        while len(consumer.assignment) != 1 or len(peer.assignment) != 1:
            consumer.poll(0.2)
        (mine,) = consumer.assignment
        consumer.seek_to_beginning()
        records = iter(consumer)
        record = next(records)
        told.events.clear()
        peer.assigned.clear()
        time.sleep(SECONDS)
        error = None
        try:
            consumer.commit(record)
        except CommitFailedError as failure:
            error = failure
        taken = mine in peer.assigned
        following = next(records)
        return list(told.events), error, taken, following


async def awaiting(settings, topic, peer, told):
    async with aio.Consumer(settings) as consumer:
        consumer.subscribe([topic], **told.callbacks())
        while len(consumer.assignment) != 1 or len(peer.assignment) != 1:
            await consumer.poll(0.2)
        (mine,) = consumer.assignment
        consumer.seek_to_beginning()
        records = aiter(consumer)
        record = await anext(records)
        told.events.clear()
        peer.assigned.clear()
        await asyncio.sleep(SECONDS)
        error = None
        try:
            await consumer.commit(record)
        except CommitFailedError as failure:
            error = failure
        taken = mine in peer.assigned
        following = await anext(records)
        return list(told.events), error, taken, following


def run(broker, case, is_asyncio):
    topic = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topics({topic: 2})
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in (0, 1):
            for value in (b"0", b"1", b"2"):
                producer.send(topic, value, partition=partition)
    settings = case.settings(broker, f"g-{uuid.uuid4().hex[:8]}")
    told = Told()
    with Peer(settings, topic) as peer:
        if is_asyncio:
            return asyncio.run(awaiting(settings, topic, peer, told))
        return blocking(settings, topic, peer, told)


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 300)
def test_a_handler_may_work_for_long(caplog):
    cases = [
        (Case(protocol, is_patient), is_asyncio)
        for protocol in PROTOCOLS
        for is_patient in (True, False)
        for is_asyncio in (True, False)
    ]
    with (
        Broker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker,
        ThreadPoolExecutor(len(cases)) as pool,
    ):
        outcomes = list(pool.map(lambda each: run(broker, *each), cases))
    for (case, is_asyncio), (events, error, was_taken, following) in zip(
        cases, outcomes, strict=True
    ):
        names = [name for name, _ in events if name != "assigned"]
        shown = f"{case}, asyncio {is_asyncio}: {events}, {error}, taken {was_taken}"
        if case.is_patient:
            assert (error, events, was_taken) == (None, [], False), shown
            assert following.value == b"1", shown
        else:
            assert "max.poll.interval.ms" in f"{error} {error.advice}", shown
            assert (was_taken, names[:1]) == (True, ["lost"]), shown
            assert following.value == b"0", shown  # nothing was committed
    warnings = [each.getMessage() for each in caplog.records]
    losses = [each for each in warnings if "max.poll.interval.ms" in each]
    assert len(losses) >= len(cases) // 2, warnings
