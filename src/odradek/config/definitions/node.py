"""The node: its identity, its data directories, and its metrics."""

SETTINGS = """
[honoured]
node.id  int  required  >=0  high
    The number of this node in its cluster.
broker.id  int  = -1  high
    The older name of `node.id`; both must be equal when both are given.
process.roles  list  required  {broker,controller}  non-empty  high
    The roles of this node: broker, controller, or both.
broker.rack  string  medium
    The rack of this node, for replica placement and for reading from a near replica.
log.dir  list  = /tmp/kafka-logs  distinct  non-empty  high
    Directories of the data; used when `log.dirs` is not given.
log.dirs  list  distinct  non-empty  high
    Directories of the data, several with commas.
auto.create.topics.enable  boolean  = true  high
    Create a topic when a client first requests its metadata.
delete.topic.enable  boolean  = true  high
    Allow topics to be deleted.
num.partitions  int  = 1  >=1  medium
    Partitions of a topic that is created without a number.
default.replication.factor  int  = 1  medium
    Replicas of a topic that is created without a number.
telemetry.max.bytes  int  = 1048576  >=1  low
    The most that a client may push as metrics at once.

[accepted: opening a node takes well under a second]
server.max.startup.time.ms  long  = 9223372036854775807  >=0  medium  internal
    How long the start may take before it counts as failed.

[refused: rules that it enforces would be skipped; remove it, or enforce them in the tool that creates topics]
create.topic.policy.class.name  class  low
    Java class that may forbid the creation of a topic.
alter.config.policy.class.name  class  low
    Java class that may forbid the change of a setting.

[refused: values of the form ${provider:...} cannot be resolved; write the values themselves]
config.providers  list  = ""  distinct  low  cluster-wide
    Names of sources that values in this file may be taken from.

[unsupported: metrics are served for Prometheus on odradek.metrics.port; Java reporters are not loaded]
metric.reporters  list  = org.apache.kafka.common.metrics.JmxReporter  distinct  low  cluster-wide
    Java classes that receive the metrics.
kafka.metrics.reporters  list  = ""  distinct  low
    Java classes that receive the metrics of the old library.
kafka.metrics.polling.interval.secs  int  = 10  >=1  low
    Seconds between reports to the old reporters.

[accepted: metrics are counters and histograms that are never sampled over windows]
metrics.num.samples  int  = 2  >=1  low
    Windows kept to compute rates.
metrics.sample.window.ms  long  = 30000  >=1  low
    Length of a window of metrics.
metrics.recording.level  string  = INFO  low
    How detailed the recorded metrics are.

[accepted: features are finalized only at the levels listed in docs/support.md]
unstable.feature.versions.enable  boolean  = false  high  internal
    Also offer feature levels that may still change.
"""
