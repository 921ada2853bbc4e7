"""The runtime of the group and transaction coordinators: it performs what their machines decide.

For each partition of a coordinator's topic that this broker leads there is a `Shard` (`shard`)
with the machine of that partition. `CoordinatorRuntime` (`runtime`) loads a shard when this broker
becomes the partition's leader and unloads it when it no longer is, by leader epoch.

    operation ──> machine ──> records ──> replay ──> batch ──> append ──> commit ──> response
                     ^                                  │ fails
                     └──────── journal rolls back <─────┘

An operation of a machine returns records and a response. The records are replayed at once, so
that the next operation sees them, and added to a batch (`accumulator`) that is appended at the end
of the turn of the event loop. The response is sent when the records are committed (`deferred`).
So many operations share one append, and no client is told what may still be lost.

`timer_runner`, `task_runner` and `answer_sender` perform what a machine does later, in threads, or
for requests that it has kept waiting. `loading` replays a log; until it has, requests are refused
with COORDINATOR_LOAD_IN_PROGRESS. `replicas` gives access to the partitions. `group_coordinator`
and `transaction_coordinator` take the requests of handlers to the right shard; `producer_ids`
allocates producer ids.

The model is Apache Kafka's `CoordinatorRuntime`. Differences: docs/decisions/coordinator-*.
"""
