"""CPU time of compaction, compared with Apache Kafka's cleaner: `python -m bench.compaction`.

Both clean the same log, in turns, each time from the beginning and in a process of its own with one
thread: ours the way a node does it, theirs by the class that the cleaner threads of Apache Kafka
call. After the last round the two logs are compared record by record (offset, timestamp, key,
value); a difference ends the run without a result.
"""
