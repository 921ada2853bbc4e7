"""What a store is, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from odradek.core.streams.model.serdes import BYTES, Serde


class Kind(Enum):
    """What a store keeps."""

    KEY_VALUE = "key-value"
    TIMESTAMPED = "timestamped"
    """The stores of tables: values with their time."""
    VERSIONED = "versioned"
    WINDOW = "window"
    SESSION = "session"
    LIST = "list"
    """Unmatched records of stream joins."""
    SUPPRESS = "suppress"
    JOIN_BUFFER = "join-buffer"
    """Records of a stream that wait to be joined with a versioned table."""


@dataclass(slots=True, kw_only=True)
class StoreDefinition:
    """A store of a topology. Durations are in milliseconds."""

    name: str
    kind: Kind
    key: Serde = BYTES
    value: Serde = BYTES
    other_value: Serde = BYTES
    """For unmatched records of stream joins: the type of the right side."""
    is_logged: bool = True
    is_cached: bool = False
    is_timestamped: bool = True
    """Whether a window store keeps the time of values."""
    logs_headers: bool = False
    """Whether the changelog has the headers of the records."""
    retains_duplicates: bool = False
    retention_ms: int = 0
    window_size_ms: int = 0
    history_ms: int = 0
    in_memory: bool = False
    emits_final: bool = False
    """Whether only final results are read. Kafka Streams' files are then in the order of time, and keep a
    window for one millisecond more."""
    log_settings: dict[str, str] = field(default_factory=dict)
    processors: set[str] = field(default_factory=set)
    """The names of the nodes that use the store."""

    def connect(self, processor: str) -> None:
        """Note that a node uses the store."""
        self.processors.add(processor)

    def log_to_source(self) -> None:
        """Write no changelog: the topic of the table serves as one."""
        self.is_logged = False

    def without_cache(self) -> None:
        """Forward each update."""
        self.is_cached = False
