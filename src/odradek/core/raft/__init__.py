"""The quorum that orders the metadata log (KRaft): who leads it, and what is committed.

`QuorumMachine` (`machine`) takes events and returns effects; `voters` counts majorities, `election`
is the state that a voter must keep across restarts. The machine sees no records: of the log it
knows end offsets and epochs.

This is the machine of a quorum with one voter. Its terms are those of `org.apache.kafka.raft`.
"""
