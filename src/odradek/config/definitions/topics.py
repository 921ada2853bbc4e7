"""Settings of a topic, which override the broker's settings."""

SETTINGS = """
[honoured]
cleanup.policy  list  = delete  {compact,delete}  medium  from log.cleanup.policy
    What happens to old segments: delete, compact, both, or nothing.
compression.type  string  = producer  {uncompressed,zstd,lz4,snappy,gzip,producer}  medium  from compression.type
    Codec of stored batches. `producer` keeps the codec of the producer.
compression.gzip.level  int  = -1  1..9|-1  medium  from compression.gzip.level
    Compression level of gzip. -1 means the default of the library.
compression.lz4.level  int  = 9  1..17  medium  from compression.lz4.level
    Compression level of lz4.
compression.zstd.level  int  = 3  -131072..22  medium  from compression.zstd.level
    Compression level of zstd.
delete.retention.ms  long  = 86400000  >=0  medium  from log.cleaner.delete.retention.ms
    How long a tombstone is kept after compaction.
file.delete.delay.ms  long  = 60000  >=0  medium  from log.segment.delete.delay.ms
    Time before the files of a deleted segment are removed.
flush.messages  long  = 9223372036854775807  >=1  medium  from log.flush.interval.messages
    Number of records after which the partition is flushed to disk.
flush.ms  long  = 9223372036854775807  >=0  medium  from log.flush.interval.ms log.flush.scheduler.interval.ms
    Maximum time before a record is flushed to disk.
index.interval.bytes  int  = 4096  >=0  medium  from log.index.interval.bytes
    Size of the records between two entries of an index, in bytes.
max.compaction.lag.ms  long  = 9223372036854775807  >=1  medium  from log.cleaner.max.compaction.lag.ms
    Records older than this are compacted regardless of the ratio.
max.decompressed.message.bytes  int  = 2147483639  1..2147483639  medium  from max.decompressed.message.bytes
    Maximum size of a record of a compressed batch, after decompression. A larger record is refused (INVALID_RECORD).
max.message.bytes  int  = 1048588  >=0  medium  from message.max.bytes
    Maximum size of a record batch, after compression by the broker.
message.timestamp.type  string  = CreateTime  {CreateTime,LogAppendTime}  medium  from log.message.timestamp.type
    The timestamp of records is their creation time, or the time of the append.
message.timestamp.before.max.ms  long  = 9223372036854775807  >=0  medium  from log.message.timestamp.before.max.ms
    How far in the past a record's timestamp may be.
message.timestamp.after.max.ms  long  = 3600000  >=0  medium  from log.message.timestamp.after.max.ms
    How far in the future a record's timestamp may be.
min.cleanable.dirty.ratio  double  = 0.5  0..1  medium  from log.cleaner.min.cleanable.ratio
    Minimum ratio of uncompacted bytes to all bytes of a partition at which the partition is compacted.
min.compaction.lag.ms  long  = 0  >=0  medium  from log.cleaner.min.compaction.lag.ms
    Records younger than this are not compacted.
min.insync.replicas  int  = 1  >=1  medium  from min.insync.replicas
    Minimum number of in-sync replicas for a write with acks=all.
preallocate  boolean  = false  medium  from log.preallocate
    Reserve the disk space of a whole segment when it is created.
retention.bytes  long  = -1  medium  from log.retention.bytes
    Size of a partition above which its oldest segments are deleted. -1 means no limit.
retention.ms  long  = 604800000  >=-1  medium  from log.retention.ms log.retention.minutes:minutes log.retention.hours:hours
    Age at which segments are deleted. -1 means never.
segment.bytes  int  = 1073741824  >=1048576  medium  from log.segment.bytes
    Size at which a new segment is rolled.
segment.index.bytes  int  = 10485760  >=4  medium  from log.index.size.max.bytes
    Maximum size of an offset or time index file.
segment.jitter.ms  long  = 0  >=0  medium  from log.roll.jitter.ms log.roll.jitter.hours:hours
    Maximum random time subtracted from `segment.ms`, so that segments are not rolled at the same time.
segment.ms  long  = 604800000  >=1  medium  from log.roll.ms log.roll.hours:hours
    Age at which a new segment is rolled.
unclean.leader.election.enable  boolean  = false  medium  from unclean.leader.election.enable
    Allow a replica that may lack records to become leader if there is no other candidate.
errors.deadletterqueue.group.enable  boolean  = false  medium
    Whether groups may use the topic as dead letter topic (KIP-1191).
internal.segment.bytes  int  medium  internal
    Size at which a new segment is rolled, without a minimum, for tests.
leader.replication.throttled.replicas  list  = ""  replicas  medium
    Replicas whose leaders are throttled: partition:broker, ..., or `*`.
follower.replication.throttled.replicas  list  = ""  replicas  medium
    Replicas whose followers are throttled: partition:broker, ..., or `*`.

[unsupported: there is no tiered storage yet; enabling it on a topic is refused]
remote.storage.enable  boolean  = false  medium
    Keep old segments in remote storage.
remote.log.copy.disable  boolean  = false  medium
    Stop copying to remote storage, but keep reading from it.
remote.log.delete.on.disable  boolean  = false  medium
    Delete the remote segments when remote storage is turned off.
local.retention.ms  long  = -2  >=-2  medium  from log.local.retention.ms
    Age at which a copied segment is deleted from the local disk. -2 means the value of `retention.ms`.
local.retention.bytes  long  = -2  >=-2  medium  from log.local.retention.bytes
    Maximum local size of a partition with remote copies. -2 means the value of `retention.bytes`.
remote.copy.lag.ms  long  = 0  >=-1  medium  from log.remote.copy.lag.ms
    Age at which a segment may be copied to remote storage. -1 means the local retention.
remote.copy.lag.bytes  long  = -1  >=-1  medium  from log.remote.copy.lag.bytes
    Size of the newer segments from which on a segment may be copied to remote storage.
"""
