"""Types of resources that have settings, operations on settings, and sources of their values.

The protocol defines the numbers. They occur in DescribeConfigs, AlterConfigs,
IncrementalAlterConfigs, and in the ConfigRecord of the metadata log.
"""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """The type of a resource that has settings (Kafka's ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Source(IntEnum):
    """Where the value of a setting comes from (DescribeConfigs)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8
