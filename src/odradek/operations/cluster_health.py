"""Finds what is wrong with a cluster, why, and what to do.

`gather` asks the cluster for the facts. `diagnose` decides, without IO.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.client.admin.cluster import (
    ClusterInfo,
    LogDir,
    Quorum,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
)
from odradek.client.admin.configs import Resource, describe_configs
from odradek.client.admin.reassignments import Reassignment, list_reassignments
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError
from odradek.client.metadata import Node, Partition, Topic
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.operations.problems import Problem, Severity
from odradek.operations.texts import duration_text, plural, size_text

MIN_IN_SYNC = "min.insync.replicas"
LAG_MS_MAX = 10_000
"""A controller that has lagged for longer is a problem. Followers fetch twice a second."""
FREE_SHARE_NOTED = 0.1
"""A log directory with less free space is worth a note."""
FREE_SHARE_MIN = 0.05
"""A log directory with less free space is a problem."""
IMBALANCE_MIN = 1.2
"""A broker with more than this multiple of the average is worth a note."""


class BrokerLoad(NamedTuple):
    """How many partitions a broker leads and has, and how many of those are not in sync."""

    leaders: int
    replicas: int
    missing: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What the cluster has reported about itself."""

    info: ClusterInfo
    quorum: Quorum | ClientError
    topics: Mapping[str, Topic]
    min_in_sync: Mapping[str, int] = field(default_factory=dict)
    """`min.insync.replicas` by topic."""
    moving: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    log_dirs: Mapping[int, Sequence[LogDir] | ClientError] = field(default_factory=dict)
    now_ms: int = 0

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """Yield all partitions."""
        for name, topic in self.topics.items():
            for index, partition in topic.partitions.items():
                yield TopicPartition(name, index), partition

    def offline(self) -> list[TopicPartition]:
        """Return the partitions without a leader."""
        return [key for key, each in self.partitions() if each.leader < 0]

    def below_minimum(self) -> list[TopicPartition]:
        """Return the partitions with a leader, but fewer in-sync replicas than acks=all needs."""
        return [
            key
            for key, each in self.partitions()
            if each.leader >= 0
            and len(each.in_sync) < min(len(each.replicas), self.min_in_sync.get(key.topic, 1))
        ]

    def with_few_replicas(self) -> list[TopicPartition]:
        """Return the partitions with fewer replicas than `min.insync.replicas`."""
        return [
            key
            for key, each in self.partitions()
            if len(each.replicas) < self.min_in_sync.get(key.topic, 1)
        ]

    def under_replicated(self) -> list[TopicPartition]:
        """Return the partitions that miss an in-sync replica, apart from those that are added."""
        return [key for key, each in self.partitions() if self.missing(key, each)]

    def missing(self, key: TopicPartition, partition: Partition) -> set[int]:
        """Return the brokers whose replica should be in sync and is not."""
        adding = self.moving[key].adding if key in self.moving else ()
        return set(partition.replicas).difference(partition.in_sync, adding)

    def loads(self) -> dict[int, BrokerLoad]:
        """Return the numbers of replicas of each registered broker."""
        leaders: Counter[int] = Counter()
        replicas: Counter[int] = Counter()
        missing: Counter[int] = Counter()
        for key, partition in self.partitions():
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
            missing.update(self.missing(key, partition))
        return {
            each.id: BrokerLoad(leaders[each.id], replicas[each.id], missing[each.id])
            for each in self.info.brokers
        }

    def running(self) -> list[int]:
        """Return the ids of the brokers that serve clients."""
        return [each.id for each in self.info.unfenced]


def gather(cluster: Cluster, now_ms: int) -> Facts:
    """Ask a cluster for the facts. What does not respond is an error among the facts.

    Raises:
        ClientError: no broker responds.
    """
    info = describe_cluster(cluster)
    quorum: Quorum | ClientError
    try:
        quorum = describe_quorum(cluster)
        moving = list_reassignments(cluster)
    except ClientError as error:  # the brokers still know the topics
        quorum, moving = error, {}
    topics = dict(cluster.refresh().topics)
    log_dirs = read_log_dirs(cluster, info)
    return Facts(
        info, quorum, topics, _min_in_sync(cluster, list(topics)), moving, log_dirs, now_ms
    )


def read_log_dirs(cluster: Cluster, info: ClusterInfo) -> dict[int, list[LogDir] | ClientError]:
    """Return the log directories of each broker that is not fenced, or why it did not name them."""
    found: dict[int, list[LogDir] | ClientError] = {}
    for broker in info.unfenced:
        try:
            found[broker.id] = describe_log_dirs(cluster, broker.id)
        except ClientError as error:
            found[broker.id] = error
    return found


