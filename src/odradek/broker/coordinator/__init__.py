"""The runtime of the group and transaction coordinators: it performs what their machines decide.

For each partition of a coordinator's topic that this broker leads there is a `Shard` (`shard`)
with the machine of that partition. `CoordinatorRuntime` (`runtime`) loads a shard when this broker
becomes the partition's leader and unloads it when it no longer is, by leader epoch.

    operation ──> machine ──> records ──> replay ──> batch ──> append ──> commit ──> response
                     ^                                  │ fails
                     └──────── journal rolls back <─────┘

An operation of a machine returns records and a response. The records are replayed immediately, so
that the next operation sees them, and added to a batch (`accumulator`) that is appended at the end
of the event loop's turn. The response is sent when the records are committed (`deferred`). So many
operations share one append, and no response contains state that may still be lost.

`timer_runner`, `task_runner` and `answer_sender` run a machine's timers, its tasks in threads, and
send delayed responses. `loading` replays a log; until it has finished, requests get
COORDINATOR_LOAD_IN_PROGRESS. `replicas` gives access to the partitions. `group_coordinator` and
`transaction_coordinator` pass the requests of handlers to the right shard; `producer_ids` allocates
producer ids.

The model is Apache Kafka's `CoordinatorRuntime`. Differences: docs/decisions/coordinator-*.
"""
