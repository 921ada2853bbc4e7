from __future__ import annotations

import asyncio

import pytest
from tests.coordinator.ledger import Ledger
from tests.coordinator.support import MemoryTopic, VirtualClock, VirtualLoop

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.runtime import CoordinatorRuntime
from odradek.env.executor import InlineExecutor


class Bench:
    """A runtime of ledgers over a topic in memory; partition 0 is led here."""

    def __init__(self, is_replicated=False):
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.context = ShardContext(self.loop, self.clock, InlineExecutor(), write_timeout_ms=5000)
        self.topic = MemoryTopic(is_replicated)
        self.runtime = self.make_runtime()
        self.runtime.load(0, 1)

    def make_runtime(self):
        return CoordinatorRuntime(
            "ledger", self.topic, lambda _: Ledger(self.clock), self.context, 1000
        )

    @property
    def log(self):
        return self.topic.partition(0)

    @property
    def shard(self):
        return self.runtime.shard(0)

    @property
    def machine(self):
        return self.shard.machine

    def ask(self, question, *arguments, **named):
        """Ask the ledger `question` of itself by name."""
        method = getattr(self.machine, question)
        return self.shard.write(lambda: method(*arguments, **named))

    def run(self, ms=0):
        """Let time pass."""
        self.loop.run_until_complete(asyncio.sleep(ms / 1000))

    def close(self):
        self.runtime.close()
        self.run()
        self.loop.close()


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture
def replicated():
    bench = Bench(is_replicated=True)
    yield bench
    bench.close()
