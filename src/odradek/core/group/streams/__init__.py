"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application.

A member is a thread group of an application instance (a process). The first member brings the
topology: its subtopologies, and their source, repartition and changelog topics. A subtopology has one task
per partition of its largest source topic. A member processes its active tasks. It keeps copies of
the state of its standby tasks. Warm-up tasks exist in the protocol only: the assignor of Apache
Kafka 4.3 does not assign them.

The coordinator processes a member's heartbeat in these steps (`heartbeat`):

1. The member is added or changed.
2. If the group has no topology, it gets the member's topology. A member with an older topology
   gets the status STALE_TOPOLOGY (`topology`).
3. If topics have changed, the topology is configured: source topics must exist, the number of
   partitions of each internal topic is computed, and missing internal topics are returned with the
   response. The handler creates them (`configuration`).
4. Changes in the steps before, of the group's assignment settings, and of validity of the topology
   increase the group epoch.
5. If the group epoch is higher than the epoch of the target assignment, the assignor (`assignor`)
   computes new targets: a short time after the first member of a group has joined, and then at
   most once per assignment interval (`targets`).
6. The member takes its next step towards its target (`reconcile`). First it must revoke tasks. A
   task is assigned only when no other process has it: an active task has one owner, and a process
   has at most one task for each partition of a subtopology.

With the endpoints of members, clients find the instance that has the state of a key
(`endpoints`). The state of a group is in `group`, and `replay` changes it.

The model is Apache Kafka's package `org.apache.kafka.coordinator.group.streams` and its part of
`GroupMetadataManager`.
"""
