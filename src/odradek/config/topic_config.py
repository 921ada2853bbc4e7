"""The typed settings of one topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.config.definition import Value
from odradek.config.registry import topic_settings
from odradek.config.view import View

if TYPE_CHECKING:
    from odradek.config.layers import BrokerLayers


class TopicConfig(View):
    """The effective settings of a topic, from the topic's own settings and the broker's.

    Raises:
        ConfigurationError: a value is invalid.
    """

    compression_type: str
    """A codec or `uncompressed`, or `producer` to keep the producer's codec."""
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_decompressed_message_bytes: int
    """Maximum size of a record in a compressed batch. Only writes are checked."""
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    """`CreateTime` or `LogAppendTime`."""
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    """The value -1 means no limit."""
    retention_ms: int
    """The value -1 means no limit."""
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    cleanup_policy: frozenset[str]
    """The policies `delete` and `compact`, one of them, or none."""

    def __init__(self, overrides: Mapping[str, str], layers: BrokerLayers) -> None:
        def value(name: str) -> Value:
            return topic_value(name, overrides, layers)

        self._fill(_NAMES, value)
        policy = value("cleanup.policy")
        assert isinstance(policy, tuple)
        self._set(cleanup_policy=frozenset(each.lower() for each in policy))
        internal_segment_bytes = value("internal.segment.bytes")
        if internal_segment_bytes is not None:
            self._set(segment_bytes=internal_segment_bytes)

    @property
    def is_compacted(self) -> bool:
        """Whether the latest record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker sets timestamps when it appends records."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def segment_age_max_ms(self) -> int:
        """The age at which a segment is rolled.

        In a compacted topic it is at most the maximum compaction lag.
        """
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms


_COMPUTED = {"cleanup_policy"}
_NAMES = tuple(name for name in TopicConfig.__annotations__ if name not in _COMPUTED)


def topic_value(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> Value:
    """Return the value of a topic setting: the topic's own value, or the broker's value.

    The broker may have several synonyms of the setting. They are in the order of precedence. If a
    synonym is set in a layer, `BrokerLayers.effective` omits the other synonyms of lower layers.

    Raises:
        ConfigurationError: the value is invalid.
    """
    setting = topic_settings()[name]
    text = overrides.get(name)
    if text is not None:
        return setting.parse(text)
    has_units = len(setting.synonyms) > 1
    for synonym in setting.synonyms:
        value = layers.value(synonym.name)
        if value is not None:
            return _in_milliseconds(value, synonym.factor) if has_units else value
    return setting.default


def _in_milliseconds(value: Value, factor: int) -> int:
    """Convert a time to milliseconds. Each negative time means never and becomes -1."""
    assert isinstance(value, int)
    return -1 if value < 0 else value * factor
