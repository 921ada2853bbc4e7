"""Partition logs of this node: the defaults of topic settings, and background tasks."""

SETTINGS = """
[honoured]
log.segment.bytes  int  = 1073741824  >=1048576  high  cluster-wide
    Size at which a new segment is rolled.
log.roll.ms  long  high  cluster-wide
    Age at which a new segment is rolled. It overrides `log.roll.hours`.
log.roll.hours  int  = 168  >=1  high
    Age at which a new segment is rolled, in hours. `log.roll.ms` overrides it.
log.roll.jitter.ms  long  high  cluster-wide
    Maximum random time subtracted from the age, so that segments are not rolled at the same time.
log.roll.jitter.hours  int  = 0  >=0  high
    The same as `log.roll.jitter.ms`, in hours. `log.roll.jitter.ms` overrides it.
log.retention.bytes  long  = -1  high  cluster-wide
    Size of a partition above which its oldest segments are deleted. -1 means no limit.
log.retention.ms  long  high  cluster-wide
    Age at which segments are deleted. -1 means never.
log.retention.minutes  int  high
    Age at which segments are deleted, in minutes. `log.retention.ms` overrides it.
log.retention.hours  int  = 168  high
    Age at which segments are deleted, in hours. -1 means never. `log.retention.ms` and `log.retention.minutes` override it.
log.retention.check.interval.ms  long  = 300000  >=1  medium
    How often segments are checked for deletion.
log.cleanup.policy  list  = delete  {compact,delete}  medium  cluster-wide
    What happens to old segments: delete, compact, both, or nothing.
log.index.size.max.bytes  int  = 10485760  >=4  medium  cluster-wide
    Maximum size of an offset or time index file.
log.index.interval.bytes  int  = 4096  >=0  medium  cluster-wide
    Size of the records between two entries of an index, in bytes.
log.segment.delete.delay.ms  long  = 60000  >=0  high  cluster-wide
    Time before the files of a deleted segment are removed.
log.preallocate  boolean  = false  medium  cluster-wide
    Reserve the disk space of a whole segment when it is created.
log.message.timestamp.type  string  = CreateTime  {CreateTime,LogAppendTime}  medium  cluster-wide
    The timestamp of records is their creation time, or the time of the append.
log.message.timestamp.before.max.ms  long  = 9223372036854775807  >=0  medium  cluster-wide
    How far in the past a record's timestamp may be.
log.message.timestamp.after.max.ms  long  = 3600000  >=0  medium  cluster-wide
    How far in the future a record's timestamp may be.
log.flush.interval.messages  long  = 9223372036854775807  >=1  high  cluster-wide
    Number of records in a partition after which the partition is flushed to disk.
log.flush.interval.ms  long  high  cluster-wide
    Maximum time before a record is flushed to disk. If it is not set, `log.flush.scheduler.interval.ms` applies.
log.flush.scheduler.interval.ms  long  = 9223372036854775807  high
    How often partitions are checked for flushing.
log.flush.offset.checkpoint.interval.ms  int  = 60000  >=0  high
    How often the recovery points are written.
log.flush.start.offset.checkpoint.interval.ms  int  = 60000  >=0  high
    How often the start offsets are written.
num.recovery.threads.per.data.dir  int  = 2  >=1  high  cluster-wide
    Number of threads that load a data directory at the start and flush it at the end.
log.dir.failure.timeout.ms  long  = 30000  >=1  low
    How long a broker may fail to report a failed log directory to the controller before it stops.
log.initial.task.delay.ms  long  = 30000  >=0  low  internal
    Time after the start before background tasks of logs begin.
compression.type  string  = producer  {uncompressed,zstd,lz4,snappy,gzip,producer}  high  cluster-wide
    Codec of stored batches. `producer` keeps the codec of the producer.
compression.gzip.level  int  = -1  1..9|-1  medium  cluster-wide
    Compression level of gzip. -1 means the default of the library.
compression.lz4.level  int  = 9  1..17  medium  cluster-wide
    Compression level of lz4.
compression.zstd.level  int  = 3  -131072..22  medium  cluster-wide
    Compression level of zstd.
min.insync.replicas  int  = 1  >=1  high  cluster-wide
    Minimum number of in-sync replicas for a write with acks=all.
producer.id.expiration.ms  int  = 86400000  >=1  low  cluster-wide
    The state of an idle producer in a partition expires after this time.
producer.id.expiration.check.interval.ms  int  = 600000  >=1  low  internal
    How often expired producer state is removed.
log.cleaner.enable  boolean  = true  medium
    Compact topics whose cleanup policy includes compact.
log.cleaner.threads  int  = 1  >=0  medium  cluster-wide
    Number of compaction workers.
log.cleaner.io.max.bytes.per.second  double  = 1.7976931348623157E308  medium  cluster-wide
    Maximum number of bytes that compaction reads and writes per second.
log.cleaner.dedupe.buffer.size  long  = 134217728  medium  cluster-wide
    Memory for the key tables of all compaction workers together, in bytes.
log.cleaner.io.buffer.size  int  = 524288  >=0  medium  cluster-wide
    Memory for the read and write buffers of all compaction workers together, in bytes.
log.cleaner.io.buffer.load.factor  double  = 0.9  medium  cluster-wide
    Maximum fraction of a key table that may be filled.
log.cleaner.backoff.ms  long  = 15000  >=0  medium  cluster-wide
    Pause of a compaction worker when there is nothing to compact.
log.cleaner.min.cleanable.ratio  double  = 0.5  0..1  medium  cluster-wide
    Minimum ratio of uncompacted bytes to all bytes of a partition at which the partition is compacted.
log.cleaner.delete.retention.ms  long  = 86400000  >=0  medium  cluster-wide
    How long a tombstone is kept after compaction.
log.cleaner.min.compaction.lag.ms  long  = 0  >=0  medium  cluster-wide
    Records younger than this are not compacted.
log.cleaner.max.compaction.lag.ms  long  = 9223372036854775807  >=1  medium  cluster-wide
    Records older than this are compacted regardless of the ratio.

[unsupported: new partitions may be placed in every directory]
cordoned.log.dirs  list  = ""  distinct  medium  per-broker
    Directories that get no new partitions. `*` means all directories.

[accepted: the moves of a broker take turns]
num.replica.alter.log.dirs.threads  int  high
    Threads that move replicas between directories.
"""
