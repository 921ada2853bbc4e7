"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application.

A member is a stream thread of an instance of the application (a process). The first member sends
the topology: the subtopologies, and their source, repartition and changelog topics. A subtopology
has as many tasks as the largest of its source topics has partitions. A member processes its active
tasks. It keeps copies of the state of its standby tasks. Warm-up tasks exist in the protocol only:
the assignor does not assign them, as in Apache Kafka 4.4.

The coordinator processes a member's heartbeat in these steps (`heartbeat`):

1. The member is added or changed.
2. If the group has no topology, it gets the member's topology. A member with an older topology
   gets the status STALE_TOPOLOGY (`topology`).
3. If topics have changed, the topology is configured: source topics must exist, the number of
   partitions of each internal topic is computed, and missing internal topics are returned with the
   response. The handler creates them (`configuration`).
4. The group epoch is increased by one if the member or the topics have changed, if the settings of
   the assignment have changed, or if the topology has become valid or invalid.
5. If the group epoch is higher than the epoch of the target assignment, the assignor (`assignor`)
   computes new targets: a short time after the first member of a group has joined, and then at
   most once per assignment interval (`targets`).
6. The member takes its next step towards its target (`reconcile`). First it must revoke the tasks
   that are not in the target. It gets an active task only when no process has this active task and
   its own process has no copy, and a standby task only when its own process does not have the task.

If members have endpoints (`application.server`), the responses contain the partitions that each
endpoint has, so that the application finds the instance with the state of a key (`endpoints`).
Members may be asked to describe their topology for administrators (`descriptions`). The
state of a group is in `group`, and `replay` changes it.

The model is Apache Kafka's package `org.apache.kafka.coordinator.group.streams` and its part of
`GroupMetadataManager`.
"""
