"""Quotas."""

SETTINGS = """
[refused: the quotas that the class computes would not be enforced]
client.quota.callback.class  class  low
    Java class that computes the quotas of clients.

[honoured]
quota.window.num  int  = 11  >=1  low
    Number of windows from which clients' rates are computed.
quota.window.size.seconds  int  = 1  >=1  low
    Length of a window that measures clients' rates.
controller.quota.window.num  int  = 11  >=1  low
    Number of windows from which rates of metadata changes are computed.
controller.quota.window.size.seconds  int  = 1  >=1  low
    Length of a window that measures changes of metadata.
alter.log.dirs.replication.quota.window.num  int  = 11  >=1  low
    Number of windows from which rates of moves between directories are computed.
alter.log.dirs.replication.quota.window.size.seconds  int  = 1  >=1  low
    Length of a window that measures moves between directories.
replication.quota.window.num  int  = 11  >=1  low
    Number of windows from which rates of replication are computed.
replication.quota.window.size.seconds  int  = 1  >=1  low
    Length of a window that measures replication.
leader.replication.throttled.rate  long  = 9223372036854775807  >=0  medium  cluster-wide
    Maximum number of bytes per second that a leader sends to throttled replicas.
follower.replication.throttled.rate  long  = 9223372036854775807  >=0  medium  cluster-wide
    Maximum number of bytes per second that a follower fetches for throttled replicas.
replica.alter.log.dirs.io.max.bytes.per.second  long  = 9223372036854775807  >=0  medium  cluster-wide
    Maximum number of bytes per second for moves between directories.
"""
