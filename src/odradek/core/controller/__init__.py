"""The controller's decisions: requests that change the metadata, and the records for them.

A decision is a function of the state and a request. It returns the records to append, and the
response, which is valid once they are committed. This package changes no state: the state is the
image with all decided records, and only the replay of records (`odradek.core.metadata`) creates the
next image. Each file has one subject; only `partition_change` elects leaders.

Checks are made in Apache Kafka's order (ReplicationControlManager, ConfigurationControlManager,
ClusterControlManager, ControllerApis), so that clients get the same error if several apply.
"""
