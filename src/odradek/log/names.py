"""Names of files and directories, the same as in Apache Kafka.

The name of a partition's directory is `topic-partition`. Other names mean that the directory:

- will be deleted (`topic-partition.<32 hexadecimal digits>-delete`),
- belongs to a partition that is not in the cluster metadata (the same with `-stray`),
- is being moved (the same with `-future`).

The names of segment files and producer snapshots consist of an offset in 20 digits and the type of
the file (`odradek.records.segment_files`). The offset is the base offset of the segment, or the offset of
the snapshot.
"""

from __future__ import annotations

import re

from odradek.model.topic_partition import TopicPartition
from odradek.records.segment_files import CLEANED as CLEANED
from odradek.records.segment_files import DELETED as DELETED
from odradek.records.segment_files import LOG as LOG
from odradek.records.segment_files import OFFSET_INDEX as OFFSET_INDEX
from odradek.records.segment_files import SWAP as SWAP
from odradek.records.segment_files import TIME_INDEX as TIME_INDEX
from odradek.records.segment_files import TRANSACTION_INDEX as TRANSACTION_INDEX
from odradek.records.segment_files import file_name as file_name
from odradek.records.segment_files import offset_of as offset_of

PRODUCER_SNAPSHOT = ".snapshot"
SEGMENT_KINDS = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
META_PROPERTIES = "meta.properties"

METADATA_TOPIC = "__cluster_metadata"
REMOTE_INDEX_CACHE = "remote-log-index-cache"

DELETE_DIRECTORY = "-delete"
STRAY_DIRECTORY = "-stray"
FUTURE_DIRECTORY = "-future"

_DIRECTORY = re.compile(
    r"(?P<topic>.+)-(?P<partition>\d{1,10})(?:\.[0-9a-f]{32}(?P<kind>-delete|-stray|-future))?",
    re.ASCII,
)
_NAME_LENGTH_MAX = 255


def parse_directory(name: str) -> tuple[TopicPartition, str] | None:
    """Return the partition of a directory and the suffix of the name, such as `-delete`.

    The suffix may be empty. Return None if it is not the directory of a partition.
    """
    found = _DIRECTORY.fullmatch(name)
    if found is None:
        return None
    return TopicPartition(found["topic"], int(found["partition"])), found["kind"] or ""


def retired_directory(partition: TopicPartition, kind: str, unique: bytes) -> str:
    """Return the name of a directory that will be deleted, is stray, or has a future log.

    `kind` is the suffix, and `unique` is 16 random bytes.
    """
    suffix = f"-{partition.partition}.{unique.hex()}{kind}"
    return partition.topic[: _NAME_LENGTH_MAX - len(suffix)] + suffix
