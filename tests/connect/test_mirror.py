"""MirrorMaker's connectors: their records, and a flow from one broker to another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

import pytest
from tests.connect.lab import Lab
from tests.connect.mirror_lab import (
    commit,
    committed,
    connected,
    counts,
    place,
    produce,
    records_of,
    settings,
)
from tests.support.waiting import until

from odradek.client import Admin, Consumer
from odradek.client.admin.configs import (
    Change,
    ConfigEntry,
    Resource,
    alter_configs,
    describe_configs,
)
from odradek.client.errors import ClientError
from odradek.client.group_metadata import CommittedOffset
from odradek.connect import SourceConnector, SourceRecord, SourceTask
from odradek.connect.registry import installed_plugins
from odradek.connectors.mirror import MirrorCheckpointConnector, MirrorSourceConnector
from odradek.connectors.mirror.checkpoints import Checkpoints
from odradek.connectors.mirror.dedicated import MirrorMaker
from odradek.connectors.mirror.filters import PropertyFilter, TopicFilter
from odradek.connectors.mirror.flows import Flows
from odradek.connectors.mirror.formats import (
    Checkpoint,
    Heartbeat,
    MalformedRecordError,
    OffsetSync,
)
from odradek.connectors.mirror.offset_syncs import SyncStore
from odradek.connectors.mirror.policies import IdentityReplicationPolicy, ReplicationPolicy
from odradek.connectors.mirror.source_task import MirrorSourceTask
from odradek.connectors.mirror.topics import (
    Flow,
    changes,
    chunks,
    partitions_of,
    settings_of_new,
    shares,
)
from odradek.connectors.own import OWN
from odradek.core.connect import java_map
from odradek.core.connect.errors import ConnectError
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.model.config_resource import Operation, ResourceType, Source
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker

PACKAGE = "org.apache.kafka.connect.mirror."
SYNC_KEY, SYNC_VALUE = "00066f726465727300000003", "00000000000001f4ffffffffffffffff"
CHECKPOINT_KEY = "0001670008612e6f726465727300000002"
CHECKPOINT_VALUE = "0000000000000000000700000000000000050002c3a4"
HEARTBEAT_KEY, HEARTBEAT_VALUE = "000261310000", "00000000000190000000"
"""Bytes that Apache Kafka 4.3's classes have written."""


def test_records_have_the_bytes_of_java():
    sync = OffsetSync(TopicPartition("orders", 3), 500, -1)
    assert (sync.key().hex(), sync.value().hex()) == (SYNC_KEY, SYNC_VALUE)
    checkpoint = Checkpoint("g", TopicPartition("a.orders", 2), 7, 5, "ä")
    assert (checkpoint.key().hex(), checkpoint.value().hex()) == (CHECKPOINT_KEY, CHECKPOINT_VALUE)
    beat = Heartbeat("a1", "", 0x190000000)
    assert (beat.key().hex(), beat.value().hex()) == (HEARTBEAT_KEY, HEARTBEAT_VALUE)
    for record in (sync, checkpoint, beat):
        assert type(record).read(record.key(), record.value()) == record


@pytest.mark.parametrize("kind", [OffsetSync, Checkpoint, Heartbeat])
@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\xff\xff", b"\x00\x09abc"])
def test_malformed_records_are_refused(kind: Any, data: bytes | None):
    with pytest.raises(MalformedRecordError):
        kind.read(data, data)


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        ({"topic": "t", "partition": 0}, {"offset": 1}, "missing the 'cluster' key"),
        ({"cluster": 1, "topic": "t", "partition": 0}, {"offset": 1}, "must be a string"),
        ({"cluster": "a", "topic": "t"}, {"offset": 1}, "missing the 'partition' key"),
        ({"cluster": "a", "topic": "t", "partition": "0"}, {"offset": 1}, "must be an integer"),
        ({"cluster": "a", "topic": "t", "partition": -1}, {"offset": 1}, "cannot be negative"),
        ({"cluster": "a", "topic": "t", "partition": 0}, {}, "missing the 'offset' key"),
        ({"cluster": "a", "topic": "t", "partition": 0}, {"offset": "1"}, "must be an integer"),
        ({"cluster": "a", "topic": "t", "partition": 0}, {"offset": -1}, "cannot be negative"),
    ],
)
def test_wrong_offsets_are_refused(partition: dict[str, Any], offset: dict[str, Any], text: str):
    with pytest.raises(ConnectError, match=text):
        MirrorSourceConnector().alter_offsets({}, [(partition, offset)])
    assert MirrorSourceConnector().alter_offsets({}, [(partition, None)])


