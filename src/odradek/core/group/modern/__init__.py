"""The common parts of consumer groups, share groups and Streams groups (Kafka's `ModernGroup`).

The coordinator computes the assignments of these groups. `group` has the state that all three types
have: members, epochs and target assignments. It also has the subscriptions of consumer groups and
share groups. `subscriptions` counts the subscribers of topics, `topics` reads topics from the
metadata, `assignment` has the type of assignments, and `replay` applies the records that all three
types have, and `tombstones` deletes them.
"""
