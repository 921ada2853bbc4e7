"""Share partitions: the records that the members of a share group consume together (KIP-932).

A share partition is one partition of a topic together with one share group. The broker that leads
the partition has its state. A member acquires records for a limited time (the lock), and
acknowledges them: it accepts, releases or rejects them, or renews its lock (KIP-1222). Each record
is delivered a limited number of times.

                  acquire                  accept
    AVAILABLE ──────────────> ACQUIRED ──────────────> ACKNOWLEDGED
        ^                        │ │
        └──────── release ───────┘ └── reject, or too many deliveries ──> ARCHIVED
                  or timeout                        (first ARCHIVING, if there is a dead letter queue)

- `partition` has `SharePartition`, the state machine of one share partition.
- `window` has the records between the start offset and the end offset. `acquisition` acquires
  records in the window, `acknowledgement` ends their acquisition.
- `in_flight` has the state of a batch, or of its single offsets. `batches` orders the batches.
- `locks` has the acquisition locks and the times at which they expire.
- `schedule` decides by the times of records when they are delivered: after a delay or a back-off,
  and not after their time to live. `deferred` has the records that wait, `due_times` when they are
  due, `offset_set` their offsets. `passed` keeps the stored state of the others small.
- `dead_letters` has the records that are written to the dead letter queue (KIP-1191).
- `census` counts the records in flight, for metrics.
- `session` has the share sessions, which tell the broker the partitions that a member fetches.

The model is `SharePartition` of Apache Kafka 4.3, whose decisions these classes reproduce. Records
are not stored here: a batch is a range of offsets. Kafka has nothing like `schedule`. Without its
settings nothing is deferred.
"""
