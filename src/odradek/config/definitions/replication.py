"""Replicas, their leaders, and replication by followers."""

SETTINGS = """
[honoured]
replica.high.watermark.checkpoint.interval.ms  long  = 5000  high
    How often the high watermarks are written to disk.
unclean.leader.election.enable  boolean  = false  high  cluster-wide
    Allow a replica that may lack records to become leader if there is no other candidate.
replica.lag.time.max.ms  long  = 30000  high
    A follower that lags for longer than this is removed from the in-sync replicas.
replica.socket.timeout.ms  int  = 30000  high
    Timeout of a fetch from a leader.
replica.fetch.max.bytes  int  = 1048576  >=0  medium
    Maximum number of bytes per partition that a follower requests.
replica.fetch.wait.max.ms  int  = 500  high
    How long a leader may wait for bytes before it responds to a follower.
replica.fetch.min.bytes  int  = 1  high
    Number of bytes that a leader waits for before it responds to a follower.
replica.fetch.response.max.bytes  int  = 10485760  >=0  medium
    Maximum number of bytes that a follower requests in a fetch.
replica.fetch.backoff.ms  int  = 1000  >=0  medium
    Pause of a follower after an error.
auto.leader.rebalance.enable  boolean  = true  high
    Make the preferred replicas leaders again automatically.
leader.imbalance.check.interval.seconds  long  = 300  >=1  high
    How often leaders that are not preferred replicas are looked for.
unclean.leader.election.interval.ms  long  = 300000  >=1  medium  internal
    How often partitions without leader are checked for an unclean election.
replica.selector.class  string  medium
    `org.apache.kafka.common.replica.RackAwareReplicaSelector`: a consumer reads from a replica in its rack (`client.rack`). Without it, consumers read from the leader. No other class is supported.

[accepted: there is one fetcher for each leader, with the system's buffers]
replica.socket.receive.buffer.bytes  int  = 65536  high
    Receive buffer of the sockets to leaders.
num.replica.fetchers  int  = 1  >=1  high  cluster-wide
    Number of fetchers for each leader that this node follows.
"""
