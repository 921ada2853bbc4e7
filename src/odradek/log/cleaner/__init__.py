"""Log compaction. It keeps only the last record of each key.

Compaction keeps the same records as Apache Kafka's cleaner. The work is CPU-intensive, and the
segments that are compacted do not change. Therefore a separate process does the work (`worker`).
The node starts the process when there is work, communicates with it over pipes, and ends it when
there is no work.

These modules run in the node, on the event loop's thread:

- `log_cleaner` examines the logs, sends work items, and processes results.
- `facts` and `planning` decide whether and up to which offset a log is cleaned.
- `schedule` decides which log is cleaned next.
- `child` communicates with the process.

These modules run in the worker:

- `round` does one round of cleaning over one log.
- `offset_map` has the interface of the offset map. `offset_table` implements it for the compiled
  package, and `dict_offset_map` for the interpreted package.
- `batch_filter` and `transactions` have the rules that decide what is kept.
- `grouping` groups segments. `source` and `target` read and write files.

`work` has the messages between the node and the worker.

The worker writes `.cleaned` files and flushes them. The node renames them to `.swap` and then to
their final names. `LogSegments.replace` describes the state after a crash.
"""
