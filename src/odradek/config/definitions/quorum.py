"""The controller quorum, the metadata log, and the registration of brokers."""

SETTINGS = """
[honoured]
controller.quorum.voters  list  = ""  voters  high
    The voters of a fixed quorum: id@host:port, ...
controller.quorum.bootstrap.servers  list  = ""  endpoints  high
    Addresses of controllers for the first requests to a dynamic quorum: host:port, ...
metadata.log.dir  string  high
    Directory of the metadata log. If it is not set, the first data directory is used.
metadata.log.segment.bytes  int  = 1073741824  >=8388608  high
    Size at which a new segment of the metadata log is rolled.
metadata.log.segment.ms  long  = 604800000  high
    Age at which a new segment of the metadata log is rolled.
metadata.log.max.record.bytes.between.snapshots  long  = 20971520  >=1  high
    A snapshot is taken after this many new bytes of metadata.
metadata.log.max.snapshot.interval.ms  long  = 3600000  >=0  high
    Maximum age of the newest snapshot, if there is new metadata. 0 means no maximum.
metadata.max.retention.bytes  long  = 104857600  high
    Total size of metadata log and snapshots above which the oldest are deleted.
metadata.max.retention.ms  long  = 604800000  high
    Age at which segments of the metadata log and snapshots are deleted.
broker.heartbeat.interval.ms  int  = 2000  medium
    How often a broker sends a heartbeat to the controller.
broker.session.timeout.ms  int  = 9000  medium
    A broker is fenced after this long without a heartbeat.
controller.quorum.election.timeout.ms  int  = 1000  >=0  high
    Time without a response from the leader before an election starts.
controller.quorum.election.backoff.max.ms  int  = 1000  >=0  high
    Maximum pause after an election without a winner.
controller.quorum.fetch.timeout.ms  int  = 2000  >=0  high
    Time without a successful fetch from the leader before an election starts.
controller.quorum.request.timeout.ms  int  = 2000  >=0  medium
    How long a request within the quorum may take.
controller.quorum.retry.backoff.ms  int  = 20  >=0  low
    Pause before a request within the quorum is sent again.

[accepted: 1 MiB is fetched at a time]
controller.quorum.fetch.max.bytes  int  = 1048576  >=1  low
    Maximum number of bytes in the response to a fetch within the quorum.
controller.quorum.fetch.snapshot.max.bytes  int  = 1048576  >=1  low
    Maximum number of bytes of a snapshot in one response.

[honoured]
controller.quorum.auto.join.enable  boolean  = false  low
    Whether a controller that is not a voter becomes a voter automatically.
metadata.max.idle.interval.ms  int  = 500  >=0  low
    How often an idle controller writes a no-op record, in a quorum of several voters. 0 means never.
controlled.shutdown.enable  boolean  = true  medium
    Move leadership away before a broker stops.
initial.broker.registration.timeout.ms  int  = 60000  medium
    How long the first registration with the controller may take.

[accepted: metadata records are written in batches as they come, without waiting]
controller.quorum.append.linger.ms  int  = 25  >=0  medium
    How long records wait for other records before they are written.
internal.metadata.log.segment.bytes  int  low  internal
    Size of a metadata segment, for tests.
internal.metadata.max.batch.size.in.bytes  int  = 8388608  low  internal
    Maximum size of a batch of metadata records, for tests.
internal.metadata.delete.delay.millis  long  = 60000  low  internal
    Time before an old metadata file is removed, for tests.

[accepted: a separate metric measures the pauses of the event loop]
controller.performance.sample.period.ms  long  = 60000  >=100  medium  internal
    How often the controller's slowest events are reported.
controller.performance.always.log.threshold.ms  long  = 2000  >=0  medium  internal
    Controller events slower than this are always reported.
"""
