"""Share partitions on the broker that leads the topic's partitions (KIP-932).

- `persister` is the interface to the share coordinator, which stores the state of share partitions.
"""
