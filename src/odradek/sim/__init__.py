"""A simulator: real nodes on simulated time, disks, networks and threads.

A `World` has one virtual time, one source of randomness and one history. Machines are added to it:
each has a disk (`lossy_file_system`), an address in the network (`network`) and at most one running
process with an event loop of its own (`loop`). The processes are `odradek.node.Node`, unmodified,
and clients (`clients`). Nothing waits for real time, nothing runs in parallel, and every choice is
derived from the seed: the same seed gives the same history, byte for byte.

- `world`: time, the queue of events, randomness, the history;
- `loop`: an asyncio event loop on that queue;
- `executor`, `network`, `lossy_file_system`: the other interfaces of `odradek.env`;
- `machine`: starts and kills processes, and simulates power loss;
- `client`, `workload`: clients and their workloads;
- `checks`: the invariants of what clients observed;
- `scenario`: one run from one seed.
"""
