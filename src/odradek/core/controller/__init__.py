"""The controller's decisions: requests that change the metadata, and the records for them.

A decision is a function of the state and a request. It returns the records to append, and the
response, which is valid once they are committed. Nothing is changed here: the state is the image of
all records decided so far, and only the replay of records (`odradek.core.metadata`) makes the next
one. Each file has one subject; only `partition_change` elects leaders.

Checks are made in Apache Kafka's order (ReplicationControlManager, ConfigurationControlManager,
ClusterControlManager, ControllerApis), because clients see which error comes first.
"""
