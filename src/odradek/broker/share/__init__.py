"""Share partitions on the broker that leads the topic's partitions (KIP-932).

- `manager` has the share partitions of this broker, and the share sessions.
- `local` has one share partition: its state machine, the timer of its locks, and its writes.
- `fetch` reads and acquires records for a member, and waits until there are some.
- `records` reads the headers of batches.
- `times` reads the times of records, for groups that deliver by time.
- `settings` has the settings of the groups.
- `persister` is the interface to the share coordinator, which stores the state of share partitions.
"""
