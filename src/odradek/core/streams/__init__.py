"""Kafka Streams' semantics: topologies as data, and tasks that process records without IO.

`graph` holds what a program has declared, and turns it into a `Topology` with the names and numbers
that Kafka Streams gives to nodes, stores and topics. `Task` executes one subtopology for one
partition: it gets records and the time, and returns the records to produce. Runners perform the IO:
`odradek.streams` has one without a broker (`TestDriver`) and one with a broker.

The semantics are those of Apache Kafka 4.3, tested against its TopologyTestDriver on random
histories (`tests/streams_api`).
"""
