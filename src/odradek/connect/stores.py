"""Where a standalone worker keeps configurations, states and offsets: in memory, and offsets in a file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from odradek.core.connect import java_map
from odradek.core.connect.config_log import ConfigEvent, ConfigLog, LogRecord
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.offsets import OffsetMap, offset_value
from odradek.core.connect.status_log import (
    Status,
    StatusLog,
    Subject,
    TopicUse,
    no_topic_record,
    status_record,
    topic_record,
)

log = logging.getLogger(__name__)

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]


class MemoryConfigStore:
    """Configurations in memory. A record is applied when it is written."""

    def __init__(self, on_event: Callable[[ConfigEvent], None]) -> None:
        self.log = ConfigLog()
        self._on_event = on_event

    def write(self, records: Sequence[LogRecord]) -> None:
        """Apply records. The events are passed on after the last."""
        events = [
            event
            for record in records
            for event in self.log.replay(record.key, record.value, self.log.offset)
        ]
        for each in events:
            self._on_event(each)


class MemoryStatusStore:
    """States in memory. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._log = StatusLog()

    def write(self, subject: Subject, status: Status, *, safely: bool = False) -> None:
        """Set the state of a connector or task; see `status_log` about `safely`."""
        with self._lock:
            if not safely or self._log.may_write(subject, status):
                self._log.replay(*status_record(subject, status))

    def used(self, use: TopicUse) -> None:
        """Note that a connector uses a topic."""
        with self._lock:
            if not self._log.uses(use.connector, use.topic):
                self._log.replay(*topic_record(use))

    def forget_topics(self, connector: str) -> None:
        """Forget the topics of a connector."""
        with self._lock:
            for each in self._log.topics(connector):
                self._log.replay(*no_topic_record(each.topic, connector))

    @property
    def log(self) -> StatusLog:
        """What is known. It changes while it is read."""
        return self._log


class FileOffsetStore:
    """Offsets of sources in a file, which Java's worker can read, too. Any thread may use it."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ConnectError: it is not a file of offsets, or cannot be read.
        """
        self._lock = threading.Lock()
        self._path = path
        try:
            stored = java_map.load(path.read_bytes()) if path.exists() else {}
        except (OSError, java_map.MalformedMapError) as error:
            raise ConnectError(
                f"the offsets in {path} cannot be read: {error}. Check offset.storage.file.filename."
            ) from error
        self._map = OffsetMap(stored)

    def get(self, connector: str, partition: Partition) -> dict[str, Any] | None:
        """Return the offset of a partition of a source."""
        with self._lock:
            return self._map.get(connector, partition)

    def of_connector(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Return all offsets of a connector."""
        with self._lock:
            return self._map.of_connector(connector)

    def write(self, connector: str, offsets: Sequence[tuple[Partition, Offset | None]]) -> None:
        """Store offsets; None removes one. When this returns, the file has them.

        Raises:
            DataError: a partition or an offset has a value that is not primitive.
            OSError: the file cannot be written.
        """
        with self._lock:
            for partition, offset in offsets:
                key = self._map.key_of(connector, partition)
                self._map.replay(key, offset_value(offset))
            written = self._path.with_name(self._path.name + ".new")
            written.write_bytes(java_map.dump(self._map.stored()))
            written.replace(self._path)
