"""The metrics of the metadata quorum and of controllers."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.raft.client import RaftClient
from odradek.core.metadata.versions import KRAFT_VERSION, SUPPORTED_FEATURES
from odradek.core.raft.leader import Leader
from odradek.core.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from odradek.core.raft.voters import ReplicaKey
from odradek.node.metrics.sources import ControllerSources, MetadataSources, MetricSources
from odradek.telemetry.histogram import Histogram
from odradek.telemetry.mbeans import (
    Metric,
    attribute,
    gauge,
    histogram,
    meter,
    one,
    own,
    own_count,
    rate,
)

_METADATA_VERSION = "metadata.version"
RAFT = "kafka.server:type=raft-metrics"
_CHANNEL = "kafka.server:type=raft-channel-metrics"
_BROKER_METADATA = "kafka.server:type=broker-metadata-metrics"
_CONTROLLER = "kafka.controller:type=KafkaController,name="
_NO_TIMESTAMP = "in ms since 1970; -1 if only a snapshot was loaded."


def metadata(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of the metadata that this node has applied."""
    parts = node.metadata
    image = parts.cache.image
    for name, text, value in (
        (
            "MetadataLoader,name=CurrentMetadataVersion",
            "Level of the feature metadata.version.",
            image.features.level(_METADATA_VERSION),
        ),
        (
            "MetadataLoader,name=CurrentControllerId",
            "Id of the active controller, or -1.",
            parts.raft.leader.leader_id,
        ),
        (
            "MetadataLoader,name=HandleLoadSnapshotCount",
            "Snapshots of the metadata that were loaded since the start of the node.",
            parts.loader.snapshots_loaded,
        ),
        (
            "SnapshotEmitter,name=LatestSnapshotGeneratedBytes",
            "Bytes of the latest snapshot of the metadata, written or loaded; 0 if there is none.",
            parts.raft.log.snapshot_bytes(),
        ),
        (
            "SnapshotEmitter,name=LatestSnapshotGeneratedAgeMs",
            "Milliseconds since this node has written a snapshot of the metadata, or else since its "
            "start.",
            parts.snapshots.age_ms,
        ),
    ):
        yield gauge(f"kafka.server:type={name}", text, one(value))
    yield from _features(parts)
    for name, text, value in (
        (
            "last-applied-record-offset",
            "Offset of the last metadata record that this node has applied.",
            image.offset,
        ),
        (
            "last-applied-record-timestamp",
            f"When the last metadata record that was applied was appended, {_NO_TIMESTAMP}",
            parts.loader.last_timestamp_ms,
        ),
        (
            "last-applied-record-lag-ms",
            "Milliseconds since the last metadata record that was applied was appended.",
            _lag_ms(parts, node.wall_ms()),
        ),
        (
            "metadata-apply-error-count",
            "How often a part of the node failed to apply a metadata change.",
            parts.publishers.failures,
        ),
        (
            "metadata-load-error-count",
            "Always 0: a node that cannot read the metadata log stops.",
            0,
        ),
    ):
        yield attribute(_BROKER_METADATA, name, text, one(value))


def _features(parts: MetadataSources) -> Iterator[Metric]:
    """Yield the levels of features (KIP-1180)."""
    finalized = {
        **parts.cache.image.features.finalized,
        KRAFT_VERSION: parts.raft.settings.kraft_version,
    }
    yield gauge(
        "kafka.server:type=MetadataLoader,name=FinalizedLevel,featureName=*",
        "The finalized level of a feature.",
        [((_camel_case(name),), level) for name, level in finalized.items()],
    )
    for number, name in enumerate(("minimum", "maximum")):
        yield attribute(
            "kafka.server:type=node-metrics,feature-name=*",
            f"{name}-supported-level",
            f"The {name} level of a feature that this node supports.",
            [
                ((feature.replace(".", "-"),), levels[number])
                for feature, levels in SUPPORTED_FEATURES.items()
            ],
        )


def _camel_case(feature: str) -> str:
    first, *others = feature.split(".")
    return first + "".join(map(str.capitalize, others))


def _lag_ms(parts: MetadataSources, now_ms: int) -> int:
    timestamp_ms = parts.loader.last_timestamp_ms
    return max(0, now_ms - timestamp_ms) if timestamp_ms >= 0 else 0


