"""Group coordinators: consumer groups of both protocols, and their offsets."""

SETTINGS = """
[honoured]
group.min.session.timeout.ms  int  = 6000  medium
    Minimum session timeout of a member of a classic group.
group.max.session.timeout.ms  int  = 1800000  medium
    Maximum session timeout of a member of a classic group.
group.initial.rebalance.delay.ms  int  = 3000  medium
    Time to wait for more members before the first rebalance of an empty group.
group.max.size  int  = 2147483647  >=1  medium
    Maximum number of members of a classic group.
offset.metadata.max.bytes  int  = 4096  high
    Maximum size of the metadata that may be stored with an offset, in bytes.
offsets.load.buffer.size  int  = 5242880  >=1  high
    Number of bytes that are read at once when offsets are loaded.
offsets.topic.replication.factor  short  = 3  >=1  high
    Replication factor of `__consumer_offsets`.
offsets.topic.num.partitions  int  = 50  >=1  high
    Number of partitions of `__consumer_offsets`. Do not change it after the topic has been created.
offsets.topic.segment.bytes  int  = 104857600  >=1  high
    Segment size of `__consumer_offsets`.
offsets.topic.compression.codec  int  = 0  high
    Codec of batches in `__consumer_offsets`: 0 is none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
offsets.retention.minutes  int  = 10080  >=1  high
    Offsets of an empty group expire after this time.
offsets.retention.check.interval.ms  long  = 600000  >=1  high
    How often expired offsets are removed.
offsets.commit.timeout.ms  int  = 5000  >=1  high
    How long the write of an offset may take.
group.coordinator.rebalance.protocols  list  = classic,consumer,streams  {consumer,classic,share,streams}  non-empty  medium
    Protocols that groups may use.
group.consumer.session.timeout.ms  int  = 45000  >=1  medium
    A member of a consumer group is removed after this long without a heartbeat.
group.consumer.min.session.timeout.ms  int  = 45000  >=1  medium
    Minimum value of `group.consumer.session.timeout.ms`.
group.consumer.max.session.timeout.ms  int  = 60000  >=1  medium
    Maximum value of `group.consumer.session.timeout.ms`.
group.consumer.heartbeat.interval.ms  int  = 5000  >=1  medium
    How often members of consumer groups send heartbeats.
group.consumer.min.heartbeat.interval.ms  int  = 5000  >=1  medium
    Minimum value of `group.consumer.heartbeat.interval.ms`.
group.consumer.max.heartbeat.interval.ms  int  = 15000  >=1  medium
    Maximum value of `group.consumer.heartbeat.interval.ms`.
group.consumer.max.size  int  = 2147483647  >=1  medium
    Maximum number of members of a consumer group.
group.consumer.assignors  list  = uniform,range  distinct  non-empty  medium
    Assignors that the broker has for consumer groups. The first assignor is the default.
group.consumer.migration.policy  string  = bidirectional  any-case{disabled,downgrade,upgrade,bidirectional}  medium
    Whether groups may move between the classic and the consumer protocol.
group.consumer.regex.refresh.interval.ms  int  = 600000  >=10000  medium  internal
    How often subscribed patterns are matched with the topics again.
group.consumer.assignment.interval.ms  int  = 1000  >=0  medium  cluster-wide
    Minimum time between two assignments of a consumer group.
group.consumer.min.assignment.interval.ms  int  = 0  >=0  medium
    Minimum value of `group.consumer.assignment.interval.ms`.
group.consumer.max.assignment.interval.ms  int  = 15000  >=0  medium
    Maximum value of `group.consumer.assignment.interval.ms`.

[accepted: coordinators run on the node's event loop]
group.coordinator.threads  int  = 4  >=1  high
    Number of threads of the coordinator.
group.coordinator.background.threads  int  = 2  >=1  high
    Threads for slow tasks of the coordinator.

[accepted: records are written without delay]
group.coordinator.append.linger.ms  int  = -1  >=-1  medium
    How long a coordinator's records wait for other records. -1 means an adaptive time.
group.coordinator.cached.buffer.max.bytes  int  = 1048588  >=524288  medium  cluster-wide
    Maximum size of a write buffer that a coordinator keeps.

[accepted: assignors run on the node's event loop, as no release of Apache Kafka runs them elsewhere]
group.consumer.assignor.offload.enable  boolean  = true  medium  internal  cluster-wide
    Whether targets of consumer groups may be computed by another thread.
group.share.assignor.offload.enable  boolean  = true  medium  internal  cluster-wide
    Whether targets of share groups may be computed by another thread.
group.streams.assignor.offload.enable  boolean  = true  medium  internal  cluster-wide
    Whether targets of Streams groups may be computed by another thread.
"""
