"""Log compaction: only the last record of each key is kept.

It keeps the same records as Apache Kafka's cleaner. The work is CPU-intensive and its files do not
change, so a separate process does it (`worker`). The node starts the process when there is work,
communicates with it over pipes, and ends it when there is none.

In the node, on the loop's thread:

- `log_cleaner`: examines the logs, sends work items, processes results. Uses `facts`, `planning`
  (which part of a log, and whether), `schedule` (which log next), `child` (the pipe).

In the worker:

- `round`: one round over one log. Uses `offset_map` (`offset_table` if compiled, otherwise
  `dict_offset_map`), `batch_filter` and `transactions` (the rules), `grouping`, `source` and
  `target` (files).

Used by both: `work`, the messages between them.

Files: the worker writes `.cleaned` files and syncs them; the node renames them to `.swap` and then
into their place. See `LogSegments.replace` for the state after a crash.
"""
