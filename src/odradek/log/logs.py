"""The interface of `LogManager` for periodic maintenance and the cleaner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from odradek.config.broker_config import BrokerConfig
from odradek.log.directory import LogDirectory
from odradek.log.partition_log import PartitionLog
from odradek.log.storage import Storage
from odradek.model.topic_partition import TopicPartition


class Logs(Protocol):
    """All logs of a node, and its log directories."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings."""
        ...

    @property
    def storage(self) -> Storage:
        """The resources that all logs share."""
        ...

    @property
    def directories(self) -> Sequence[LogDirectory]:
        """The log directories."""
        ...

    @property
    def online_directories(self) -> Sequence[LogDirectory]:
        """Log directories whose disk works."""
        ...

    def logs_in(self, directory: LogDirectory) -> Collection[PartitionLog]:
        """Return the logs in a log directory."""
        ...

    def stored_in(self, directory: LogDirectory) -> Collection[PartitionLog]:
        """Return the logs and the future logs in a log directory."""
        ...

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition; None if there is none."""
        ...

    def __iter__(self) -> Iterator[PartitionLog]: ...
