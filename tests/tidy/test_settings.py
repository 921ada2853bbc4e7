"""Every setting with the status honoured is read outside the package `config`."""

from __future__ import annotations

import re

from tests.tidy.sources import PACKAGE, is_written_by_hand

from odradek.config.broker_config import BrokerConfig
from odradek.config.group_config import GroupConfig
from odradek.config.topic_config import TopicConfig

VIEWS = (BrokerConfig, TopicConfig, GroupConfig)
READ_ELSEWHERE = {
    *("process_roles", "quorum_voters", "quorum_bootstrap_servers", "topic_defaults", "ignored"),
    *(
        f"group_{kind}_{end}_{what}_ms"
        for kind in ("consumer", "share", "streams")
        for end in ("min", "max")
        for what in ("session_timeout", "heartbeat_interval", "assignment_interval")
    ),
    *(
        f"group_share_{end}{what}"
        for end in ("", "min_", "max_")
        for what in (
            "delivery_count_limit",
            "record_lock_duration_ms",
            "partition_max_record_locks",
        )
    ),
    *("inter_broker_listener_name", "message_timestamp_type", "segment_ms"),
    "group_streams_max_standby_replicas",
    "replica_selector_class",
    "unclean_leader_election_enable",
}
"""Attributes that only `config` uses (checks, bounds, properties of the view); the last one is read
by its name in `core/controller/state.py`."""


def words() -> set[str]:
    """Every attribute name that occurs outside the package `config`."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(PACKAGE / "config") or not is_written_by_hand(path):
            continue
        found.update(re.findall(r"\.([a-z_0-9]+)\b", path.read_text(encoding="utf-8")))
    return found


def test_every_attribute_of_a_view_is_read() -> None:
    read = words()
    attributes = {name for view in VIEWS for name in view.__annotations__}
    assert attributes - read - READ_ELSEWHERE == set()
    assert attributes >= READ_ELSEWHERE
