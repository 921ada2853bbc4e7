"""A simulator, which runs real nodes on simulated time, disks, networks and threads.

A `Simulation` has one virtual time, one source of randomness and one history. A machine in it has
a disk (`lossy_file_system`), an address in the network (`network`) and at most one running process.
Each process has its own event loop (`loop`). A process is an unmodified `odradek.node.node.Node` or a
client (`client`). Nothing waits for real time, nothing runs in parallel, and the seed determines
every choice. So the same seed gives the same history, byte for byte.

- `simulation` has the time, the queue of events, the randomness and the history.
- `loop` is an asyncio event loop. Its callbacks are events in the queue of the simulation.
- `executor`, `network` and `lossy_file_system` implement the other interfaces of `odradek.env`.
- `machine` starts and kills nodes, and simulates power loss.
- `client` and `reading` send requests; `workload`, `group_member` and `administrator` decide which.
- `facts` records what clients observed. `checks` compares the facts with the logs.
- `watch` checks the nodes of a cluster during the run (`metadata_watch`, `replica_watch`,
  `seen_node`).
- `scenario` is one run of one node from one seed. `cluster` is a run of three or more nodes.
- `campaign` runs a seed for `odradek simulate`. `story` shortens a history.
- `routing` is a client that finds the leaders and coordinators of a cluster.
"""
