"""MirrorMaker's records, names, filters and translation of offsets are those of Java's classes."""

from __future__ import annotations

import json
import random

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import mirror
from tests.support.run_seed import seeds

from odradek.connectors.mirror import (
    MirrorCheckpointConnector,
    MirrorHeartbeatConnector,
    MirrorSourceConnector,
)
from odradek.connectors.mirror import config as definitions
from odradek.connectors.mirror.filters import GroupFilter, PropertyFilter, TopicFilter
from odradek.connectors.mirror.flows import Flows
from odradek.connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync, source_partition
from odradek.connectors.mirror.offset_syncs import SyncQueue, SyncStore
from odradek.connectors.mirror.policies import IdentityReplicationPolicy, ReplicationPolicy
from odradek.connectors.mirror.topics import Flow
from odradek.core.connect.config_def import REQUIRED, text_of
from odradek.core.connect.errors import ConfigError
from odradek.core.connect.java_text import json_text
from odradek.model.topic_partition import TopicPartition

pytestmark = [pytest.mark.cluster, pytest.mark.java]

TEXTS = ["", "t", "a.b", "ä€𝄞", "x" * 300, "a|b"]
NUMBERS = [0, 1, -1, 2**31 - 1, 2**63 - 1, -(2**63)]
TOPICS = [
    *(
        "orders",
        "eu.orders",
        "us.orders",
        "us.eu.orders",
        "eu.us.orders",
        "a.b.c",
        ".x",
        "x.",
        "..",
    ),
    *("__consumer_offsets", "heartbeats", "eu.heartbeats", "us.heartbeats", "a.us.heartbeats"),
    *("mm2-offset-syncs.us.internal", "mm2.x.internal", "my.internal", "x-internal", "x.replica"),
    *(
        "eu.checkpoints.internal",
        "eu_checkpoints_internal",
        "eu_orders",
        "us__orders",
        "mm2_internal",
    ),
    *("connect-configs", "console-consumer-12", "min.insync.replicas", "cleanup.policy", "order"),
]
POLICIES = {"default": ReplicationPolicy, "identity": IdentityReplicationPolicy}
CONNECTORS = (MirrorSourceConnector, MirrorCheckpointConnector, MirrorHeartbeatConnector)


def java(lines: list[tuple[str, ...]]) -> list[str]:
    try:
        found = mirror(lines)
    except Missing as missing:
        pytest.skip(str(missing))
    assert len(found) == len(lines)
    return found


def small(r: random.Random) -> int:
    return r.choice([each for each in NUMBERS if abs(each) < 2**31])


def random_record(r: random.Random) -> tuple[tuple[str, ...], str]:
    text = lambda: r.choice(TEXTS)  # noqa: E731
    number = lambda: r.choice(NUMBERS)  # noqa: E731
    kind = r.choice(["sync", "checkpoint", "heartbeat"])
    words: tuple[object, ...]
    if kind == "sync":
        place = TopicPartition(text(), small(r))
        sync = OffsetSync(place, number(), number())
        assert OffsetSync.read(sync.key(), sync.value()) == sync
        words = (*place, sync.upstream, sync.downstream)
        key, value, partition = sync.key(), sync.value(), source_partition("alias", *place)
    elif kind == "checkpoint":
        point = Checkpoint(text(), TopicPartition(text(), small(r)), number(), number(), text())
        assert Checkpoint.read(point.key(), point.value()) == point
        words = (point.group, *point.partition, point.upstream, point.downstream, point.metadata)
        key, value, partition = point.key(), point.value(), point.source_partition()
    else:
        beat = Heartbeat(text(), text(), number())
        assert Heartbeat.read(beat.key(), beat.value()) == beat
        words = beat
        key, value, partition = beat.key(), beat.value(), beat.source_partition()
    line = ("record", kind, *map(str, words))
    return line, f"{key.hex()} {value.hex()} {json_text(partition)}"


def random_policy(r: random.Random) -> tuple[str, dict[str, str]]:
    config = {"source.cluster.alias": "eu"} if r.random() < 0.7 else {}
    if r.random() < 0.5:
        config["replication.policy.separator"] = r.choice(["_", "__", ".", "-", ""])
    if r.random() < 0.3:
        config["replication.policy.internal.topic.separator.enabled"] = r.choice(["true", "false"])
    return r.choice(list(POLICIES)), config


def shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def names_case(r: random.Random) -> tuple[tuple[str, ...], str]:
    kind, config = random_policy(r)
    topic = r.choice(TOPICS)
    policy = POLICIES[kind](config)
    ours = (
        policy.remote_topic("eu", topic),
        policy.topic_source(topic),
        policy.upstream_topic(topic),
        policy.original_topic(topic),
        policy.offset_syncs_topic("eu"),
        policy.checkpoints_topic("eu"),
        policy.is_heartbeats_topic(topic),
        policy.is_checkpoints_topic(topic),
        policy.is_internal_topic(topic),
    )
    return ("names", kind, json.dumps(config), topic), "|".join(map(shown, ours))


