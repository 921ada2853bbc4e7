"""The controller's decisions: what is asked of the cluster's metadata, and the records that do it.

A decision is a function of the state and a request; it returns the records to append and the
answer, which counts once they are committed. Nothing here changes anything: the state is the
image of all records decided so far, and only replaying records (`odradek.core.metadata`) makes
the next one. One file a subject; `partition_change` is the one place that elects leaders.

Checks come in the order in which Apache Kafka makes them (ReplicationControlManager,
ConfigurationControlManager, ClusterControlManager, ControllerApis), because clients see which
error wins.
"""
