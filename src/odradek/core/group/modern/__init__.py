"""The common part of consumer groups and share groups (Kafka's `ModernGroup`).

The coordinator computes the assignments of these groups. `group` has the state that both types of
groups have: members, epochs and target assignments. `subscriptions` counts the subscribers of
topics, `topics` reads topics from the metadata, and `assignment` has the type of assignments.
"""
