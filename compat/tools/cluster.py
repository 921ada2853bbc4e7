"""What the broker says of itself: versions, quorum, features, identity, producers."""

from __future__ import annotations

from compat.scenarios.stage import holds
from compat.tools.workbench import Workbench, check

NEEDED = {
    "Produce": 13, "Fetch": 18, "ListOffsets": 11, "Metadata": 13, "OffsetCommit": 10,
    "OffsetFetch": 10, "FindCoordinator": 6, "JoinGroup": 9, "Heartbeat": 4, "LeaveGroup": 5,
    "SyncGroup": 5, "DescribeGroups": 6, "ListGroups": 5, "ApiVersions": 4, "CreateTopics": 7,
    "DeleteTopics": 6, "DeleteRecords": 2, "InitProducerId": 5, "OffsetForLeaderEpoch": 4,
    "DescribeConfigs": 4, "AlterConfigs": 2, "DescribeLogDirs": 5, "CreatePartitions": 3,
    "DeleteGroups": 2, "IncrementalAlterConfigs": 1, "OffsetDelete": 0, "DescribeQuorum": 2,
    "DescribeCluster": 2, "DescribeProducers": 0, "ListConfigResources": 1,
    "DescribeTopicPartitions": 0,
}  # fmt: skip
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
    features.says(r"^Feature: metadata\.version\s.*FinalizedVersionLevel: \S+\s+Epoch: \d+")


@check("TransactionsCommand")
def transactions(bench: Workbench) -> None:
    """Transactional ids, listed with filters and described; none hangs; the log is readable."""
    topic = bench.topic("tool-transactions")
    words = ["--topic", topic, "--num-records", "20", "--record-size", "10", "--throughput", "-1"]
    name = "tool-transactional-id"
    bench.tool("ProducerPerformance", *words, "--transactional-id", name)
    tool = "TransactionsCommand"
    bench.tool(tool, "list").says(rf"^{name}\s*\t.*(Complete|Empty)")
    bench.tool(tool, "list", "--transactional-id-pattern", "tool-trans.*").says(rf"^{name}\s*\t")
    bench.tool(tool, "list", "--transactional-id-pattern", "other.*").says_not(name)
    bench.tool(tool, "describe", "--transactional-id", name).says(rf"^\d+ *\t{name} *\t\d+")
    bench.tool(tool, "find-hanging", "--broker-id", str(bench.broker_id())).says_not(topic)
    formatter = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
    read = bench.try_tool(
        "consumer.ConsoleConsumer",
        *("--topic", "__transaction_state", "--from-beginning", "--timeout-ms", "4000"),
        *("--formatter", formatter),
    )
    read.says(rf'"transactionalId":"{name}".*"transactionStatus":[45]')


@check("TransactionsCommand describe-producers")
def producers(bench: Workbench) -> None:
    """The state of an idempotent producer."""
    topic = bench.topic("tool-producers")
    words = ["--topic", topic, "--num-records", "7", "--record-size", "10", "--throughput", "-1"]
    bench.tool("ProducerPerformance", *words)
    words = ["describe-producers", "--topic", topic, "--partition", "0"]
    bench.tool("TransactionsCommand", *words).says(
        r"^ProducerId *\tProducerEpoch", r"^\d+ +\t0 +\t-?\d+ +\t6 +\t\d{13}"
    )
