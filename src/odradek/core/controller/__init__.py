"""The controller's decisions about requests that change the metadata.

A decision is a function of the state and a request. It returns the response, and the records to
append to the metadata log. The response is valid when the records are committed.

The functions of this package do not change any state. Their input is the metadata image after all
earlier decisions, which also contains records that are not committed yet. The replay of the
returned records creates the next image (`odradek.core.metadata`).

Each module processes one group of related requests. `decisions` maps each request to its function.
`elections` processes ElectLeaders requests. `partition_change` chooses the leader of an existing
partition, whatever the cause of the change is.

Checks are made in Apache Kafka's order (ReplicationControlManager, ConfigurationControlManager,
ClusterControlManager, ControllerApis). If a request has several errors, a client therefore gets the
same error as from Apache Kafka.
"""
