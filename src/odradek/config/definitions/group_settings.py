"""Settings of a group, which override the broker's settings."""

SETTINGS = """
[honoured]
consumer.session.timeout.ms  int  = 45000  >=1  medium  from group.consumer.session.timeout.ms
    A member is removed after this long without a heartbeat.
consumer.heartbeat.interval.ms  int  = 5000  >=1  medium  from group.consumer.heartbeat.interval.ms
    How often members send heartbeats.
consumer.assignment.interval.ms  int  = 1000  >=0  medium  from group.consumer.assignment.interval.ms
    Minimum time between two assignments.

[honoured]
share.session.timeout.ms  int  = 45000  >=1  medium  from group.share.session.timeout.ms
    A member is removed after this long without a heartbeat.
share.heartbeat.interval.ms  int  = 5000  >=1  medium  from group.share.heartbeat.interval.ms
    How often members send heartbeats.
share.record.lock.duration.ms  int  = 30000  >=1000  medium  from group.share.record.lock.duration.ms
    How long a member's lock on a record lasts.
share.delivery.count.limit  int  = 5  >=2  medium  from group.share.delivery.count.limit
    Maximum number of deliveries of a record.
share.partition.max.record.locks  int  = 2000  >=100  medium  from group.share.partition.max.record.locks
    Maximum number of locked records of a partition.
share.auto.offset.reset  string  = latest  offset-reset  medium
    Where a new group begins: latest, earliest, or by_duration:<ISO 8601 duration>.
share.isolation.level  string  = read_uncommitted  {read_committed,read_uncommitted}  medium
    Whether records of open or aborted transactions are offered.
share.renew.acknowledge.enable  boolean  = true  medium
    Allow members to renew the lock on a record.
errors.deadletterqueue.topic.name  string  = ""  medium
    The topic to which records are written that were rejected or delivered too often (KIP-1191). Empty means none.
errors.deadletterqueue.copy.record.enable  boolean  = false  medium
    Whether dead letters have the key, the value and the headers of the original record.
odradek.share.delay.enable  boolean  = false  medium
    Whether records with the header `odradek.deliver.at` are delivered at that time. Only in Odradek.
odradek.share.backoff.ms  int  = 0  >=0  medium
    How long a record waits after its first delivery. Doubled after each further delivery. Only in Odradek.
odradek.share.backoff.max.ms  int  = 60000  >=0  medium
    Maximum time that a record waits between two deliveries. Only in Odradek.
odradek.share.record.ttl.ms  long  = -1  >=-1  medium
    A record is given up if it was not delivered within this time. -1 means no limit. Only in Odradek.
odradek.share.priority  list  = ""  priorities  medium
    Priorities of topics, as topic:number. Records of topics with a higher number are delivered first. The priority of other topics is 0. Only in Odradek.
share.assignment.interval.ms  int  = 1000  >=0  medium  from group.share.assignment.interval.ms
    Minimum time between two assignments.

[honoured]
streams.session.timeout.ms  int  = 45000  >=1  medium  from group.streams.session.timeout.ms
    A member is removed after this long without a heartbeat.
streams.heartbeat.interval.ms  int  = 5000  >=1  medium  from group.streams.heartbeat.interval.ms
    How often members send heartbeats.
streams.num.standby.replicas  int  = 0  >=0  medium  from group.streams.num.standby.replicas
    Number of standby copies of each task's state.
streams.initial.rebalance.delay.ms  int  = 3000  >=0  medium  from group.streams.initial.rebalance.delay.ms
    Time to wait for more members before the first assignment.
streams.assignment.interval.ms  int  = 1000  >=0  medium  from group.streams.assignment.interval.ms
    Minimum time between two assignments.

[accepted: there is only one assignor, and no assignor assigns warm-up tasks]
consumer.assignor.offload.enable  boolean  = true  medium  internal  from group.consumer.assignor.offload.enable
    Whether targets may be computed by another thread.
share.assignor.offload.enable  boolean  = true  medium  internal  from group.share.assignor.offload.enable
    Whether targets may be computed by another thread.
streams.assignor.offload.enable  boolean  = true  medium  internal  from group.streams.assignor.offload.enable
    Whether targets may be computed by another thread.
streams.assignor.name  string  medium
    The assignor of the group. An unknown name means the default.

[honoured]
streams.rack.aware.assignment.tags  list  = ""  distinct  low  from group.streams.rack.aware.assignment.tags
    Tags that members should have. The assignor does not use them.

[accepted: there is only one assignor, and no assignor assigns warm-up tasks]
streams.num.warmup.replicas  int  = 2  >=0  medium  internal  from group.streams.num.warmup.replicas
    Number of warm-up tasks.

[honoured]
streams.acceptable.recovery.lag  long  = 10000  >=0  medium  internal  from group.streams.acceptable.recovery.lag
    Number of records that a task may lack to count as warm.
streams.task.offset.interval.ms  int  = 60000  >=1  medium  internal  from group.streams.task.offset.interval.ms
    How often members report the offsets of their tasks.
"""
