"""The typed settings of one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.config.definition import Value
from odradek.config.registry import group_settings
from odradek.config.view import View

if TYPE_CHECKING:
    from odradek.config.layers import BrokerLayers


class GroupConfig(View):
    """The effective settings of one group, from the group's own settings and the broker's.

    Values outside the broker's bounds are clamped, as in Kafka. The reason is that the bounds may
    have changed since the value was stored.

    Raises:
        ConfigurationError: a value is invalid.
    """

    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    consumer_assignment_interval_ms: int
    share_session_timeout_ms: int
    share_heartbeat_interval_ms: int
    share_assignment_interval_ms: int
    share_record_lock_duration_ms: int
    share_delivery_count_limit: int
    share_partition_max_record_locks: int
    share_auto_offset_reset: str
    share_isolation_level: str
    share_renew_acknowledge_enable: bool
    errors_deadletterqueue_topic_name: str
    errors_deadletterqueue_copy_record_enable: bool
    odradek_share_delay_enable: bool
    odradek_share_backoff_ms: int
    odradek_share_backoff_max_ms: int
    odradek_share_record_ttl_ms: int
    odradek_share_priority: tuple[str, ...]
    streams_session_timeout_ms: int
    streams_heartbeat_interval_ms: int
    streams_assignment_interval_ms: int
    streams_initial_rebalance_delay_ms: int
    streams_num_standby_replicas: int
    streams_task_offset_interval_ms: int
    streams_acceptable_recovery_lag: int
    streams_rack_aware_assignment_tags: tuple[str, ...]

    def __init__(self, overrides: Mapping[str, str], layers: BrokerLayers) -> None:
        self._fill(_NAMES, lambda name: bounded_group_value(name, overrides, layers))


_NAMES = tuple(GroupConfig.__annotations__)


def group_value(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> Value:
    """Return the value of a group setting: the group's own value, or the broker's value.

    Raises:
        ConfigurationError: the value is invalid.
    """
    setting = group_settings()[name]
    text = overrides.get(name)
    if text is not None:
        return setting.parse(text)
    if setting.synonyms:
        return layers.value(setting.synonyms[0].name)
    return setting.default


def group_bounds(name: str) -> tuple[str | None, str | None]:
    """Return the broker settings that are the lower and the upper bound of a group setting."""
    if name in _BOUNDS:
        return _BOUNDS[name]
    kind, _, rest = name.partition(".")
    if name in _UNBOUNDED:
        return None, None
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


_BOUNDS: Mapping[str, tuple[str | None, str | None]] = {
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
    "streams.num.warmup.replicas": (None, "group.streams.max.warmup.replicas"),
    "streams.task.offset.interval.ms": ("group.streams.min.task.offset.interval.ms", None),
}
"""The bounds of settings that do not have two."""

_UNBOUNDED = frozenset(
    (
        "consumer.assignor.offload.enable",
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "odradek.share.backoff.max.ms",
        "odradek.share.backoff.ms",
        "odradek.share.delay.enable",
        "odradek.share.priority",
        "odradek.share.record.ttl.ms",
        "share.assignor.offload.enable",
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
        "streams.acceptable.recovery.lag",
        "streams.assignor.name",
        "streams.assignor.offload.enable",
        "streams.initial.rebalance.delay.ms",
        "streams.rack.aware.assignment.tags",
    )
)


def bounded_group_value(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> Value:
    """Return the result of `group_value`, clamped to the broker's bounds.

    Raises:
        ConfigurationError: the value is invalid.
    """
    value = group_value(name, overrides, layers)
    low, high = (None if bound is None else layers.value(bound) for bound in group_bounds(name))
    if isinstance(value, int) and not isinstance(value, bool):
        if isinstance(low, int):
            value = max(value, low)
        if isinstance(high, int):
            value = min(value, high)
    return value
