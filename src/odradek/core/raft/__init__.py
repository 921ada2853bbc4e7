"""The quorum that orders the metadata log (KRaft): who leads, and what is committed.

`QuorumMachine` (`machine`) takes events and answers with effects; `voters` counts majorities,
`election` is what a voter must never forget. Records stay outside: of the log the machine knows
end offsets and epochs.

This is the machine of a quorum with one voter. Its terms are those of org.apache.kafka.raft, so
that followers, pre-votes and remote votes are roles and events to add, not another design: votes
are counted against a voter set, and the high watermark is the offset that a majority has flushed.
"""