def quorum(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of this node's part in the metadata quorum (KIP-595)."""
    raft = node.metadata.raft
    machine, log, voters = raft.machine, raft.log, raft.settings.voters
    for name, text, value in (
        ("current-leader", "Id of the quorum's leader, or -1.", machine.leader_id),
        ("current-epoch", "The epoch of the quorum.", machine.epoch),
        (
            "current-vote",
            "Id of the voter that this node has voted for in the epoch, or -1.",
            _vote(raft),
        ),
        (
            "high-watermark",
            "All metadata records below this offset are committed.",
            machine.high_watermark,
        ),
        ("log-end-offset", "End offset of the metadata log.", log.end_offset),
        ("log-end-epoch", "Epoch of the last metadata record.", log.last_epoch),
        ("number-of-voters", "Voters of the quorum.", len(voters)),
        ("number-unknown-voter-connections", "Always 0: the addresses of all voters are known.", 0),
        (
            "append-records-total",
            "Metadata records that this node has appended as leader.",
            log.records_appended,
        ),
        (
            "fetch-records-total",
            "Metadata records that this node has fetched from a leader.",
            log.records_fetched,
        ),
    ):
        yield attribute(RAFT, name, text, one(value))
    yield attribute(
        RAFT, "current-state", "The state of this node in the quorum.", one(_state(raft))
    )
    text = "Metadata records per second that this node has {}, averaged over a minute."
    yield rate(
        RAFT, "append-records-rate", text.format("appended as leader"), one(log.records_appended)
    )
    yield rate(
        RAFT, "fetch-records-rate", text.format("fetched from a leader"), one(log.records_fetched)
    )
    yield from _latencies(raft, node.monotonic_ms())
    yield from _replicas(raft)


def _latencies(raft: RaftClient, now_ms: int) -> Iterator[Metric]:
    for name, text, times in (
        (
            "commit-latency",
            "Milliseconds from an append as leader to its commit, in the last minute.",
            raft.log.times.commits,
        ),
        (
            "election-latency",
            "Milliseconds from the beginning of an election to a known leader, in the last minute.",
            raft.log.times.elections,
        ),
    ):
        mean, largest = times.read(now_ms)
        yield attribute(RAFT, f"{name}-avg", text, one(mean))
        yield attribute(RAFT, f"{name}-max", text, one(largest))


def _replicas(raft: RaftClient) -> Iterator[Metric]:
    """Yield what only the leader knows."""
    replicas, end_offset = raft.replicas(), raft.log.end_offset
    if not replicas:
        return
    observers = sum(not each.is_voter for each in replicas)
    text = "Observers of the quorum. Only the leader knows them."
    yield attribute(RAFT, "number-of-observers", text, one(observers))
    yield own(
        "odradek_quorum_lag",
        "Metadata records that a replica lacks. Only the leader knows this.",
        [((str(each.key.id),), max(0, end_offset - each.end_offset)) for each in replicas],
        "replica",
    )


def channel(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of the requests that this node has sent to the other voters."""
    peers = node.metadata.raft.peers
    for name, text, value in (
        ("request-total", "Requests sent.", 0 if peers is None else peers.requests_sent),
        ("response-total", "Responses received.", 0 if peers is None else peers.responses_received),
        (
            "outgoing-byte-total",
            "Bytes of requests, without their headers.",
            0 if peers is None else peers.bytes_sent,
        ),
        (
            "incoming-byte-total",
            "Bytes of responses, without the correlation id.",
            0 if peers is None else peers.bytes_received,
        ),
    ):
        yield attribute(_CHANNEL, name, f"{text} Only messages of the metadata quorum.", one(value))


def _state(raft: RaftClient) -> str:
    match raft.machine.role:
        case Leader():
            return "leader"
        case Candidate():
            return "candidate"
        case Prospective():
            return "prospective"
        case Resigned():
            return "resigned"
        case Follower():
            return "follower" if _is_voter(raft) else "observer"
        case Unattached():
            return "unattached"


def _is_voter(raft: RaftClient) -> bool:
    return raft.machine.local.id in raft.settings.voters.voters


def _vote(raft: RaftClient) -> int:
    if isinstance(raft.machine.role, Leader | Candidate):
        return raft.machine.local.id
    voted: ReplicaKey | None = raft.machine.role.election().voted
    return -1 if voted is None else voted.id


def controller(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of a controller, active or not."""
    parts = node.of_controller
    if parts is None:
        return
    image = node.metadata.cache.image
    brokers = image.cluster.brokers.values()
    alive = {broker.id for broker in brokers if not broker.fenced}
    partitions = [p for topic in image.topics.by_id.values() for p in topic.partitions.values()]
    is_active = parts.controller.is_active
    for name, text, value in (
        (
            "ActiveControllerCount",
            "1 if this node is the active controller, otherwise 0.",
            int(is_active),
        ),
        ("ActiveBrokerCount", "Registered brokers that are not fenced.", len(alive)),
        ("FencedBrokerCount", "Registered brokers that are fenced.", len(brokers) - len(alive)),
        ("GlobalTopicCount", "Topics of the cluster.", len(image.topics.by_id)),
        ("GlobalPartitionCount", "Partitions of the cluster.", len(partitions)),
        (
            "OfflinePartitionsCount",
            "Partitions without a leader that is alive.",
            sum(p.leader not in alive for p in partitions),
        ),
        (
            "PreferredReplicaImbalanceCount",
            "Partitions whose leader is not the first replica.",
            sum(p.leader != p.preferred_leader for p in partitions),
        ),
        (
            "LastCommittedRecordOffset",
            "Offset of the last committed metadata record.",
            node.metadata.raft.high_watermark - 1,
        ),
        (
            "LastAppliedRecordOffset",
            "Offset of the last metadata record that was applied.",
            image.offset,
        ),
        (
            "LastAppliedRecordTimestamp",
            f"When the last metadata record that was applied was appended, {_NO_TIMESTAMP}",
            node.metadata.loader.last_timestamp_ms,
        ),
        (
            "LastAppliedRecordLagMs",
            "Milliseconds since the last metadata record that was applied was appended; 0 on the active "
            "controller.",
            0 if is_active else _lag_ms(node.metadata, node.wall_ms()),
        ),
        (
            "MetadataErrorCount",
            "How often a part of the node failed to apply a metadata change.",
            node.metadata.publishers.failures,
        ),
    ):
        yield gauge(f"{_CONTROLLER}{name}", text, one(value))
    yield from _work(parts)
    yield from _elections(parts)


def _work(parts: ControllerSources) -> Iterator[Metric]:
    """Yield the metrics of the controller's work, which has no queue."""
    controller = parts.controller
    times = controller.times.read(0.001)
    for name, text, value in (
        (
            "EventQueueOperationsStartedCount",
            "Requests and periodic work that were processed.",
            times.count,
        ),
        (
            "EventQueueOperationsTimedOutCount",
            "Requests whose records were not committed within the timeout.",
            controller.timed_out,
        ),
        ("TimedOutBrokerHeartbeatCount", "Always 0: heartbeats do not wait in a queue.", 0),
        (
            "NewActiveControllersCount",
            "How often this node has seen a new active controller.",
            controller.elections,
        ),
    ):
        yield gauge(f"{_CONTROLLER}{name}", text, one(value))
    events = "kafka.controller:type=ControllerEventManager,name="
    yield histogram(
        f"{events}EventQueueProcessingTimeMs",
        "Milliseconds in which requests and periodic work were processed. Quantiles are upper "
        "bounds, exact to a factor of 2.",
        one(times),
    )
    yield histogram(
        f"{events}EventQueueTimeMs",
        "Always 0: the event loop processes a request at once, there is no queue.",
        one(Histogram.of_zeros(times.count)),
    )


def _elections(parts: ControllerSources) -> Iterator[Metric]:
    elections = parts.elections
    for name, text, value in (
        (
            "UncleanLeaderElectionsPerSec",
            "Elections of a replica that may lack committed records.",
            elections.unclean,
        ),
        (
            "ElectionFromEligibleLeaderReplicasPerSec",
            "Elections of a replica outside the ISR that has all committed records.",
            elections.from_elr,
        ),
    ):
        yield meter(f"kafka.controller:type=ControllerStats,name={name}", text, one(value))
    yield own_count(
        "odradek_leader_elections",
        "Elections of another leader than before.",
        one(elections.count),
    )