def test_offsets_of_checkpoints_are_zero():
    partition = {"group": "g", "topic": "t", "partition": 0}
    made = MirrorCheckpointConnector()
    assert made.alter_offsets({}, [(partition, {"offset": 0})])
    with pytest.raises(ConnectError, match="the only accepted value is 0"):
        made.alter_offsets({}, [(partition, {"offset": 4})])


class Pair:
    """Two brokers, and a worker at the second one."""

    def __init__(self, folder: Path, source: Broker, target: Broker) -> None:
        self.folder = folder
        self.source, self.target = source, target

    def lab(self) -> Lab:
        return Lab(self.target.bootstrap_servers, self.folder)

    def config(self, kind: str, **more: str) -> dict[str, str]:
        short = {
            f"{word}.interval.seconds": "1"
            for word in (
                *("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls"),
                *("emit.checkpoints", "emit.heartbeats", "sync.group.offsets"),
            )
        }
        factors = {
            f"{each}.replication.factor": "1"
            for each in ("offset-syncs.topic", "checkpoints.topic", "heartbeats.topic")
        }
        return {
            "connector.class": f"{PACKAGE}Mirror{kind}Connector",
            "source.cluster.alias": "eu",
            "target.cluster.alias": "us",
            "source.cluster.bootstrap.servers": self.source.bootstrap_servers,
            "target.cluster.bootstrap.servers": self.target.bootstrap_servers,
            "replication.factor": "1",
            "tasks.max": "2",
            "consumer.poll.timeout.ms": "100",
            "sync.group.offsets.enabled": "true",
            "source.admin.metadata.max.age.ms": "1000",
            **{f"{part}.converter": BYTES for part in ("key", "value", "header")},
            **short,
            **factors,
            **more,
        }


BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with Broker(topics={"orders": 3}) as source, Broker() as target:
        yield Pair(tmp_path, source, target)


def retention(broker: Broker, topic: str) -> str | None:
    resource = Resource(ResourceType.TOPIC, topic)
    with connected(broker) as cluster:
        found = describe_configs(cluster, [resource], names=["retention.ms"])[resource]
    assert isinstance(found, list)
    return found[0].value


def set_retention(broker: Broker, topic: str, value: str) -> None:
    with connected(broker) as cluster:
        changes = {Resource(ResourceType.TOPIC, topic): [Change("retention.ms", value)]}
        assert not any(alter_configs(cluster, changes).values())


def is_copied(pair: Pair, topic: str, partitions: int) -> bool:
    """Return whether the copies are the records of the source, in the same partitions."""
    if counts(pair.target).get(f"eu.{topic}") != partitions:
        return False
    return all(
        records_of(pair.source, topic, each) == records_of(pair.target, f"eu.{topic}", each)
        for each in range(partitions)
    )


@pytest.mark.slow(
    "a flow between two brokers: refreshes take place every second, and the worker restarts"
)
def test_a_flow(pair: Pair) -> None:
    source, target = pair.source, pair.target
    set_retention(source, "orders", "86400001")
    produce(source, "orders", 0, 300, 3)
    commit(source, "billing", {place("orders"): 40})
    with pair.lab() as lab:
        for kind in ("Source", "Checkpoint", "Heartbeat"):
            assert lab.create(kind, pair.config(kind)).status == 201
        until(lambda: is_copied(pair, "orders", 3), "the records are copied")
        assert retention(target, "eu.orders") == "86400001"
        ends = {place("orders", each): 100 for each in range(3)}
        commit(source, "billing", ends)
        wanted = {place("eu.orders", each): 100 for each in range(3)}
        until(lambda: committed(target, "billing") == wanted, "the group can go on at the target")
        set_retention(source, "orders", "86400002")
        with Admin(bootstrap_servers=source.bootstrap_servers) as admin:
            admin.create_topic("late", partitions=2)
            admin.create_partitions({"orders": 4})
        produce(source, "late", 0, 50, 2)
        until(lambda: is_copied(pair, "late", 2), "a new topic is copied")
        until(lambda: counts(target)["eu.orders"] == 4, "the copy gets a partition, too")
        until(lambda: retention(target, "eu.orders") == "86400002", "its settings follow")
        until(lambda: len(records_of(target, "heartbeats")) > 1, "there are heartbeats")
        for each in ("Source", "Checkpoint", "Heartbeat"):
            assert lab.states(each)[0] == "RUNNING"
    check_internal_topics(pair)
    produce(source, "orders", 300, 40, 4)
    with pair.lab() as lab:
        assert lab.create("Source", pair.config("Source")).status == 201
        until(
            lambda: is_copied(pair, "orders", 4), "it goes on where it stopped, and repeats nothing"
        )


