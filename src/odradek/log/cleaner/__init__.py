"""Log compaction: of each key only the last record is kept.

It follows Apache Kafka's cleaner record for record. What differs is where the work is done: it
is much computing over files that do not change, so a process of its own does it (`worker`),
which the node starts when there is work, talks to by pipes, and ends when there is none.

In the node, on the loop's thread:

- `log_cleaner`: looks at the logs, gives work, takes results. Uses `facts`, `planning` (which
  part of a log, and whether), `schedule` (which log next), `child` (the pipe).

In the worker:

- `round`: one round over one log. Uses `offset_map` and `walk` (keys), `batch_filter` and
  `transactions` (the rules), `grouping`, `source` and `target` (files).

Both: `work`, what they tell one another.

Files: the worker writes `.cleaned` files and syncs them; the node renames them to `.swap` and
then into their place. See `LogSegments.replace` for what a crash leaves.
"""
