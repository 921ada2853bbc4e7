"""Priorities between the topics of a share group: a fetch gets records of the highest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

import pytest
from compat.lab.wire_client import WireClient
from tests.client.test_share_consumer import SETTINGS, configure
from tests.share.member import VERSION, Member, errors
from tests.support.run_seed import seeds

from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.producer import Producer
from odradek.client.share.consumer import ShareConsumer, ShareLimits
from odradek.core.share.priority import levels
from odradek.core.share.schedule import HEADER
from odradek.core.share.states import ACCEPT, RELEASE
from odradek.model.config_resource import ResourceType
from odradek.testing import Broker
from odradek.wire.generated.share_fetch_request import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from odradek.wire.generated.share_fetch_response import ShareFetchResponse

LONG_MS = 3_600_000
Found = dict[str, list[tuple[int, int]]]
"""Acquired ranges by topic."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as started:
        yield started


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers, timeout_ms=10_000) as connected:
        yield connected


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.port) as connected:
        yield connected


class Queue:
    """A group with topics `high`, `plain` and `low`, and a member whose session has all of them."""

    def __init__(
        self, cluster: Cluster, client: WireClient, name: str, priority: str, **settings: str
    ) -> None:
        """`priority` has a number for each topic, e.g. `high:1,low:-1`."""
        self.cluster = cluster
        self.name = name
        topics = [NewTopic(f"{name}-{each}", 1) for each in ("low", "plain", "high")]
        made = create_topics(cluster, topics)
        assert not any(isinstance(each, Exception) for each in made.values()), made
        if priority:
            full = ",".join(f"{name}-{each}" for each in priority.split(","))
            settings = {**settings, "odradek_share_priority": full}
        configure(cluster, name, share_auto_offset_reset="earliest", **settings)
        cluster.refresh()
        self.names = {cluster.topic(each.name).id: each.name for each in topics}
        self.ids = {each.rpartition("-")[2]: topic_id for topic_id, each in self.names.items()}
        self.member = Member(client, name, "one", b"")
        self.member.join(*self.names.values())

    def send(self, topic: str, *values: bytes, due_ms: int | None = None) -> None:
        """Write one batch."""
        headers = [] if due_ms is None else [(HEADER, b"%d" % due_ms)]
        with Producer(self.cluster, linger_ms=1_000) as producer:
            for value in values:
                producer.send(f"{self.name}-{topic}", value, partition=0, headers=headers)

    def acknowledge(self, topic: str, first: int, last: int, kind: int) -> None:
        """Acknowledge records, and wait until this is stored."""
        self.member.topic_id = self.ids[topic]
        assert errors(self.member.acknowledge((first, last, [kind]))) == [0]

    def fetch(self, **fields: int) -> Found:
        """Send the next ShareFetch."""
        partitions = [FetchPartition(partition_index=0)]
        is_first = self.member.epoch == 0
        values = {
            "max_wait_ms": LONG_MS, "min_bytes": 1, "max_records": 500, "batch_size": 500,
        } | fields  # fmt: skip
        request = ShareFetchRequest(
            group_id=self.name,
            member_id=self.member.member,
            share_session_epoch=self.member.epoch,
            topics=[
                FetchTopic(topic_id=each, partitions=partitions)
                for each in (self.ids.values() if is_first else ())
            ],
            **values,
        )
        response = self.member.client.call("ShareFetch", VERSION, request, ShareFetchResponse)
        assert response.error_code == 0, response
        self.member.epoch += 1
        found: Found = {}
        for each in response.responses:
            for result in each.partitions:
                assert result.error_code == 0, result
                ranges = [(one.first_offset, one.last_offset) for one in result.acquired_records]
                if ranges:
                    found[self.names[each.topic_id].rpartition("-")[2]] = ranges
        return found


def test_each_fetch_gets_records_of_the_highest_priority(
    cluster: Cluster, client: WireClient
) -> None:
    queue = Queue(cluster, client, "strict", "high:10,low:-10")
    for topic in ("low", "plain", "high"):
        queue.send(topic, b"0")
        queue.send(topic, b"1", b"2")
    assert queue.fetch() == {"high": [(0, 2)]}
    assert queue.fetch(max_records=1) == {"plain": [(0, 0)]}
    queue.send("high", b"3")
    assert queue.fetch() == {"high": [(3, 3)]}
    assert queue.fetch() == {"plain": [(1, 2)]}
    queue.acknowledge("high", 0, 2, RELEASE)
    assert queue.fetch(max_records=2, share_acquire_mode=1) == {"high": [(0, 1)]}
    assert queue.fetch() == {"high": [(2, 2)]}
    assert queue.fetch() == {"low": [(0, 2)]}