def check_internal_topics(pair: Pair) -> None:
    syncs = [
        OffsetSync.read(*each[:2])
        for each in records_of(pair.source, "mm2-offset-syncs.us.internal")
    ]
    assert {each.partition.topic for each in syncs} == {"orders", "late"}
    assert all(each.upstream == each.downstream for each in syncs)
    checkpoints = [
        Checkpoint.read(*each[:2]) for each in records_of(pair.target, "eu.checkpoints.internal")
    ]
    assert {each.group for each in checkpoints} == {"billing"}
    assert {each.partition.topic for each in checkpoints} == {"eu.orders"}
    assert all(each.downstream <= each.upstream for each in checkpoints)
    beats = [Heartbeat.read(*each[:2]) for each in records_of(pair.target, "heartbeats")]
    assert {each[:2] for each in beats} == {("eu", "us")}
    stored = java_map.load((pair.folder / "offsets").read_bytes())
    assert stored[b'["Source",{"cluster":"eu","partition":0,"topic":"orders"}]'] == b'{"offset":99}'
    assert b'["Heartbeat",{"sourceClusterAlias":"eu","targetClusterAlias":"us"}]' in stored
    assert b'["Checkpoint",{"partition":0,"topic":"eu.orders","group":"billing"}]' in stored


def test_a_group_with_members_at_the_target_keeps_its_offsets(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    produce(pair.source, "orders", 0, 30, 3)
    commit(pair.source, "billing", {place("orders"): 10})
    pair.target.create_topics({"busy": 1})
    given = {"bootstrap.servers": pair.target.bootstrap_servers, "group.id": "billing"}
    with Consumer(given) as member, pair.lab() as lab:
        member.subscribe(["busy"])
        member.poll(1.0)
        for kind in ("Source", "Checkpoint"):
            assert lab.create(kind, pair.config(kind)).status == 201
        until(lambda: "eu.checkpoints.internal" in counts(pair.target))
        until(lambda: len(records_of(pair.target, "eu.checkpoints.internal")) > 0)
        until(lambda: "billing has members" in caplog.text, "the offsets are refused")
        assert place("eu.orders") not in committed(pair.target, "billing")


def dedicated(pair: Pair) -> dict[str, str]:
    return settings(pair.source.bootstrap_servers, pair.target.bootstrap_servers)


@pytest.mark.slow("two workers that start, and start again")
def test_the_dedicated_mode_keeps_its_state_in_topics(pair: Pair) -> None:
    produce(pair.source, "orders", 0, 60, 3)
    commit(pair.source, "billing", {place("orders", each): 20 for each in range(3)})
    with running(dedicated(pair)) as mirror:
        assert [str(each) for each in mirror.flows] == ["eu->us", "us->eu"]
        until(lambda: is_copied(pair, "orders", 3), "the records are copied")
        wanted = {place("eu.orders", each): 20 for each in range(3)}
        until(lambda: committed(pair.target, "billing") == wanted, "offsets are translated")
        until(lambda: records_of(pair.source, "heartbeats"), "the other direction has heartbeats")
        until(
            lambda: "eu.heartbeats" in counts(pair.target), "they are copied, whatever topics says"
        )
    keys = {each[0] for each in records_of(pair.target, "mm2-configs.eu.internal")}
    names = [f"Mirror{each}Connector" for each in ("Source", "Checkpoint", "Heartbeat")]
    assert {f"connector-{each}".encode() for each in names} <= keys
    offsets = dict(each[:2] for each in records_of(pair.target, "mm2-offsets.eu.internal"))
    key = b'["MirrorSourceConnector",{"cluster":"eu","partition":0,"topic":"orders"}]'
    assert offsets[key] == b'{"offset":19}'
    produce(pair.source, "orders", 60, 30, 3)
    with running(dedicated(pair)):
        until(lambda: is_copied(pair, "orders", 3), "another process goes on, and repeats nothing")


@contextmanager
def running(given: dict[str, str]) -> Iterator[MirrorMaker]:
    found = MirrorMaker(given, installed_plugins(*OWN))
    found.start()
    try:
        yield found
        assert found.failure is None
    finally:
        found.stop()


def test_a_file_without_flows_is_refused() -> None:
    with pytest.raises(ConnectError, match="Missing required configuration"):
        Flows({})
    with pytest.raises(ConnectError, match="No source->target replication flows"):
        Flows({"clusters": "a"}).pairs()
    with pytest.raises(ConnectError, match="No source->target replication flows"):
        Flows({"clusters": "a,b"}).pairs(["c"])


class LastWords(SourceTask):
    calls: ClassVar[list[object]] = []

    def poll(self) -> list[SourceRecord] | None:
        time.sleep(0.05)
        if "polled" in self.calls:
            return None
        self.calls.append("polled")
        return [SourceRecord(topic="words", value="a", source_partition={}, source_offset={"n": 1})]

    def commit_record(self, record: SourceRecord, offset: int | None) -> None:
        self.calls.append(offset)

    def commit(self) -> None:
        if self.calls[-1] != "committed":
            self.calls.append("committed")

    def stop(self) -> None:
        self.calls.append("stopped")


class LastWordsConnector(SourceConnector):
    task_class = LastWords

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]


