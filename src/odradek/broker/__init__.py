"""The parts of a broker and of a controller: they execute what the state machines in `core` decide.

The state machines perform no IO. The modules of this package read and write logs, wait for timers,
and send responses. `broker` has the parts of one broker together; it decides nothing. The others:

- `partitions/`: the replicas on this broker: append, read, wait for data, open and close;
- `replication/`: follows leaders, reports changes of ISRs, and moves replicas between directories;
- `coordinator/`: the coordinators of groups, transactions and share states;
- `share/`: share partitions on the leaders of their partitions;
- `controller/`: the controller of the cluster, and the channels of brokers to it;
- `raft/`: the quorum of the metadata log;
- `metadata/`: the committed metadata, and what is called when it changes;
- `settings/`: dynamic settings and loggers;
- `access/`: tokens, keys and ACLs of clients;
- `clients/`: the context of a request, quotas, and the metrics that clients push;
- `peers/`: connections to other nodes.
"""
