"""Levels of metadata.version, and the version of each record type at each level.

The controller must write records that all nodes of the cluster can read. So the finalized level of
metadata.version determines the record versions
(org.apache.kafka.server.common.MetadataVersion).
"""

from __future__ import annotations

from odradek.wire.primitives import Message

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"

LEVEL_MIN = 7
"""3.3-IV3, the lowest level that Apache Kafka 4.x reads."""
LEVEL_MAX = 33
"""4.4-IV2."""

LEVEL_ZK_MIGRATION = 8
LEVEL_SCRAM = 11
LEVEL_ISR_SHRINK_KEEPS_EPOCH = 12
LEVEL_TRANSACTIONS = 13
LEVEL_DELEGATION_TOKENS = 14
LEVEL_CONTROLLER_REGISTRATION = 15
LEVEL_DIRECTORIES = 17
LEVEL_ELR = 23
LEVEL_CORDONED_DIRECTORIES = 30
LEVEL_ADDRESS_RANGES = 32
LEVEL_CONTROLLER_UNREGISTRATION = 33

DEAD_LETTERS = 2
"""The level of share.version from which on share groups have dead letter queues (KIP-1191)."""

_REGISTER_BROKER = 0
_PARTITION = 3
_PARTITION_CHANGE = 5
_BROKER_REGISTRATION_CHANGE = 17


def record_version(record: Message, level: int) -> int:
    """Return the version in which `record` is written at a level of metadata.version.

    The level determines the version of PartitionRecord, PartitionChangeRecord and
    RegisterBrokerRecord. A BrokerRegistrationChangeRecord has the lowest version that contains all
    its fields, as in Apache Kafka's controller. All other record types have only version 0.
    """
    key = record.API_KEY
    if key in (_PARTITION, _PARTITION_CHANGE):
        return 2 if level >= LEVEL_ELR else 1 if level >= LEVEL_DIRECTORIES else 0
    if key == _REGISTER_BROKER:
        if level >= LEVEL_CORDONED_DIRECTORIES:
            return 4
        if level >= LEVEL_DIRECTORIES:
            return 3
        return 2 if level >= LEVEL_ZK_MIGRATION else 1
    if key == _BROKER_REGISTRATION_CHANGE:
        return _registration_change_version(record)
    return 0


def _registration_change_version(record: object) -> int:
    if record.cordoned_log_dirs is not None:  # type: ignore[attr-defined]
        return 3
    if record.log_dirs:  # type: ignore[attr-defined]
        return 2
    return 1 if record.in_controlled_shutdown else 0  # type: ignore[attr-defined]


SUPPORTED_FEATURES = {
    METADATA_VERSION: (LEVEL_MIN, LEVEL_MAX),
    KRAFT_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 2),
    STREAMS_VERSION: (0, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
}
"""The lowest and the highest supported level of each feature, as in Apache Kafka 4.4."""