def test_a_task_hears_of_its_last_records_before_it_stops(tmp_path: Path) -> None:
    LastWords.calls.clear()
    with Broker() as broker:
        lab = Lab(
            broker.bootstrap_servers,
            tmp_path,
            LastWordsConnector,
            offset_flush_interval_ms="600000",
        )
        with lab:
            name = f"{__name__}.LastWordsConnector"
            assert lab.create("words", {"connector.class": name}).status == 201
            until(lambda: "polled" in LastWords.calls, "the task has polled")
        assert [each for each in LastWords.calls if each != "committed"] == ["polled", 0, "stopped"]
        assert LastWords.calls[-2:] == ["committed", "stopped"]


def flow(policy: type[ReplicationPolicy] = ReplicationPolicy, **config: str) -> Flow:
    given = {"source.cluster.alias": "eu", **config}
    return Flow("eu", "us", policy(given), TopicFilter(given), copies_heartbeats=True)


def test_the_target_gets_what_it_lacks() -> None:
    found = flow().plan({"a": 3, "b": 2, "c": 1}, {"eu.a": 2, "eu.b": 4, "x": 1})
    assert found == ({"eu.c": ("c", 1)}, {"eu.a": 3})
    same = {"a": 1}
    assert not flow().has_changed(same, same, {"eu.a": 1})
    assert flow().has_changed(same, {"a": 2}, {"eu.a": 2}), "the source has changed"
    assert flow().has_changed(same, same, {}), "the copy is gone"
    kept = flow(IdentityReplicationPolicy)
    assert kept.plan({"a": 1}, {}).new == {"a": ("a", 1)}
    assert kept.remote("heartbeats") == "eu.heartbeats"


def test_tasks_share_the_partitions_and_the_groups() -> None:
    partitions = partitions_of({"b": 2, "a": 3})
    assert [str(each) for each in partitions] == ["a-0", "a-1", "a-2", "b-0", "b-1"]
    assert [[str(e) for e in each] for each in shares(partitions, 2)] == [
        ["a-0", "a-2", "b-1"],
        ["a-1", "b-0"],
    ]
    assert shares([], 3) == []
    assert chunks(["a", "b", "c", "d", "e"], 3) == [["a", "b"], ["c", "d"], ["e"]]
    assert chunks([], 3) == []


def entry(name: str, value: str | None, source: Source, **more: bool) -> ConfigEntry:
    flags = {"read_only": False, "sensitive": False, **more}
    return ConfigEntry(name, value, source, flags["read_only"], flags["sensitive"], "", (), None)


def test_settings_that_were_set_are_copied() -> None:
    entries = [
        entry("retention.ms", "5", Source.TOPIC),
        entry("cleanup.policy", "delete", Source.DEFAULT),
        entry("min.insync.replicas", "2", Source.TOPIC),
        entry("segment.bytes", "1", Source.STATIC_BROKER),
        entry("secret", None, Source.TOPIC, sensitive=True),
    ]
    wanted = PropertyFilter({})
    assert settings_of_new(entries, wanted) == {"retention.ms": "5"}
    assert changes(entries, wanted) == [
        Change("retention.ms", "5"),
        Change("cleanup.policy", None, Operation.DELETE),
    ]
    of_source = PropertyFilter({"use.defaults.from": "source"})
    assert settings_of_new(entries, of_source) == {"retention.ms": "5", "cleanup.policy": "delete"}
    assert Change("cleanup.policy", "delete") in changes(entries, of_source)


