"""Everything of Apache Kafka 4.4.0 that can be listed, compared with Odradek.

Schemas, features, settings, metrics and commands are compared item by item. An item that differs
must have a row in the table of `deviations`, which gives the reason, and docs/compatibility.md shows
the same table. `python -m tests.oracle.release record` records what needs a running Apache Kafka,
`python -m tests.oracle.release document` writes the table into the document.
"""
