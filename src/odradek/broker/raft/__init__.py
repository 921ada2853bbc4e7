"""The metadata log of this node on disk, and the shell of the quorum machine around it.

`__cluster_metadata-0` is a partition log like any other (`odradek.log`) plus two kinds of files:
`quorum-state`, what a voter must not forget (`quorum_state`), and snapshots
`<end offset>-<epoch>.checkpoint` (`snapshots`). `metadata_log` is the directory as a whole.
`quorum_node` appends what the controller decides, flushes in a thread of its own, several
decisions at a time, and tells what is committed. All files are Apache Kafka's, byte for byte.
"""
