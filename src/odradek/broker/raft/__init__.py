"""The metadata log of this node on disk, and the raft client that replicates it.

`__cluster_metadata-0` is an ordinary partition log (`odradek.log`) with two more kinds of files:
`quorum-state`, the state that a voter must keep (`quorum_state`), and snapshots `<end
offset>-<epoch>.checkpoint` (`snapshots`). `metadata_log` manages the directory. `client` appends
and flushes records, and delivers committed records to listeners (`listener`). All files have Apache
Kafka's formats.
"""
