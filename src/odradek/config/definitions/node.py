"""The node: its identity, its data directories, and its metrics."""

SETTINGS = """
[honoured]
node.id  int  required  >=0  high
    The number of this node in its cluster.
broker.id  int  = -1  high
    The older name of `node.id`. If both are set, they must be equal.
process.roles  list  required  {broker,controller}  non-empty  high
    The roles of this node: broker, controller, or both.
broker.rack  string  medium
    The rack of this node, for replica placement and for reading from a near replica.
log.dir  list  = /tmp/kafka-logs  distinct  non-empty  high
    The data directories. The setting is used if `log.dirs` is not set.
log.dirs  list  distinct  non-empty  high
    The data directories, separated by commas.
auto.create.topics.enable  boolean  = true  high
    Create a topic when a client first requests its metadata.
delete.topic.enable  boolean  = true  high
    Allow topics to be deleted.
num.partitions  int  = 1  >=1  medium
    Number of partitions of a topic that is created without a number of partitions.
default.replication.factor  int  = 1  medium
    Replication factor of a topic that is created without a replication factor.
telemetry.max.bytes  int  = 1048576  >=1  low
    Maximum size of the metrics in one request of a client.
config.providers  list  = ""  distinct  low  cluster-wide
    Names of providers for variables such as ${file:/etc/secrets.properties:password} in the
    configuration file. Only Apache Kafka's providers for files, directories and environment variables
    are known: see security.md.

[accepted: a node starts in less than a second]
server.max.startup.time.ms  long  = 9223372036854775807  >=0  medium  internal
    Maximum time of the start. A start that takes longer has failed.

[refused: the rules of the class would not be enforced; remove the setting, or enforce the rules in the tool that creates topics]
create.topic.policy.class.name  class  low
    Java class that may forbid the creation of a topic.
alter.config.policy.class.name  class  low
    Java class that may forbid the change of a setting.

[unsupported: metrics are served for Prometheus on odradek.metrics.port; Java reporters are not loaded]
metric.reporters  list  = org.apache.kafka.common.metrics.JmxReporter  distinct  low  cluster-wide
    Java classes that receive the metrics.
kafka.metrics.reporters  list  = ""  distinct  low
    Java classes that receive the metrics of the Yammer library.
kafka.metrics.polling.interval.secs  int  = 10  >=1  low
    Time between reports to `kafka.metrics.reporters`, in seconds.

[accepted: metrics are counters and histograms, which have no windows]
metrics.num.samples  int  = 2  >=1  low
    Number of windows from which rates are computed.
metrics.sample.window.ms  long  = 30000  >=1  low
    Length of a window of metrics.
metrics.recording.level  string  = INFO  low
    Level of detail of the recorded metrics.

[accepted: features are finalized only at the levels listed in docs/support.md]
unstable.feature.versions.enable  boolean  = false  high  internal
    Also offer feature levels that may still change.
"""
