"""The quorum that orders the metadata log (KRaft): its leader, and its committed end.

`QuorumMachine` (`machine`) takes events and returns effects; `voters` counts majorities, `election`
is the state that a voter must keep across restarts. The machine does not see records, only end
offsets and epochs of the log.

This is the machine of a quorum with one voter. Its terms are those of `org.apache.kafka.raft`.
"""
