"""Share groups (KIP-932) and streams groups (KIP-1071)."""

SETTINGS = """
[honoured]
group.share.session.timeout.ms  int  = 45000  >=1  medium
    A member of a share group is removed after this long without a heartbeat.
group.share.min.session.timeout.ms  int  = 45000  >=1  medium
    Minimum value of `group.share.session.timeout.ms`.
group.share.max.session.timeout.ms  int  = 60000  >=1  medium
    Maximum value of `group.share.session.timeout.ms`.
group.share.heartbeat.interval.ms  int  = 5000  >=1  medium
    How often members of share groups send heartbeats.
group.share.min.heartbeat.interval.ms  int  = 5000  >=1  medium
    Minimum value of `group.share.heartbeat.interval.ms`.
group.share.max.heartbeat.interval.ms  int  = 15000  >=1  medium
    Maximum value of `group.share.heartbeat.interval.ms`.
group.share.max.size  int  = 200  1..1000  medium
    Maximum number of members of a share group.
group.share.assignment.interval.ms  int  = 1000  >=0  medium  cluster-wide
    Minimum time between two assignments of a share group.
group.share.min.assignment.interval.ms  int  = 0  >=0  medium
    Minimum value of `group.share.assignment.interval.ms`.
group.share.max.assignment.interval.ms  int  = 15000  >=0  medium
    Maximum value of `group.share.assignment.interval.ms`.
group.share.initialize.retry.interval.ms  int  = 30000  >=1  low  internal
    Pause before share state is initialized again.
group.share.delivery.count.limit  int  = 5  2..10  medium
    Maximum number of deliveries of a record.
group.share.min.delivery.count.limit  int  = 2  2..5  medium
    Minimum value of `group.share.delivery.count.limit`.
group.share.max.delivery.count.limit  int  = 10  5..25  medium
    Maximum value of `group.share.delivery.count.limit`.
group.share.record.lock.duration.ms  int  = 30000  1000..3600000  medium
    How long a member's lock on a record lasts.
group.share.min.record.lock.duration.ms  int  = 15000  1000..30000  medium
    Minimum value of `group.share.record.lock.duration.ms`.
group.share.max.record.lock.duration.ms  int  = 60000  30000..3600000  medium
    Maximum value of `group.share.record.lock.duration.ms`.
group.share.partition.max.record.locks  int  = 2000  100..10000  medium
    Maximum number of locked records of a partition.
group.share.min.partition.max.record.locks  int  = 100  100..2000  medium
    Minimum value of `group.share.partition.max.record.locks`.
group.share.max.partition.max.record.locks  int  = 4000  2000..10000  medium
    Maximum value of `group.share.partition.max.record.locks`.
errors.deadletterqueue.topic.name.prefix  string  = dlq.  medium  cluster-wide
    Prefix that the names of dead letter topics of share groups must have (KIP-1191). Empty means any name.
errors.deadletterqueue.auto.create.topics.enable  boolean  = false  medium  cluster-wide
    Whether dead letter topics of share groups are created automatically.
group.share.max.share.sessions  int  = 2000  >=1  medium
    Maximum number of share sessions.

[accepted: there is only one assignor]
group.share.assignors  list  = simple  distinct  non-empty  medium
    The assignor of share groups.

[unsupported: dead letters are written by the leader of the partition]
group.share.dlq.manager.class.name  string  = org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager  medium  internal
    Java class that writes dead letters.

[unsupported: share groups always use the share coordinator]
group.share.persister.class.name  string  = org.apache.kafka.server.share.persister.DefaultStatePersister  medium  internal
    Java class that stores the share state.

[accepted: coordinators run on the node's event loop]
share.coordinator.threads  int  = 1  >=1  medium
    Number of threads of the share coordinator.

[accepted: records are written without delay]
share.coordinator.append.linger.ms  int  = -1  >=-1  medium
    How long the share coordinator's records wait for other records. -1 means an adaptive time.
share.coordinator.cached.buffer.max.bytes  int  = 1048588  >=524288  medium  cluster-wide
    Maximum size of a write buffer that the share coordinator keeps.

[honoured]
share.coordinator.load.buffer.size  int  = 5242880  >=1  high
    Number of bytes that are read at once when share state is loaded.
share.coordinator.write.timeout.ms  int  = 5000  >=1  high
    How long the write of share state may take.
share.coordinator.snapshot.update.records.per.snapshot  int  = 500  0..500  medium
    Number of updates between two snapshots of share state.
share.coordinator.cold.partition.snapshot.interval.ms  int  = 300000  >=1  low  internal
    How often a snapshot of an idle partition is taken.
share.coordinator.state.topic.num.partitions  int  = 50  >=1  high
    Number of partitions of `__share_group_state`.
share.coordinator.state.topic.segment.bytes  int  = 104857600  >=1  high
    Segment size of `__share_group_state`.
share.coordinator.state.topic.compression.codec  int  = 0  high
    Codec of batches in `__share_group_state`.
share.coordinator.state.topic.prune.interval.ms  int  = 300000  >=1  low  internal
    How often unnecessary records are deleted from `__share_group_state`.
share.coordinator.state.topic.replication.factor  short  = 3  >=1  high
    Replication factor of `__share_group_state`.
share.coordinator.state.topic.min.isr  short  = 2  >=1  high
    Minimum number of in-sync replicas of `__share_group_state`.

[honoured]
group.streams.session.timeout.ms  int  = 45000  >=1  medium
    A member of a streams group is removed after this long without a heartbeat.
group.streams.min.session.timeout.ms  int  = 45000  >=1  medium
    Minimum value of `group.streams.session.timeout.ms`.
group.streams.max.session.timeout.ms  int  = 60000  >=1  medium
    Maximum value of `group.streams.session.timeout.ms`.
group.streams.heartbeat.interval.ms  int  = 5000  >=1  medium
    How often members of streams groups send heartbeats.
group.streams.min.heartbeat.interval.ms  int  = 5000  >=1  medium
    Minimum value of `group.streams.heartbeat.interval.ms`.
group.streams.max.heartbeat.interval.ms  int  = 15000  >=1  medium
    Maximum value of `group.streams.heartbeat.interval.ms`.
group.streams.max.size  int  = 2147483647  >=1  medium
    Maximum number of members of a streams group.
group.streams.num.standby.replicas  int  = 0  >=0  medium
    Number of standby copies of each task's state.
group.streams.max.standby.replicas  int  = 2  >=0  medium
    Maximum value of `group.streams.num.standby.replicas`.
group.streams.initial.rebalance.delay.ms  int  = 3000  >=0  medium
    Time to wait for more members before the first assignment.
group.streams.assignment.interval.ms  int  = 1000  >=0  medium  cluster-wide
    Minimum time between two assignments of a streams group.
group.streams.min.assignment.interval.ms  int  = 0  >=0  medium
    Minimum value of `group.streams.assignment.interval.ms`.
group.streams.max.assignment.interval.ms  int  = 15000  >=0  medium
    Maximum value of `group.streams.assignment.interval.ms`.

[accepted: there is only one assignor]
group.streams.assignors  list  = sticky  distinct  non-empty  medium
    The assignors of Streams groups. The first is the default.

[honoured]
group.streams.rack.aware.assignment.tags  list  = ""  distinct  low
    Tags that members should have. The assignor `sticky` does not use them.

[accepted: no assignor assigns warm-up tasks, also not Apache Kafka's]
group.streams.num.warmup.replicas  int  = 2  >=0  medium  internal
    Number of warm-up tasks of a Streams group.
group.streams.max.warmup.replicas  int  = 20  >=0  medium  internal
    Maximum value of `group.streams.num.warmup.replicas`.

[honoured]
group.streams.acceptable.recovery.lag  long  = 10000  >=0  medium  internal
    Number of records that a task may lack to count as warm.
group.streams.task.offset.interval.ms  int  = 60000  >=1  medium  internal
    How often members report the offsets of their tasks.
group.streams.min.task.offset.interval.ms  int  = 15000  >=1  medium  internal
    Minimum value of `group.streams.task.offset.interval.ms`.

[honoured]
group.streams.topology.description.plugin.class  class  {org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin}  medium
    `org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin`: the coordinators keep descriptions of the topologies of Streams groups, in `__consumer_offsets`. Without it there are none. No other class is supported.
"""
