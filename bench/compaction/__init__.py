"""Compares compaction with Apache Kafka's cleaner: `python -m bench.compaction`.

The two cleaners alternately clean copies of the same log from its beginning. Each cleaning runs in a
separate process with one thread. Odradek's cleaner runs as in a node. Apache Kafka's is the class
that its cleaner threads call. After the last round the two logs are compared record by record
(offset, timestamp, key, value). A difference ends the run without a result.
"""