def flow_case(r: random.Random) -> tuple[tuple[str, ...], str]:
    kind, config = random_policy(r)
    lists = ["", ".*", "orders, a.*", "us.*,heart.*", "order", "[a-m].*|x", "connect-.*"]
    for name in (
        "topics",
        "topics.exclude",
        "groups",
        "groups.exclude",
        "config.properties.exclude",
    ):
        if r.random() < 0.4:
            config[name] = r.choice(lists)
    if r.random() < 0.3:
        config["heartbeats.replication.enabled"] = "false"
    topic = r.choice(TOPICS)
    flow = Flow(
        "eu",
        "us",
        POLICIES[kind](config),
        TopicFilter(config),
        copies_heartbeats="heartbeats.replication.enabled" not in config,
    )
    ours = (
        flow.accepts(topic),
        GroupFilter(config).accepts(topic),
        PropertyFilter(config).accepts(topic),
    )
    return ("flow", kind, json.dumps(config), topic), "|".join(map(shown, ours))


def steps(r: random.Random) -> list[int]:
    return r.choice([[1], [1, 1, 1, 2, 5], [100], [1, 100, 1_000], [1 << i for i in range(40)]])


def store_case(r: random.Random) -> tuple[tuple[str, ...], str]:
    """A history of offset syncs, which grow and sometimes go back, and of translations."""
    keeps_earlier = r.random() < 0.5
    store = SyncStore(keeps_earlier=keeps_earlier)
    place = TopicPartition("t", 0)
    upstream = downstream = r.choice([0, 0, 5, 2**40, 2**62])
    sizes = steps(r)
    events: list[str] = []
    answers = ""
    count = r.randrange(1, 120)
    end = r.randrange(count)
    for number in range(count):
        if number == end:
            events.append("end")
            store.completed()
        if number == 0 or r.random() < 0.8:
            step = r.choice(sizes)
            upstream = upstream + step if r.random() < 0.97 else max(0, upstream - step * 3)
            upstream = min(upstream, 2**63 - 1)
            downstream += r.randrange(step % 1_000 + 1)
            events.append(f"sync:{upstream}:{downstream}")
            store.add(OffsetSync(place, upstream, downstream))
        else:
            at = max(0, upstream - r.choice([0, 0, 1, 7, 100, 10_000, 2**33]) + r.choice([0, 0, 3]))
            events.append(f"translate:{at}")
            found = store.translate(place, at)
            answers += "- " if found is None else f"{found} "
    ours = answers + ",".join(str(each.upstream) for each in store.syncs(place))
    line = ("store", "false" if keeps_earlier else "true", " ".join(events))
    return line, ours


def queue_case(r: random.Random) -> tuple[tuple[str, ...], str]:
    """A history of copied records of a few partitions, and of commits."""
    lag = r.choice([0, 1, 3, 10, 100])
    queue = SyncQueue(lag)
    places = [[0, 0] for _ in range(r.randrange(1, 5))]
    events: list[str] = []
    parts: list[str] = []
    for _ in range(r.randrange(1, 200)):
        action = r.random()
        if action < 0.85:
            index = r.randrange(len(places))
            place = places[index]
            place[0] += 1 if r.random() < 0.9 else 3
            place[1] = place[1] + 1 if r.random() < 0.97 else 0
            events.append(f"copied:{index}:{place[0]}:{place[1]}")
            queue.copied(TopicPartition("t", index), *place)
        elif action < 0.9:
            events.append("commit")
            queue.commit()
        else:
            events.append("take")
            due = queue.take()
            queue.done(len(due))
            parts.append(
                "".join(f"{e.partition.partition}:{e.upstream}:{e.downstream} " for e in due) + "; "
            )
    return ("queue", str(lag), " ".join(events)), "".join(parts).strip()


