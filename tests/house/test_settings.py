"""A setting that is called honoured is read by some room."""

from __future__ import annotations

import re

from tests.house.sources import PACKAGE, is_written_by_hand

from odradek.config.broker_config import BrokerConfig
from odradek.config.group_config import GroupConfig
from odradek.config.topic_config import TopicConfig

VIEWS = (BrokerConfig, TopicConfig, GroupConfig)
READ_BY_CONFIG = {
    *("process_roles", "quorum_voters", "quorum_bootstrap_servers", "topic_defaults", "ignored"),
    *(f"group_consumer_{end}_session_timeout_ms" for end in ("min", "max")),
    *(f"group_consumer_{end}_heartbeat_interval_ms" for end in ("min", "max")),
    *(f"group_consumer_{end}_assignment_interval_ms" for end in ("min", "max")),
}
"""Attributes whose effect is inside the room: checks and bounds."""
NOT_READ_YET = frozenset(
    [
        "broker_heartbeat_interval_ms",
        "broker_session_timeout_ms",
        "broker_listeners",
        "broker_rack",
        "connections_max_idle_ms",
        "consumer_assignment_interval_ms",
        "consumer_heartbeat_interval_ms",
        "consumer_session_timeout_ms",
        "controlled_shutdown_enable",
        "controller_listener_names",
        "controller_listeners",
        "delete_retention_ms",
        "follower_replication_throttled_replicas",
        "group_consumer_assignment_interval_ms",
        "group_consumer_assignors",
        "group_consumer_heartbeat_interval_ms",
        "group_consumer_max_size",
        "group_consumer_migration_policy",
        "group_consumer_regex_refresh_interval_ms",
        "group_consumer_session_timeout_ms",
        "group_coordinator_rebalance_protocols",
        "group_initial_rebalance_delay_ms",
        "group_max_session_timeout_ms",
        "group_max_size",
        "group_min_session_timeout_ms",
        "inter_broker_listener_name",
        "leader_replication_throttled_replicas",
        "log_cleaner_backoff_ms",
        "log_cleaner_dedupe_buffer_size",
        "log_cleaner_enable",
        "log_cleaner_io_buffer_load_factor",
        "log_cleaner_io_buffer_size",
        "log_cleaner_io_max_bytes_per_second",
        "log_cleaner_threads",
        "max_compaction_lag_ms",
        "max_connections",
        "max_connections_per_ip",
        "max_connections_per_ip_overrides",
        "max_incremental_fetch_session_cache_slots",
        "message_max_bytes",
        "message_timestamp_type",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "odradek_log_format",
        "odradek_log_level",
        "odradek_metrics_host",
        "odradek_metrics_port",
        "odradek_shutdown_timeout_ms",
        "offset_metadata_max_bytes",
        "offsets_commit_timeout_ms",
        "offsets_load_buffer_size",
        "offsets_retention_check_interval_ms",
        "offsets_retention_minutes",
        "offsets_topic_compression_codec",
        "remote_storage_enable",
        "segment_ms",
        "socket_listen_backlog_size",
        "socket_receive_buffer_bytes",
        "socket_request_max_bytes",
        "socket_send_buffer_bytes",
        "telemetry_max_bytes",
        "transaction_abort_timed_out_transaction_cleanup_interval_ms",
        "transaction_max_timeout_ms",
        "transaction_remove_expired_transaction_cleanup_interval_ms",
        "transaction_state_log_load_buffer_size",
        "transactional_id_expiration_ms",
        "unclean_leader_election_enable",
        "unstable_api_versions_enable",
    ]
)
"""Attributes that wait for their room. The list only shrinks; what stays must not be called
honoured in its definition."""


def words() -> set[str]:
    """Every `.name` that occurs outside the room of settings."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(PACKAGE / "config") or not is_written_by_hand(path):
            continue
        found.update(re.findall(r"\.([a-z_0-9]+)\b", path.read_text(encoding="utf-8")))
    return found


def test_every_attribute_of_a_view_is_read() -> None:
    read = words()
    attributes = {name for view in VIEWS for name in view.__annotations__}
    assert attributes - read - READ_BY_CONFIG <= NOT_READ_YET
    assert attributes >= NOT_READ_YET
