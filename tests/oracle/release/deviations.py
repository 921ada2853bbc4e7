"""The items of Apache Kafka 4.4.0 that differ in Odradek, and why.

docs/compatibility.md shows this table. Each difference that `comparison` finds must match a row,
and each pattern must match a difference.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

DOCUMENT = Path(__file__).parents[3] / "docs" / "compatibility.md"
BEGIN = "<!-- deviations: made by `python -m tests.oracle.release document` -->"
END = "<!-- end of deviations -->"


class Deviation(NamedTuple):
    """A row of the table."""

    area: str
    """A name in `comparison.AREAS`."""
    patterns: tuple[str, ...]
    """Patterns of items, in which `*` stands for any text."""
    shown: str
    """What differs."""
    reason: str

    def matches(self, item: str) -> bool:
        """Whether this row is about an item."""
        return any(fnmatchcase(item, _literal(each)) for each in self.patterns)


def _literal(pattern: str) -> str:
    """Brackets in an item are no classes of characters."""
    return pattern.replace("[", "[[]")


_MBEAN = "kafka.server:type="

DEVIATIONS = (
    # -- settings -------------------------------------------------------------------------------
    Deviation(
        "settings",
        ("text *",),
        "the text of each setting (DescribeConfigs)",
        "the texts are Odradek's own, and say what the setting does in Odradek",
    ),
    Deviation(
        "settings",
        ("only here odradek.*",),
        "settings that begin with `odradek.`",
        "what only Odradek has; clients of Apache Kafka show them like others",
    ),
    Deviation(
        "settings",
        ("only here super.users", "only here allow.everyone.if.no.acl.found"),
        "`super.users` and `allow.everyone.if.no.acl.found` are settings of the broker",
        "Apache Kafka's authorizer reads them itself, so no definition has them",
    ),
    Deviation(
        "settings",
        ("values group.streams.topology.description.plugin.class",),
        "`group.streams.topology.description.plugin.class` takes one name",
        "there are no plugins in Java; this name means that descriptions are kept in `__consumer_offsets`",
    ),
    Deviation(
        "settings",
        ("values controller.quorum.bootstrap.servers", "values controller.quorum.voters"),
        "`controller.quorum.bootstrap.servers` and `controller.quorum.voters` refuse entries without a host",
        "Apache Kafka accepts them and fails later",
    ),
    Deviation(
        "settings",
        ("without effect *",),
        "settings that are ignored, or refused",
        "each has its reason in [configuration.md](configuration.md)",
    ),
    # -- metrics --------------------------------------------------------------------------------
    Deviation(
        "metrics",
        ("* RateUnit", "* EventType", "* LatencyUnit"),
        "the attributes `RateUnit`, `EventType`, `LatencyUnit`",
        "texts that are always the same; Prometheus has numbers only",
    ),
    Deviation(
        "metrics",
        (
            f"{_MBEAN}*-channel-metrics *",
            f"{_MBEAN}alter-partition-metrics,*",
            f"{_MBEAN}directory-assignments-metrics,*",
            f"{_MBEAN}forwarding-metrics,*",
            f"{_MBEAN}heartbeat-metrics,*",
            f"{_MBEAN}registration-metrics,*",
            f"{_MBEAN}ForwardingManager *",
        ),
        "`…-channel-metrics`, `forwarding-metrics`, `heartbeat-metrics` and the like (clients of a node)",
        "the node's own clients have no figures of their own: the node that receives their requests counts them",
    ),
    Deviation(
        "metrics",
        (
            f"{_MBEAN}socket-server-metrics,listener=*,networkProcessor=* *",
            f"{_MBEAN}socket-server-metrics MemoryPool*",
            "kafka.network:type=SocketServer,name=MemoryPool*",
        ),
        "`socket-server-metrics`: figures of Java's selector, bytes and failed logins for each thread, the memory pool",
        "there is one event loop; bytes are counted in `BrokerTopicMetrics`, requests in `RequestMetrics`, and `queued.max.request.bytes` has no effect",
    ),
    Deviation(
        "metrics",
        (f"{_MBEAN}socket-server-metrics,clientSoftware*",),
        "`socket-server-metrics,clientSoftwareName=…`, `connections`",
        "clients choose these names, and each would be a time series",
    ),
    Deviation(
        "metrics",
        (
            f"{_MBEAN}group-coordinator-metrics event-*",
            f"{_MBEAN}group-coordinator-metrics batch-*",
            f"{_MBEAN}group-coordinator-metrics background-*",
            f"{_MBEAN}share-coordinator-metrics *",
        ),
        "`group-coordinator-metrics` and `share-coordinator-metrics`: `event-…`, `batch-…`, `background-…`",
        "coordinators have no queue of events, no batches that linger and no threads: the event loop runs an operation when its request is dispatched, and its times are those of the request (`LocalTimeMs`, `RemoteTimeMs`)",
    ),
    Deviation(
        "metrics",
        (
            f"{_MBEAN}group-coordinator-metrics streams-group-topology-description-cleanup*",
            f"{_MBEAN}group-coordinator-metrics streams-group-topology-description-delete*",
            f"{_MBEAN}group-coordinator-metrics streams-group-topology-description-get-error*",
        ),
        "`group-coordinator-metrics`: `streams-group-topology-description-…` of deletions, clean-up and failed reads",
        "no plugin is called: a description is a record of `__consumer_offsets`, is deleted with its group, and is read from memory",
    ),
    Deviation(
        "metrics",
        (f"{_MBEAN}group-coordinator-metrics,state=Dead *",),
        "`consumer-group-count` and `share-group-count` of the state Dead",
        "a dead group does not exist, in Apache Kafka neither: its value is always 0",
    ),
    Deviation(
        "metrics",
        (
            f"{_MBEAN}app-info*",
            f"{_MBEAN}kafka-metrics-count *",
            "*name=yammer-metrics-count *",
            "*name=ClusterId *",
            "kafka:type=kafka.Log4jController *",
            "kafka.utils:type=Throttler*",
        ),
        "`app-info`, `ClusterId`, `kafka-metrics-count`, `yammer-metrics-count`, `Log4jController`, `Throttler`",
        "facts about Java's libraries, or texts. `odradek --version` shows the version, and `odradek config set logger` sets the levels of loggers",
    ),
    Deviation(
        "metrics",
        (
            f"{_MBEAN}BrokerMetadataListener*",
            f"{_MBEAN}MetadataLoader,name=AvgIdleRatio *",
            "kafka.controller:type=ControllerEventManager,name=AvgIdleRatio *",
            f"{_MBEAN}KafkaRequestHandlerPool,name=*RequestHandlerAvgIdlePercent *",
        ),
        "`BrokerMetadataListener`, `AvgIdleRatio`, and `…RequestHandlerAvgIdlePercent` for broker and controller apart",
        "these are threads and queues of Java's node. Here one event loop does all of it, and `RequestHandlerAvgIdlePercent` is its idle share",
    ),
    Deviation(
        "metrics",
        ("*delayedOperation=Remote*",),
        "`DelayedOperationPurgatory` of RemoteFetch and RemoteListOffsets",
        "there is no tiered storage",
    ),
    Deviation(
        "metrics",
        (
            "*delayedOperation=AlterAcls *",
            "*AssignmentsManager,name=QueuedReplicaToDirAssignments *",
        ),
        "`DelayedOperationPurgatory` of AlterAcls, `AssignmentsManager`",
        "nothing waits there: changes of ACLs end with the commit of the metadata, and assignments to directories are sent at once",
    ),
    Deviation(
        "metrics",
        (
            f"{_MBEAN}ReplicaAlterLogDirsManager,*",
            f"{_MBEAN}ReplicaFetcherManager,name=DeadThreadCount*",
            "kafka.log:type=LogCleaner,name=DeadThreadCount *",
        ),
        "`ReplicaAlterLogDirsManager`, `DeadThreadCount`",
        "no threads that could die. Moves between directories copy files; `DescribeLogDirs` shows how far they are",
    ),
    Deviation(
        "metrics",
        (
            "kafka.log:type=LogManager,name=*Cordoned*",
            "kafka.controller:type=KafkaController,name=BrokerRegistrationState*",
            "kafka.controller:type=KafkaController,name=TimeSinceLastHeartbeatReceivedMs*",
            "kafka.controller:type=KafkaController,name=ControlledShutdownBrokerCount *",
            f"{_MBEAN}broker-metadata-metrics ignored-static-voters",
            "kafka.controller:type=KafkaController,name=IgnoredStaticVoters *",
            "kafka.log:type=LogCleanerManager,name=uncleanable-bytes*",
            "kafka.log:type=Log,name=RetentionSizeInPercent*",
            f"{_MBEAN}ReplicaManager,name=PartitionsWithLateTransactionsCount *",
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager*",
            f"{_MBEAN}raft-metrics *",
            f"{_MBEAN}client-metrics *",
            f"{_MBEAN}Request exempt-request-time",
            "kafka.network:type=RequestMetrics,name=TemporaryMemoryBytes*",
            f"{_MBEAN}DelayedFetchMetrics*",
            f"{_MBEAN}DelayedProduceMetrics*",
        ),
        "`CordonedLogDirectoryCount`, `LogDirectoryCordoned`, `BrokerRegistrationState`, `TimeSinceLastHeartbeatReceivedMs`, `ControlledShutdownBrokerCount`, `IgnoredStaticVoters`, `uncleanable-bytes`, `RetentionSizeInPercent`, `PartitionsWithLateTransactionsCount`, `TransactionMarkerChannelManager`, two of `raft-metrics`, `client-metrics` without an instance, `exempt-request-time`, `TemporaryMemoryBytes`, and `ExpiresPerSec` of Fetch and Produce",
        "not built",
    ),
    # -- commands -------------------------------------------------------------------------------
    Deviation(
        "commands",
        (
            "*--formatter",
            "*--formatter-config",
            "*-deserializer",
            "*--line-reader",
            "*--reader-config",
            "*--*-decoder-class",
            "*--property",
            "dump-log --remote-log-metadata-decoder",
        ),
        "console-consumer, console-producer, console-share-consumer, dump-log: classes of formatters, deserializers, readers and decoders, and their properties",
        "classes of Java. `--format json` and templates print all parts of a record",
    ),
    Deviation(
        "commands",
        (
            "*--consumer-property",
            "*--consumer-config",
            "*--consumer.config",
            "*--producer-property",
            "*--producer.config",
            "*--producer-props",
            "*--command-property",
            "*--admin.config",
            "console-producer --m*",
            "console-producer --re*",
            "console-producer --s*",
            "console-consumer --timeout-ms",
            "console-*consumer --*skip-message-on-error",
            "console-share-consumer --re*",
            "console-*consumer --enable-systest-events",
        ),
        "the same commands: settings of the client as options",
        "`--command-config FILE` and `-X NAME=VALUE` set what connects and logs in; programs that need more use a client",
    ),
    Deviation(
        "commands",
        ("*--bootstrap-controller", "cluster * --config"),
        "`--bootstrap-controller`",
        "`odradek` asks brokers, which forward to the controller",
    ),
    Deviation(
        "commands",
        ("*perf-test *",),
        "consumer-perf-test, producer-perf-test, share-consumer-perf-test",
        "they measure Java's client. `odradek bench` measures a broker",
    ),
    Deviation(
        "commands",
        ("jmx *",),
        "jmx",
        "there is no JMX; [metrics](metrics.md) are served to Prometheus",
    ),
    Deviation(
        "commands",
        (
            "metadata-quorum add-controller --dry-run",
            "metadata-quorum remove-controller *",
            "features * --release-version",
            "features * --metadata",
            "features * --unsafe",
            "features describe --node-id",
            "features feature-dependencies --feature",
            "storage version-mapping --release-version",
            "storage feature-dependencies --feature",
            "leader-election --*",
            "reassign-partitions --*",
            "replica-verification --*",
            "log-dirs --broker-list",
            "cluster list-endpoints --include-fenced-brokers",
            "transactions describe-producers --*",
            "transactions forceTerminateTransaction --transactional",
            "transactions abort --*",
            "transactions find-hanging --*",
        ),
        "metadata-quorum (voters), features and storage (tables of levels, `--unsafe`), leader-election, reassign-partitions (plans in files, throttles, racks, more replicas, moves in progress), replica-verification, log-dirs, transactions (producers of a partition, forceTerminateTransaction, brokers before 3.0)",
        "`odradek cluster` plans moves and elections for a whole cluster. For a single partition or voter, use Apache Kafka's command, which works with Odradek",
    ),
    Deviation(
        "commands",
        (
            "acls --producer",
            "acls --consumer",
            "acls --idempotent",
            "client-metrics --generate-name",
            "configs --add-config-file",
            "console-consumer --include",
            "consumer-groups --*",
            "dump-log --skip-record-metadata",
            "dump-log --max-*",
            "get-offsets --exclude-internal-topics",
            "groups --protocol",
            "share-groups --all-*",
            "streams-application-reset --*",
            "streams-groups --*",
            "topics --*",
        ),
        "acls (sets of operations), configs (a file), consumer-groups and streams-groups (all groups or topics, `--delete-offsets`, `--validate-regex`, internal topics), streams-application-reset (positions other than the beginning, `--force`), console-consumer (patterns of topics), topics (`--topic-id`, other filters), and five more",
        "shells do it with `--json`, or it was not asked for. Apache Kafka's command works with Odradek",
    ),
)


def document() -> str:
    """Return the table of the document."""
    lines = ["| | Apache Kafka 4.4 has | reason |", "| --- | --- | --- |"]
    lines += [f"| {each.area} | {each.shown} | {each.reason} |" for each in DEVIATIONS]
    return "\n".join([BEGIN, "", *lines, "", END])


def written(text: str) -> str:
    """Return the document with the present table."""
    before, after = text.index(BEGIN), text.index(END) + len(END)
    return text[:before] + document() + text[after:]