def dedicated_case(r: random.Random) -> tuple[tuple[str, ...], str]:
    """A file of the dedicated mode, and the settings of its workers and connectors."""
    given = {"clusters": r.choice(["a", "a, b", "a,b,c"])}
    names = [
        *("bootstrap.servers", "security.protocol", "ssl.truststore.location", "sasl.jaas.config"),
        *("producer.linger.ms", "consumer.bootstrap.servers", "admin.client.id", "group.id"),
        *("topics", "tasks.max", "emit.heartbeats.enabled", "replication.factor", "enabled"),
        *("offset.storage.topic", "key.converter", "replication.policy.separator", "client.id"),
        *("config.storage.replication.factor", "worker.x", "task.shutdown.y", "unknown", "name"),
        *("offset-syncs.topic.location", "transforms", "administrator", "offset.flush.interval.ms"),
    ]
    for prefix in ("", "a.", "b.", "a->b.", "b->a.", "c->a.", "source.", "target.consumer."):
        for _ in range(r.randrange(9)):
            name = r.choice(names)
            values = ["SSL"] if name == "security.protocol" else ["true", "FALSE", "1", "x y"]
            given[prefix + name] = r.choice(values)
        if "->" in prefix and r.random() < 0.6:
            given[prefix + "enabled"] = r.choice(["true", "false", "True", " true"])
    ours: dict[str, dict[str, str]] = {}
    try:
        flows = Flows(given)
        for pair in flows.pairs():
            ours[f"{pair} worker"] = flows.worker(pair)
            ours |= {f"{pair} {m.__name__}": flows.connector(pair, m) for m in CONNECTORS}
    except ConfigError:
        pass  # there are no flows: Java finds out later
    return ("dedicated", json.dumps(given)), json.dumps(ours, sort_keys=True)


def test_records_names_histories_and_validation() -> None:
    """All in one, because a JVM takes seconds to start."""
    r = random.Random(seeds(1)[0])
    cases = [random_record(r) for _ in range(100)]
    cases += [names_case(r) for _ in range(300)]
    cases += [flow_case(r) for _ in range(200)]
    cases += [store_case(r) for _ in range(400)]
    cases += [queue_case(r) for _ in range(100)]
    dedicated = [dedicated_case(r) for _ in range(5)]
    configs: list[tuple[str, dict[str, str]]] = [
        (made.__name__, {"name": "x", "connector.class": made.java_name, **config})
        for made in CONNECTORS
        for config in BAD
    ]
    lines = [line for line, _ in (*cases, *dedicated)]
    lines += [("definitions",), *(("validate", name, json.dumps(each)) for name, each in configs)]
    found = java(lines)
    different = [
        f"{line}\n  java {theirs}\n  ours {ours}"
        for (line, ours), theirs in zip(cases, found, strict=False)
        if theirs != ours
    ]
    assert not different, f"{len(different)} differ:\n" + "\n".join(different[:5])
    after = len(cases) + len(dedicated)
    for (line, ours), theirs in zip(dedicated, found[len(cases) : after], strict=True):
        assert json.loads(ours) == json.loads(theirs), line
    check_definitions(found[after])
    check_validation(configs, found[after + 1 :])


def check_definitions(defined: str) -> None:
    ours = [
        [
            made.__name__,
            key.name,
            key.type.value,
            key.importance.value,
            "<required>" if key.default is REQUIRED else text_of(key.default, key.type),
        ]
        for made in CONNECTORS
        for key in made.config().keys.values()
        if key.name not in definitions._OF_ALL_CONNECTORS
    ]
    assert ours == json.loads(defined)


def check_validation(configs: list[tuple[str, dict[str, str]]], validated: list[str]) -> None:
    by_name = {made.__name__: made for made in CONNECTORS}
    different = []
    for (name, config), theirs in zip(configs, validated, strict=True):
        values = by_name[name]().validate(config)
        own = {
            each.name: each.errors
            for each in sorted(values.values(), key=lambda value: value.name)
            if each.errors and each.name not in definitions._OF_ALL_CONNECTORS
        }
        if own != json.loads(theirs):
            different.append(f"{name} {config}\n  java {theirs}\n  ours {json.dumps(own)}")
    assert not different, "\n".join(different)


BAD: list[dict[str, str]] = [
    {},
    {"source.cluster.alias": "a"},
    {"source.cluster.alias": "a", "enabled": "maybe"},
    {"source.cluster.alias": "a", "offset-syncs.topic.location": "here"},
    {"source.cluster.alias": "a", "emit.offset-syncs.enabled": "false"},
    {"source.cluster.alias": "a", "emit.offset-syncs.enabled": "false", "offset-syncs-x": "1"},
    {"source.cluster.alias": "a", "emit.checkpoints.enabled": "false"},
    {"source.cluster.alias": "a", "emit.checkpoints.enabled": "false", "enabled": "false"},
    {"source.cluster.alias": "a", "exactly.once.support": "required"},
    {
        "source.cluster.alias": "a",
        "exactly.once.support": "required",
        "source.consumer.isolation.level": "read_committed",
    },
    {"source.cluster.alias": "a", "topics": "a,a", "groups": "a,,b", "metric.names.formats": ""},
    {"source.cluster.alias": "a", "metric.names.formats": "old", "offset.lag.max": "x"},
    {"source.cluster.alias": "a", "replication.policy.class": "Nope"},
    {"source.cluster.alias": "a", "security.protocol": "x", "replication.factor": "99999999999"},
    {
        "source.cluster.alias": "a",
        "sasl.login.refresh.window.factor": "2",
        "ssl.cipher.suites": ",",
    },
]