def acl(topic: str, operation: AclOperation, **more: Any) -> AccessControlEntry:
    return AccessControlEntry(
        more.get("kind", AclResourceType.TOPIC),
        topic,
        more.get("pattern", PatternType.LITERAL),
        "User:ann",
        "*",
        operation,
        more.get("permission", AclPermissionType.ALLOW),
    )


def test_who_may_write_at_the_source_may_only_read_the_copy() -> None:
    deny = AclPermissionType.DENY
    found = flow(topics="orders").acls(
        [
            acl("orders", AclOperation.ALL),
            acl("orders", AclOperation.WRITE),
            acl("orders", AclOperation.WRITE, permission=deny),
            acl("orders", AclOperation.DESCRIBE),
            acl("others", AclOperation.READ),
            acl("orders", AclOperation.READ, pattern=PatternType.PREFIXED),
            acl("orders", AclOperation.READ, kind=AclResourceType.GROUP),
        ]
    )
    assert found == [
        acl("eu.orders", AclOperation.READ),
        acl("eu.orders", AclOperation.WRITE, permission=deny),
        acl("eu.orders", AclOperation.DESCRIBE),
    ]


def test_checkpoints_do_not_go_back() -> None:
    made = Checkpoints("eu", "us", ReplicationPolicy({}), TopicFilter({"topics": "orders,us.back"}))
    store = SyncStore(keeps_earlier=True)
    orders, copy = place("orders"), place("eu.orders")
    store.add(OffsetSync(orders, 0, 0))
    assert made.make("g", {orders: CommittedOffset(5)}, store) == [], "not all syncs are read"
    store.completed()

    def points(offset: int, metadata: str = "") -> list[tuple[int, int]]:
        found = made.make("g", {orders: CommittedOffset(offset, 7, metadata)}, store)
        assert all(each.partition == copy for each in found)
        return [(each.upstream, each.downstream) for each in found]

    assert points(5) == [(5, 1)]
    assert points(6) == [], "the translated offset is the same"
    store.add(OffsetSync(orders, 100, 90))
    assert points(100, "m") == [(100, 90)]
    assert made.to_commit({"g": {}}) == {"g": {copy: CommittedOffset(90, -1, "m")}}
    assert made.to_commit({}) == {}, "the group has members, or could not be read"
    assert made.to_commit({"g": {copy: CommittedOffset(90)}}) == {}, "the group is there already"
    assert made.to_commit({"g": {copy: CommittedOffset(89)}}) != {}
    assert points(50) == [(50, 1)], "the group has gone back"
    assert made.make("g", {place("others"): CommittedOffset(1)}, store) == []
    back = place("us.back")
    store.add(OffsetSync(back, 0, 0))
    (found,) = made.make("g", {back: CommittedOffset(0)}, store)
    assert found.partition == place("back"), "a topic of the target has its own name there"


class Read:
    """A batch as a consumer returns it. With `is_damaged` its last record cannot be decoded."""

    topic, partition = "orders", 0

    def __init__(self, *offsets: int, is_damaged: bool = False) -> None:
        self._offsets = offsets
        self._is_damaged = is_damaged

    def __iter__(self) -> Iterator[Any]:
        for each in self._offsets:
            yield SimpleNamespace(offset=each, key=None, value=b"", timestamp=0, headers=())
        if self._is_damaged:
            raise ClientError("the last record cannot be decoded")


def test_an_error_of_the_source_does_not_lose_records_that_were_read_before() -> None:
    task = MirrorSourceTask()
    task.start(
        {
            "source.cluster.alias": "eu",
            "source.cluster.bootstrap.servers": "127.0.0.1:9",
            "emit.offset-syncs.enabled": "false",
        }
    )
    steps = [Read(0, 1), ClientError("another topic is gone"), Read(2, 3), Read(4, is_damaged=True)]
    consumer = mock.Mock()
    consumer.poll.side_effect = [*steps, Read(4, 5), None]

    def offsets() -> list[int]:
        return [dict(each.source_offset or {})["offset"] for each in task._read(consumer)]

    assert [offsets(), offsets(), offsets()] == [[0, 1], [2, 3], [4, 5]]
    task.stop()
