"""The metrics of the metadata quorum and of controllers, under the names that Apache Kafka has."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.raft.client import RaftClient
from odradek.core.raft.leader import Leader
from odradek.core.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from odradek.core.raft.voters import ReplicaKey
from odradek.node.metric_families import Family, MetricSources, Sample, one

_STATES = ("leader", "candidate", "prospective", "resigned", "follower", "observer", "unattached")
_METADATA_VERSION = "metadata.version"


def metadata(node: MetricSources) -> Iterator[Family]:
    """Yield the metrics of the metadata that this node has applied."""
    image = node.metadata.cache.image
    prefix = "kafka_server_broker_metadata_metrics"
    yield Family(
        f"{prefix}_last_applied_record_offset", "gauge",
        "Offset of the last metadata record that this node has applied.", one(image.offset),
    )  # fmt: skip
    yield Family(
        f"{prefix}_metadata_apply_error_count", "gauge",
        "How often a part of the node failed to apply a metadata change.",
        one(node.metadata.publishers.failures),
    )  # fmt: skip
    yield Family(
        "kafka_server_metadataloader_currentmetadataversion", "gauge",
        "Level of the feature metadata.version.", one(image.features.level(_METADATA_VERSION)),
    )  # fmt: skip
    yield Family(
        "kafka_server_metadataloader_currentcontrollerid", "gauge",
        "Id of the active controller, or -1.", one(node.metadata.raft.leader.leader_id),
    )  # fmt: skip


def quorum(node: MetricSources) -> Iterator[Family]:
    """Yield the metrics of this node's part in the metadata quorum (KIP-595)."""
    raft = node.metadata.raft
    machine, log, voters = raft.machine, raft.log, raft.settings.voters
    replicas = raft.replicas()
    prefix = "kafka_server_raft_metrics"
    gauges = (
        ("current_leader", "Id of the quorum's leader, or -1.", machine.leader_id),
        ("current_epoch", "The epoch of the quorum.", machine.epoch),
        ("current_vote", "Id of the voter that this node has voted for in the epoch, or -1.",
         _vote(raft)),
        ("high_watermark", "All metadata records below this offset are committed.",
         machine.high_watermark),
        ("log_end_offset", "End offset of the metadata log.", log.end_offset),
        ("log_end_epoch", "Epoch of the last metadata record.", log.last_epoch),
        ("number_of_voters", "Voters of the quorum.", len(voters)),
    )  # fmt: skip
    for name, text, value in gauges:
        yield Family(f"{prefix}_{name}", "gauge", text, one(value))
    state = _state(raft)
    yield Family(
        f"{prefix}_current_state", "gauge", "1 for the state of this node in the quorum, else 0.",
        [Sample({"state": each}, int(each == state)) for each in _STATES],
    )  # fmt: skip
    for name, text, value in (
        ("append_records", "Metadata records that this node has appended as leader.",
         log.records_appended),
        ("fetch_records", "Metadata records that this node has fetched from a leader.",
         log.records_fetched),
    ):  # fmt: skip
        yield Family(f"{prefix}_{name}", "counter", text, one(value))
    if replicas:
        observers = sum(not each.is_voter for each in replicas)
        text = "Observers of the quorum. Only the leader knows them."
        yield Family(f"{prefix}_number_of_observers", "gauge", text, one(observers))
        yield Family(
            "odradek_quorum_lag", "gauge",
            "Metadata records that a replica lacks. Only the leader knows this.",
            [
                Sample({"replica": str(each.key.id)}, max(0, log.end_offset - each.end_offset))
                for each in replicas
            ],
        )  # fmt: skip


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


def controller(node: MetricSources) -> Iterator[Family]:
    """Yield the metrics of a controller, active or not."""
    parts = node.of_controller
    if parts is None:
        return
    image = node.metadata.cache.image
    brokers = image.cluster.brokers.values()
    alive = {broker.id for broker in brokers if not broker.fenced}
    partitions = [p for topic in image.topics.by_id.values() for p in topic.partitions.values()]
    prefix = "kafka_controller_kafkacontroller"
    gauges = (
        ("activecontrollercount", "1 if this node is the active controller, otherwise 0.",
         int(parts.controller.is_active)),
        ("activebrokercount", "Registered brokers that are not fenced.", len(alive)),
        ("fencedbrokercount", "Registered brokers that are fenced.", len(brokers) - len(alive)),
        ("globaltopiccount", "Topics of the cluster.", len(image.topics.by_id)),
        ("globalpartitioncount", "Partitions of the cluster.", len(partitions)),
        ("offlinepartitionscount", "Partitions without a leader that is alive.",
         sum(p.leader not in alive for p in partitions)),
        ("preferredreplicaimbalancecount", "Partitions whose leader is not the first replica.",
         sum(p.leader != p.preferred_leader for p in partitions)),
        ("lastcommittedrecordoffset", "Offset of the last committed metadata record.",
         node.metadata.raft.high_watermark - 1),
        ("lastappliedrecordoffset", "Offset of the last metadata record that was applied.",
         image.offset),
    )  # fmt: skip
    for name, text, value in gauges:
        yield Family(f"{prefix}_{name}", "gauge", text, one(value))
    elections = parts.elections
    for name, text, value in (
        ("kafka_controller_controllerstats_uncleanleaderelections",
         "Elections of a replica that may lack committed records.", elections.unclean),
        ("kafka_controller_controllerstats_electionfromeligibleleaderreplicas",
         "Elections of a replica outside the ISR that has all committed records.",
         elections.from_elr),
        ("odradek_leader_elections", "Elections of another leader than before.", elections.count),
    ):  # fmt: skip
        yield Family(name, "counter", text, one(value))
