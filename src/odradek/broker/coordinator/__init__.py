"""The runtime under the coordinators: it performs what their machines decide.

Per partition of a coordinator's topic that this broker leads there is a `Shard` (`shard`) with
the machine of that partition. A question is asked of the machine on the loop's thread
(`CoordinatorRuntime`, `runtime`). The records of its answer are replayed at once, so that the
next question sees them, and gathered in a batch, which is appended at the end of the turn of the
loop; the response goes out when the high watermark has passed them. So a burst of commits costs
one write, and nobody is told what could still be lost.

    question ──> machine ──> records ──> replay ──> batch ──> append ──> high watermark ──> answer
                    ^                                  │ fails
                    └──────── journal rolls back <─────┘

`loading` replays a log when a partition gets its leader here; until it is done, questions are
refused with COORDINATOR_LOAD_IN_PROGRESS. `replicas` reaches the partitions. `group_coordinator`
asks the group machines on behalf of handlers, `producer_ids` hands out producer ids.

Apache Kafka's `CoordinatorRuntime` is the model. Where we differ: docs/decisions/coordinator-*.
"""
