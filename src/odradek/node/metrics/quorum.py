"""The metrics of the metadata quorum and of controllers."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.raft.client import RaftClient
from odradek.core.raft.leader import Leader
from odradek.core.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from odradek.core.raft.voters import ReplicaKey
from odradek.node.metrics.sources import MetricSources
from odradek.telemetry.mbeans import Metric, attribute, gauge, meter, one, own, own_count

_METADATA_VERSION = "metadata.version"
RAFT = "kafka.server:type=raft-metrics"
_BROKER_METADATA = "kafka.server:type=broker-metadata-metrics"


def metadata(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of the metadata that this node has applied."""
    image = node.metadata.cache.image
    yield attribute(
        _BROKER_METADATA,
        "last-applied-record-offset",
        "Offset of the last metadata record that this node has applied.",
        one(image.offset),
    )
    yield attribute(
        _BROKER_METADATA,
        "metadata-apply-error-count",
        "How often a part of the node failed to apply a metadata change.",
        one(node.metadata.publishers.failures),
    )
    yield gauge(
        "kafka.server:type=MetadataLoader,name=CurrentMetadataVersion",
        "Level of the feature metadata.version.",
        one(image.features.level(_METADATA_VERSION)),
    )
    yield gauge(
        "kafka.server:type=MetadataLoader,name=CurrentControllerId",
        "Id of the active controller, or -1.",
        one(node.metadata.raft.leader.leader_id),
    )


def quorum(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of this node's part in the metadata quorum (KIP-595)."""
    raft = node.metadata.raft
    machine, log, voters = raft.machine, raft.log, raft.settings.voters
    replicas = raft.replicas()
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
    if replicas:
        observers = sum(not each.is_voter for each in replicas)
        text = "Observers of the quorum. Only the leader knows them."
        yield attribute(RAFT, "number-of-observers", text, one(observers))
        yield own(
            "odradek_quorum_lag",
            "Metadata records that a replica lacks. Only the leader knows this.",
            [((str(each.key.id),), max(0, log.end_offset - each.end_offset)) for each in replicas],
            "replica",
        )


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
    for name, text, value in (
        (
            "ActiveControllerCount",
            "1 if this node is the active controller, otherwise 0.",
            int(parts.controller.is_active),
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
    ):
        yield gauge(f"kafka.controller:type=KafkaController,name={name}", text, one(value))
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
