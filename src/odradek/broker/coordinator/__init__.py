"""The runtime of the group, transaction and share coordinators.

The state machines in `odradek.core` decide. The runtime writes their records, waits for commits and
timers, and sends their responses.

A coordinator has a topic. For each partition of the topic that this broker leads there is a `Shard`
(`shard`) with one state machine. `CoordinatorRuntime` (`runtime`) loads a shard when this broker
becomes the leader of the partition, and unloads the shard when another broker becomes the leader.

    operation ──> state machine ──> records ──> replay ──> batch ──> append ──> commit ──> response
                        ^                                     │ fails
                        └───────── journal rolls back <───────┘

An operation of a state machine returns records and a response. The records are replayed
immediately, so that the next operation uses the new state. The records are also added to a batch
(`accumulator`). The records of the first operation of a millisecond are appended immediately. The
records of other operations are usually appended at the end of the current iteration of the event
loop, all with one append. The response is sent when the records are committed (`deferred`).
Therefore no response contains state that may still be lost.

- `timer_runner` runs the timers of a state machine, and `task_runner` runs its tasks in threads.
- `answer_sender` sends delayed responses.
- `loading` replays a log. Until it has finished, requests get COORDINATOR_LOAD_IN_PROGRESS.
- `replicas` gives access to the partitions of the topic.
- `group_coordinator`, `transaction_coordinator` and `share_coordinator` pass requests of handlers
  to the right shard.
- `share_groups` performs the operations of share groups that need the share coordinator, and
  `share_persister` sends requests to share coordinators on other brokers.
- `markers` writes transaction markers, and `marker_sender` sends them to other brokers.
- `verification` checks that a partition belongs to a transaction, and `membership` asks
  coordinators on other brokers.
- `producer_ids` allocates producer ids.

The model is Apache Kafka's `CoordinatorRuntime`. Differences: docs/decisions/coordinator-*.
"""
