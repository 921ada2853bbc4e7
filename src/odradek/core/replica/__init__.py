"""Replication of partitions: the leader's side, the followers' side, and how logs are compared.

- `leader`: the followers of a partition, the ISR, and the high watermark (Kafka's `Partition`).
- `replica_state`: what the leader knows about one follower (Kafka's `ReplicaState`).
- `follower`: fetches the records of all partitions that one other broker leads (Kafka's
  `AbstractFetcherThread`).
- `fetch_states`: the partitions of a fetcher, and what its fetch session contains.
- `divergence`: the offset up to which two logs are equal, by leader epochs.
- `effects`: what the machines request from the code that performs IO.
"""
