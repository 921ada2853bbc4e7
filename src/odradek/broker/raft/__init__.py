"""The metadata log of this node on disk, and the raft client that orders it.

`__cluster_metadata-0` is a partition log like any other (`odradek.log`) with two more kinds of
files: `quorum-state`, the state that a voter must keep (`quorum_state`), and snapshots
`<end offset>-<epoch>.checkpoint` (`snapshots`). `metadata_log` is the directory as a whole.
`client` appends, syncs and tells listeners (`listener`) what is committed. All files are Apache
Kafka's, byte for byte.
"""
