"""Quotas."""

SETTINGS = """
[refused: quotas that it sets would not be enforced]
client.quota.callback.class  class  low
    Java class that computes the quotas of clients.

[accepted: quotas are not enforced yet; their values are set apart from these windows]
quota.window.num  int  = 11  >=1  low
    Windows kept to measure clients' rates.
quota.window.size.seconds  int  = 1  >=1  low
    Length of a window that measures clients' rates.
controller.quota.window.num  int  = 11  >=1  low
    Windows kept to measure changes of metadata.
controller.quota.window.size.seconds  int  = 1  >=1  low
    Length of a window that measures changes of metadata.
replication.quota.window.num  int  = 11  >=1  low
    Windows kept to measure replication.
replication.quota.window.size.seconds  int  = 1  >=1  low
    Length of a window that measures replication.
alter.log.dirs.replication.quota.window.num  int  = 11  >=1  low
    Windows kept to measure moves between directories.
alter.log.dirs.replication.quota.window.size.seconds  int  = 1  >=1  low
    Length of a window that measures such moves.

[unsupported: replication is not throttled]
leader.replication.throttled.rate  long  = 9223372036854775807  >=0  medium  cluster-wide
    Bytes per second that a leader sends to throttled replicas.
follower.replication.throttled.rate  long  = 9223372036854775807  >=0  medium  cluster-wide
    Bytes per second that a follower fetches for throttled replicas.
replica.alter.log.dirs.io.max.bytes.per.second  long  = 9223372036854775807  >=0  medium  cluster-wide
    Bytes per second for moves between directories.
"""
