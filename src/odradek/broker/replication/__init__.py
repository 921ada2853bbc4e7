"""Replication of partitions: performs what the machines of `core/replica` decide."""
