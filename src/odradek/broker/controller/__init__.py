"""The shell of the controller: takes requests, appends what is decided, answers once it is
committed.

`controller_node` is the controller of this node with its metadata log; `channel` is how brokers
reach a controller, `lifecycle` how this node's broker joins and leaves the cluster, and
`snapshotter` writes snapshots of the image. All decisions are those of `odradek.core.controller`.
"""
