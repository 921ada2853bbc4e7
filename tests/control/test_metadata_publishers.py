"""Publishers of the metadata: a publisher that fails misses no change, and does not affect the
others."""

from __future__ import annotations

import asyncio

import pytest
from tests.coordinator.support import VirtualLoop

from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.publisher import RETRY_SECONDS, Publishers

from .harness import Controller
from .test_topic_decisions import create, topic


class Recorder:
    """A publisher that applies all changes, and fails on demand."""

    def __init__(self, image):
        self.failing = 0
        self.topics = dict(image.topics.by_name)
        self.images = []

    def load(self, image):
        self.images.append(image)

    def publish(self, delta, image):
        if self.failing:
            self.failing -= 1
            raise RuntimeError("not now")
        for _, name in delta.topics.deleted:
            del self.topics[name]
        for topic_id in delta.topics.changed:
            changed = image.topics.by_id[topic_id]
            self.topics[changed.name] = changed
        self.images.append(image)


class Bench:
    """Publishers behind a controller whose decisions are committed at once."""

    def __init__(self):
        self.loop = VirtualLoop()
        self.controller = Controller().join(1)
        self.publishers = Publishers(self.loop)
        self.cache = MetadataCache()
        self.first, self.last = (Recorder(self.controller.image) for _ in range(2))
        for each in (self.first, self.cache, self.last):
            self.publishers.add(each, self.controller.image)

    def create(self, name):
        create(self.controller, topic(name))
        self.publishers.publish(self.controller.delta, self.controller.image)

    def run(self, seconds):
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.publishers.close()
    bench.loop.close()


def test_the_others_are_told_of_what_one_misses(bench):
    bench.first.failing = 1
    bench.create("a")
    assert "a" not in bench.first.topics
    assert "a" in bench.last.topics
    assert bench.cache.image is bench.controller.image
    assert bench.publishers.failures == 1


def test_the_next_change_brings_what_was_missed(bench):
    bench.first.failing = 2
    for name in "abc":
        bench.create(name)
    assert bench.first.topics.keys() == bench.last.topics.keys() == {"a", "b", "c"}
    assert bench.first.images[-1] is bench.controller.image
    assert len(bench.last.images) == 4
    bench.create("d")
    assert bench.first.topics == dict(bench.controller.image.topics.by_name)


def test_without_another_change_it_is_called_again(bench):
    bench.first.failing = 3
    bench.create("a")
    bench.run(2.5 * RETRY_SECONDS)
    assert "a" not in bench.first.topics
    bench.run(RETRY_SECONDS)
    assert "a" in bench.first.topics
    assert bench.publishers.failures == 3
    assert len(bench.last.images) == 2, "the others are not told again"
    bench.run(10 * RETRY_SECONDS)
    assert len(bench.first.images) == 2


def test_a_publisher_that_cannot_take_the_image_is_not_added(bench):
    class Broken(Recorder):
        def load(self, image):
            raise RuntimeError("never")

    with pytest.raises(RuntimeError):
        bench.publishers.add(Broken(bench.controller.image), bench.controller.image)
    bench.create("a")
    assert bench.publishers.failures == 0
