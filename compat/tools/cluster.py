"""What the broker says of itself: versions, quorum, features, identity."""

from __future__ import annotations

from compat.scenarios.stage import holds
from compat.tools.workbench import Workbench, check

NEEDED = {
    "Produce": 13,
    "Fetch": 18,
    "ListOffsets": 11,
    "Metadata": 13,
    "OffsetCommit": 10,
    "OffsetFetch": 10,
    "FindCoordinator": 6,
    "JoinGroup": 9,
    "Heartbeat": 4,
    "LeaveGroup": 5,
    "SyncGroup": 5,
    "DescribeGroups": 6,
    "ListGroups": 5,
    "ApiVersions": 4,
    "CreateTopics": 7,
    "DeleteTopics": 6,
    "DeleteRecords": 2,
    "InitProducerId": 5,
    "OffsetForLeaderEpoch": 4,
    "DescribeConfigs": 4,
    "AlterConfigs": 2,
    "DescribeLogDirs": 5,
    "CreatePartitions": 3,
    "DeleteGroups": 2,
    "IncrementalAlterConfigs": 1,
    "OffsetDelete": 0,
    "DescribeQuorum": 2,
    "DescribeCluster": 2,
    "DescribeProducers": 0,
    "ListConfigResources": 1,
    "DescribeTopicPartitions": 0,
}
"""Newest versions of Apache Kafka 4.3 that every broker of ours must serve at least."""


@check("BrokerApiVersionsCommand")
def api_versions(bench: Workbench) -> None:
    """The broker serves each API of the node in the versions of Apache Kafka 4.3."""
    told = bench.tool("BrokerApiVersionsCommand")
    for name, newest in NEEDED.items():
        served = int(told.find(rf"^\t{name}\(\d+\): (?:\d+ to )?(\d+) \[usable: \d+\]")[1])
        holds(served >= newest, f"{name} is served up to version {served}, not {newest}")


@check("MetadataQuorumCommand")
def quorum(bench: Workbench) -> None:
    """A quorum of one, led by itself."""
    status = bench.tool("MetadataQuorumCommand", "describe", "--status")
    broker = bench.broker_id()
    status.says(r"^ClusterId: +[\w-]{22}$", rf"^LeaderId: +{broker}$", r"^HighWatermark: +\d+$")
    status.says(rf'^CurrentVoters: +.*"?id"?: ?{broker}|^CurrentVoters: +\[{broker}\]')
    replication = bench.tool("MetadataQuorumCommand", "describe", "--replication")
    replication.says(rf"^{broker} +\t[\w-]{{22}}\t\d+ +\t0 +\t.*Leader")


@check("ClusterTool and FeatureCommand")
def identity(bench: Workbench) -> None:
    """Cluster id, endpoints, finalized features."""
    address = ("--bootstrap-server", bench.broker.bootstrap)
    identity = bench.tool("ClusterTool", "cluster-id", *address, bootstrap=False)
    identity.says(r"^Cluster ID: [\w-]{22}$")
    endpoints = bench.tool("ClusterTool", "list-endpoints", *address, bootstrap=False)
    endpoints.says(rf"^{bench.broker_id()} +127\.0\.0\.1 +{bench.broker.port} ")
    features = bench.tool("FeatureCommand", "describe")
    features.says(r"^Feature: metadata\.version\s.*FinalizedVersionLevel: \S.*\s+Epoch: \d+")
