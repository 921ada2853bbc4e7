"""Tiered storage (KIP-405)."""

SETTINGS = """
[refused: segments would never be copied to remote storage; set it to false]
remote.log.storage.system.enable  boolean  = false  medium
    Allow topics to keep old segments in remote storage.

[unsupported: there is no tiered storage yet]
remote.log.storage.manager.class.name  string  non-empty  medium
    Java class that stores segments in remote storage.
remote.log.storage.manager.class.path  string  medium
    Class path of the storage manager.
remote.log.storage.manager.impl.prefix  string  = rsm.config.  non-empty  medium
    Prefix of the settings that are passed to the storage manager.
remote.log.metadata.manager.class.name  string  = org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager  non-empty  medium
    Java class that stores the list of remote segments.
remote.log.metadata.manager.class.path  string  medium
    Class path of the metadata manager.
remote.log.metadata.manager.impl.prefix  string  = rlmm.config.  non-empty  medium
    Prefix of the settings that are passed to the metadata manager.
remote.log.metadata.manager.listener.name  string  non-empty  medium
    Listener for connections of the metadata manager to the brokers.
remote.log.metadata.custom.metadata.max.bytes  int  = 128  >=0  low
    Maximum size of custom metadata of a remote segment.
remote.log.index.file.cache.total.size.bytes  long  = 1073741824  >=1  low  cluster-wide
    Maximum disk space for indexes of remote segments.
remote.log.index.file.cache.ttl.ms  long  = 900000  >=-1  low  internal
    How long an unused index of a remote segment is kept. -1 means no limit.
remote.log.manager.thread.pool.size  int  = 2  >=1  medium
    Number of threads of the manager of remote segments.
remote.log.manager.copier.thread.pool.size  int  = 10  >=1  medium  cluster-wide
    Number of threads that copy segments.
remote.log.manager.expiration.thread.pool.size  int  = 10  >=1  medium  cluster-wide
    Number of threads that delete expired segments.
remote.log.manager.follower.thread.pool.size  int  = 2  >=1  medium  cluster-wide
    Number of threads that process remote segments of followers.
remote.log.manager.task.interval.ms  long  = 30000  >=1  low
    How often the manager of remote segments runs its tasks.
remote.log.manager.task.retry.backoff.ms  long  = 500  >=1  low  internal
    First pause after a failed task.
remote.log.manager.task.retry.backoff.max.ms  long  = 30000  >=1  low  internal
    Maximum pause after a failed task.
remote.log.manager.task.retry.jitter  double  = 0.2  0..0.5  low  internal
    Random fraction of the pause after a failed task.
remote.log.reader.threads  int  = 10  >=1  medium  cluster-wide
    Number of threads that read remote segments.
remote.log.reader.max.pending.tasks  int  = 100  >=1  medium
    Maximum number of waiting reads of remote segments.
remote.log.manager.copy.max.bytes.per.second  long  = 9223372036854775807  >=1  medium  cluster-wide
    Maximum number of bytes that are copied per second.
remote.log.manager.copy.quota.window.num  int  = 11  >=1  medium
    Number of windows from which rates of copies are computed.
remote.log.manager.copy.quota.window.size.seconds  int  = 1  >=1  medium
    Length of a window that measures copies.
remote.log.manager.fetch.max.bytes.per.second  long  = 9223372036854775807  >=1  medium  cluster-wide
    Maximum number of bytes that are read from remote storage per second.
remote.log.manager.fetch.quota.window.num  int  = 11  >=1  medium
    Number of windows from which rates of remote reads are computed.
remote.log.manager.fetch.quota.window.size.seconds  int  = 1  >=1  medium
    Length of a window that measures remote reads.
remote.fetch.max.wait.ms  int  = 500  >=1  medium  cluster-wide
    How long a fetch may wait for remote storage.
remote.list.offsets.request.timeout.ms  long  = 30000  >=1  medium  cluster-wide
    How long a lookup of offsets may wait for remote storage.
log.local.retention.ms  long  = -2  >=-2  medium  cluster-wide
    Age at which a copied segment is deleted from the local disk. -2 means the value of `log.retention.ms`.
log.local.retention.bytes  long  = -2  >=-2  medium  cluster-wide
    Maximum local size of a partition with remote copies. -2 means the value of `log.retention.bytes`.
log.remote.copy.lag.ms  long  = 0  >=-1  medium  cluster-wide
    Age at which a segment may be copied to remote storage. -1 means the local retention.
log.remote.copy.lag.bytes  long  = -1  >=-1  medium  cluster-wide
    Size of the newer segments from which on a segment may be copied to remote storage.
follower.fetch.last.tiered.offset.enable  boolean  = false  medium  cluster-wide
    Let a new follower start at the end of the remote segments.
"""