def _min_in_sync(cluster: Cluster, topics: Sequence[str]) -> dict[str, int]:
    resources = [Resource(ResourceType.TOPIC, name) for name in topics]
    found = {}
    for resource, entries in describe_configs(cluster, resources, names=[MIN_IN_SYNC]).items():
        if not isinstance(entries, ClientError):  # else the topic has just been deleted
            found[resource.name] = next(
                (int(each.value) for each in entries if each.name == MIN_IN_SYNC and each.value), 1
            )
    return found


def reach(cluster: Cluster) -> dict[Node, ClientError | None]:
    """Connect to each broker at the address that the cluster advertises; return why it failed.

    Raises:
        ClientError: no broker responds.
    """
    found: dict[Node, ClientError | None] = {}
    for _, node in sorted(cluster.refresh([]).nodes.items()):
        try:
            cluster.node(node.id)
        except ClientError as error:
            found[node] = error
        else:
            found[node] = None
    return found


def diagnose(facts: Facts) -> list[Problem]:
    """Return the problems, the worst first."""
    found = [
        *_offline(facts),
        *_below_minimum(facts),
        *_brokers(facts),
        *_under_replicated(facts),
        *_unknown_brokers(facts),
        *_quorum(facts),
        *_log_dirs(facts),
        *_moving(facts),
        *_imbalance(facts),
    ]
    return sorted(found, key=lambda each: -each.severity)


def _texts(keys: Iterable[object]) -> list[str]:
    return [str(each) for each in keys]


def _ids(ids: Iterable[int]) -> str:
    found = sorted(ids)
    return f"broker {found[0]}" if len(found) == 1 else f"brokers {', '.join(map(str, found))}"


def _offline(facts: Facts) -> Iterator[Problem]:
    offline = facts.offline()
    if not offline:
        return
    running = set(facts.running())
    holders = {
        each
        for key in offline
        for each in facts.topics[key.topic].partitions[key.partition].in_sync
        if each not in running
    }
    advice = "Look at the logs of the brokers that have the replicas."
    if holders:
        advice = (
            f"Start {_ids(holders)}, where the newest replicas are. Only if they are lost: "
            "kafka-leader-election.sh --election-type unclean, which may lose records"
        )
    what = f"{plural(len(offline), 'partition')} without a leader, neither read nor written"
    yield Problem(Severity.BROKEN, what, advice, _texts(offline))


def _below_minimum(facts: Facts) -> Iterator[Problem]:
    below = facts.below_minimum()
    if below:
        yield Problem(
            Severity.BROKEN,
            f"{plural(len(below), 'partition')} with fewer in-sync replicas than "
            "min.insync.replicas: producers with acks=all get NOT_ENOUGH_REPLICAS",
            "Start the brokers that are missing.",
            _texts(below),
        )
    few = facts.with_few_replicas()
    if few:
        topic = few[0].topic
        most = len(facts.topics[topic].partitions[few[0].partition].replicas)
        yield Problem(
            Severity.NOTE,
            f"{plural(len(few), 'partition')} with fewer replicas than min.insync.replicas: "
            "before Apache Kafka 3.7, producers with acks=all get NOT_ENOUGH_REPLICAS",
            f"odradek config set topic {topic} min.insync.replicas={most}",
            _texts(few),
        )


def _brokers(facts: Facts) -> Iterator[Problem]:
    for each in facts.info.brokers:
        if each.fenced:
            yield Problem(
                Severity.DEGRADED,
                f"broker {each.id} ({each.address}) is fenced: it does not run, or its heartbeats do "
                "not reach the controller",
                f"Start it, or read its log. If it never returns: odradek cluster drain {each.id}, "
                f"then odradek cluster remove {each.id}",
            )


def _under_replicated(facts: Facts) -> Iterator[Problem]:
    """Yield one problem for each group of brokers that is missing."""
    by_missing: dict[frozenset[int], list[TopicPartition]] = {}
    for key, partition in facts.partitions():
        missing = facts.missing(key, partition)
        if missing:
            by_missing.setdefault(frozenset(missing), []).append(key)
    running = set(facts.running())
    for brokers, keys in by_missing.items():
        down = brokers - running
        if down:
            advice = f"Start {_ids(down)}."
        else:
            advice = "They catch up by themselves. If they do not: read the logs of the brokers."
        what = f"{plural(len(keys), 'partition')} under-replicated: {_ids(brokers)} not in sync"
        yield Problem(Severity.DEGRADED, what, advice, _texts(keys))