def test_without_priorities_a_fetch_gets_records_of_all_topics(
    cluster: Cluster, client: WireClient
) -> None:
    queue = Queue(cluster, client, "mixed", "")
    for topic in ("low", "plain", "high"):
        queue.send(topic, b"0")
    found: Found = {}
    while len(found) < 3:  # the topics are loaded one after the other
        found |= queue.fetch()
    for topic in ("low", "plain", "high"):
        queue.send(topic, b"1")
    assert queue.fetch() == {topic: [(1, 1)] for topic in ("low", "plain", "high")}


def test_the_setting_takes_effect_with_the_next_fetch(cluster: Cluster, client: WireClient) -> None:
    queue = Queue(cluster, client, "changed", "low:1")
    for topic in ("high", "plain", "low"):
        queue.send(topic, b"0")
    assert queue.fetch() == {"low": [(0, 0)]}
    configure(cluster, "changed", odradek_share_priority="changed-high:1")
    assert queue.fetch() == {"high": [(0, 0)]}


def test_priorities_do_not_change_how_long_a_fetch_waits(
    cluster: Cluster, client: WireClient
) -> None:
    queue = Queue(cluster, client, "bytes", "high:1,low:-1")
    queue.send("high", b"0")
    queue.send("low", b"0" * 10_000)
    assert queue.fetch(min_bytes=5_000) == {"high": [(0, 0)]}
    assert queue.fetch(min_bytes=5_000) == {"low": [(0, 0)]}
    queue.send("plain", b"0")
    queue.send("low", b"0")
    assert queue.fetch(min_bytes=5_000, max_wait_ms=20) == {"plain": [(0, 0)]}


def test_records_that_are_not_available_do_not_hold_up_others(
    cluster: Cluster, client: WireClient
) -> None:
    queue = Queue(
        cluster, client, "unavailable", "high:2,plain:1",
        odradek_share_delay_enable="true",
        share_partition_max_record_locks="100",
    )  # fmt: skip
    later_ms = time.time_ns() // 1_000_000 + LONG_MS
    queue.send("high", b"later", due_ms=later_ms)
    queue.send("plain", *(b"0" for _ in range(100)))
    queue.send("low", b"0")
    assert queue.fetch() == {"plain": [(0, 99)]}
    queue.send("plain", b"beyond the limit of locks")
    assert queue.fetch() == {"low": [(0, 0)]}
    queue.send("high", b"later", due_ms=later_ms)
    queue.send("high", b"now")
    queue.acknowledge("plain", 0, 99, ACCEPT)
    assert queue.fetch() == {"high": [(2, 2)]}
    assert queue.fetch() == {"plain": [(100, 100)]}


def test_a_fetch_that_is_over_skips_records_that_are_not_due(
    cluster: Cluster, client: WireClient
) -> None:
    queue = Queue(cluster, client, "over", "high:1", odradek_share_delay_enable="true")
    queue.send("plain", b"0")
    assert queue.fetch() == {"plain": [(0, 0)]}
    queue.send("high", b"later", due_ms=time.time_ns() // 1_000_000 + LONG_MS)
    queue.send("low", b"0")
    assert queue.fetch(max_wait_ms=0) == {"low": [(0, 0)]}


def test_a_share_consumer_gets_the_records_in_the_order_of_priorities(
    cluster: Cluster, client: WireClient
) -> None:
    queue = Queue(cluster, client, "consumer", "high:1,low:-1")
    for topic in ("low", "plain", "high"):
        queue.send(topic, *(b"%s %d" % (topic.encode(), number) for number in range(3)))
    one = ShareLimits(wait_ms_max=60_000, records_max=1, is_record_limit=True)
    found = []
    with ShareConsumer(cluster, queue.name, list(queue.names.values()), limits=one) as consumer:
        while len(found) < 9:
            for record in consumer.poll(10_000):
                found.append(record.value)
                consumer.accept(record)
    assert found == [
        b"%s %d" % (topic, number) for topic in (b"high", b"plain", b"low") for number in range(3)
    ]


def test_the_setting_is_checked(cluster: Cluster) -> None:
    group = Resource(ResourceType.GROUP, "checked")
    for value in ("high", "high:x", "high:1,high:2"):
        change = Change("odradek.share.priority", value)
        assert alter_configs(cluster, {group: [change]})[group] is not None


@pytest.mark.parametrize("seed", seeds(20))
def test_levels(seed: int) -> None:
    random = Random(seed)
    priorities = {key: random.randrange(-3, 3) for key in range(random.randrange(12))}
    keys = random.sample(sorted(priorities), len(priorities))
    least = random.choice((None, *range(-4, 4)))
    found = levels({key: str(key) for key in keys}, priorities.__getitem__, least)
    flat = [key for level in found for key in level]
    assert flat == sorted(
        (key for key in keys if least is None or priorities[key] >= least),
        key=lambda key: -priorities[key],
    )
    assert len(found) == len({priorities[key] for key in flat})
    assert all(len({priorities[key] for key in level}) == 1 for level in found)
    assert all(value == str(key) for level in found for key, value in level.items())