def _unknown_brokers(facts: Facts) -> Iterator[Problem]:
    known = {each.id for each in facts.info.brokers}
    held: Counter[int] = Counter()
    for _, partition in facts.partitions():
        held.update(set(partition.replicas) - known)
    for broker_id, count in sorted(held.items()):
        yield Problem(
            Severity.DEGRADED,
            f"{plural(count, 'partition')} assigned to broker {broker_id}, which is not registered",
            f"Start this broker, or move the replicas: odradek cluster drain {broker_id}",
        )


def _quorum(facts: Facts) -> Iterator[Problem]:
    quorum = facts.quorum
    if _is_refusal(quorum):
        yield _hidden("the controllers", quorum)
        return
    if isinstance(quorum, ClientError):
        yield Problem(
            Severity.BROKEN,
            f"no active controller: {quorum}",
            "Start the controllers. A majority of them must run.",
        )
        return
    lagging = []
    for each in quorum.voters:
        if each.id == quorum.leader_id:
            continue
        age_ms = facts.now_ms - each.last_caught_up_ms
        if each.last_caught_up_ms < 0 or age_ms > LAG_MS_MAX:
            ago = "never" if each.last_caught_up_ms < 0 else f"{duration_text(age_ms)} ago"
            behind = max(0, quorum.high_watermark - each.log_end_offset)
            lagging.append(f"controller {each.id}: caught up {ago}, {behind} records behind")
    if lagging:
        spare = (len(quorum.voters) - 1) // 2 - len(lagging)
        more = "One more failure stops the cluster. " if spare <= 0 else ""
        yield Problem(
            Severity.DEGRADED,
            f"{plural(len(lagging), 'controller')} of {len(quorum.voters)} behind or not running",
            f"{more}Start them, or read their logs.",
            lagging,
        )


def is_partly_hidden(facts: Facts) -> bool:
    """Return whether this user may not see everything."""
    return _is_refusal(facts.quorum) or any(map(_is_refusal, facts.log_dirs.values()))


def _is_refusal(found: object) -> bool:
    return isinstance(found, BrokerError) and found.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _hidden(what: str, error: object) -> Problem:
    return Problem(
        Severity.NOTE,
        f"you may not see {what}: {error}",
        "Ask an administrator for the permission to describe the cluster.",
    )


def _log_dirs(facts: Facts) -> Iterator[Problem]:
    for broker_id, directories in facts.log_dirs.items():
        if _is_refusal(directories):
            yield _hidden(f"the log directories of broker {broker_id}", directories)
            continue
        if isinstance(directories, ClientError):
            led = [key for key, each in facts.partitions() if each.leader == broker_id]
            yield Problem(
                Severity.BROKEN if led else Severity.DEGRADED,
                f"broker {broker_id} does not respond, and leads {plural(len(led), 'partition')}: "
                f"{directories}",
                "Read its log. A broker that hangs should be restarted.",
                _texts(led),
            )
            continue
        for each in directories:
            where = f"log directory {each.path} of broker {broker_id}"
            if each.error is not None:
                yield Problem(
                    Severity.DEGRADED,
                    f"{where} has failed",
                    "Replace the disk and restart the broker, or move its replicas away: "
                    f"odradek cluster drain {broker_id}",
                )
            elif 0 <= each.usable_bytes < each.total_bytes * FREE_SHARE_NOTED:
                lacking = each.usable_bytes < each.total_bytes * FREE_SHARE_MIN
                yield Problem(
                    Severity.DEGRADED if lacking else Severity.NOTE,
                    f"{where} is nearly full: {size_text(each.usable_bytes)} of "
                    f"{size_text(each.total_bytes)} free",
                    "Lower retention.ms or retention.bytes of large topics (odradek topic list "
                    "--long), or add a broker.",
                )


def _moving(facts: Facts) -> Iterator[Problem]:
    if facts.moving:
        yield Problem(
            Severity.NOTE,
            f"{plural(len(facts.moving), 'partition')} being moved to other brokers",
            "Nothing: the moves end by themselves.",
            _texts(facts.moving),
        )


def _imbalance(facts: Facts) -> Iterator[Problem]:
    running = facts.running()
    if len(running) < 2:
        return
    loads = facts.loads()
    replicas = Counter({each: loads[each].replicas for each in running})
    leaders = Counter({each: loads[each].leaders for each in running})
    for counts, thing in ((replicas, "replicas"), (leaders, "leaders")):
        average = counts.total() / len(running)
        most, least = max(counts.values()), min(counts.values())
        if most - least > 1 and most > average * IMBALANCE_MIN:
            text = ", ".join(f"{each}: {counts[each]}" for each in sorted(counts))
            yield Problem(
                Severity.NOTE,
                f"brokers have unequal numbers of {thing} ({text})",
                "odradek cluster rebalance",
            )
