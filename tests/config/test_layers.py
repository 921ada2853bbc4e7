"""Static and dynamic values, topics, groups: precedence, and the DescribeConfigs response."""

from __future__ import annotations

import pytest

from odradek.config import describe
from odradek.config.broker_config import BrokerConfig
from odradek.config.definition import SettingType
from odradek.config.layers import Found
from odradek.config.load import load
from odradek.model.config_resource import Source


def make(**static: str) -> BrokerConfig:
    return load({}, {name.replace("_", "."): value for name, value in static.items()}).config


def test_the_ranking_of_layers() -> None:
    config = make(log_retention_ms="1")
    assert config.topic_defaults.retention_ms == 1
    config = config.with_dynamic({"log.retention.ms": "2"}, {})
    assert config.topic_defaults.retention_ms == 2
    config = config.with_dynamic({"log.retention.ms": "2"}, {"log.retention.ms": "3"})
    assert config.topic_defaults.retention_ms == 3
    assert config.topic_config({"retention.ms": "4"}).retention_ms == 4
    assert config.with_dynamic({}, {}).topic_defaults.retention_ms == 1


def test_units_among_synonyms() -> None:
    assert make(log_retention_minutes="2").topic_defaults.retention_ms == 120_000
    assert make(log_retention_hours="2").topic_defaults.retention_ms == 7_200_000
    assert make(log_retention_hours="-1").topic_defaults.retention_ms == -1
    assert make(log_retention_hours="2", log_retention_ms="5").topic_defaults.retention_ms == 5
    assert make(log_roll_hours="1").topic_defaults.segment_ms == 3_600_000
    assert make(log_flush_scheduler_interval_ms="7").topic_defaults.flush_ms == 7


def test_a_dynamic_value_hides_static_siblings() -> None:
    config = make(log_roll_hours="1").with_dynamic({"log.roll.ms": "9"}, {})
    assert config.topic_defaults.segment_ms == 9


@pytest.mark.parametrize(
    ("name", "text", "per_broker"),
    [
        ("node.id", "7", True),
        ("log.retention.ms", "soon", True),
        ("listeners", "PLAINTEXT://:1", False),
        ("ssl.keystore.location", "/x", True),
        ("listener.name.x.ssl.keystore.location", "/x", False),
    ],
)
def test_dynamic_values_that_cannot_be_applied_are_left_out(
    name: str, text: str, per_broker: bool
) -> None:
    values = {name: text, "log.segment.bytes": "2000000"}
    config = make().with_dynamic({} if per_broker else values, values if per_broker else {})
    assert len(config.ignored) == 1
    assert name in config.ignored[0]
    assert config.topic_defaults.segment_bytes == 2_000_000


def test_views_do_not_change() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        make().node_id = 5  # type: ignore[misc]


def test_topic_config() -> None:
    topic = make(compression_type="zstd").topic_config(
        {"cleanup.policy": "compact,delete", "max.compaction.lag.ms": "10", "segment.ms": "20"}
    )
    assert topic.compression_type == "zstd"
    assert topic.cleanup_policy == {"compact", "delete"}
    assert topic.is_compacted
    assert topic.is_deleted
    assert topic.segment_age_max_ms == 10
    assert not topic.is_log_append_time
    assert make().topic_config({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_a_group_without_own_settings_has_those_of_the_broker() -> None:
    config = make(
        group_share_heartbeat_interval_ms="6000", group_streams_assignment_interval_ms="7"
    )
    group = config.group_config({})
    names = ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms")
    for name in (f"{kind}_{each}" for kind in ("consumer", "share", "streams") for each in names):
        broker_name = f"group.{name.replace('_', '.')}"
        assert getattr(group, name) == config.layers.value(broker_name), name
    assert (group.share_heartbeat_interval_ms, group.streams_assignment_interval_ms) == (6000, 7)


def test_group_values_are_brought_inside_the_brokers_bounds() -> None:
    config = make()
    assert config.group_config({}).consumer_session_timeout_ms == 45_000
    group = config.group_config({"consumer.session.timeout.ms": "1"})
    assert group.consumer_session_timeout_ms == 45_000
    group = config.group_config({"consumer.session.timeout.ms": "99999999"})
    assert group.consumer_session_timeout_ms == 60_000


def test_describing_a_broker() -> None:
    config = make(log_retention_hours="2", ssl_key_password="x", strange="y").with_dynamic(
        {"log.retention.ms": "5"}, {"log.retention.ms": "6"}
    )
    by_name = {each.name: each for each in describe.describe_broker(config)}
    retention = by_name["log.retention.ms"]
    assert (retention.value, retention.source) == ("6", Source.DYNAMIC_BROKER)
    assert not retention.read_only
    assert retention.synonyms == (
        Found("log.retention.ms", "6", Source.DYNAMIC_BROKER),
        Found("log.retention.ms", "5", Source.DYNAMIC_DEFAULT_BROKER),
        Found("log.retention.hours", "2", Source.STATIC_BROKER),
        Found("log.retention.hours", "168", Source.DEFAULT),
    )
    assert by_name["node.id"].read_only
    secret = by_name["ssl.key.password"]
    assert (secret.value, secret.sensitive) == (None, True)
    assert secret.synonyms == (Found("ssl.key.password", None, Source.STATIC_BROKER),)
    strange = by_name["strange"]
    assert (strange.value, strange.sensitive, strange.type) == (None, True, SettingType.UNKNOWN)
    assert "log.initial.task.delay.ms" not in by_name
    picked = describe.describe_broker(config, ["node.id"])
    assert [each.name for each in picked] == ["node.id"]


def test_describing_what_holds_for_all_brokers() -> None:
    config = make(log_retention_ms="1").with_dynamic(
        {"log.retention.ms": "5"}, {"log.retention.ms": "6"}
    )
    assert describe.describe_cluster_default(make()) == []
    (only,) = describe.describe_cluster_default(config)
    assert (only.value, only.source) == ("5", Source.DYNAMIC_DEFAULT_BROKER)
    assert only.synonyms == (Found("log.retention.ms", "5", Source.DYNAMIC_DEFAULT_BROKER),)


def test_describing_a_topic() -> None:
    config = make(log_cleanup_policy="compact")
    described = describe.describe_topic({"segment.ms": "5"}, config)
    by_name = {each.name: each for each in described}
    assert by_name["segment.ms"].source is Source.TOPIC
    assert [each.source for each in by_name["segment.ms"].synonyms] == [
        Source.TOPIC,
    ]
    assert by_name["cleanup.policy"].value == "compact"
    assert by_name["cleanup.policy"].source is Source.STATIC_BROKER
    assert by_name["remote.storage.enable"].source is Source.DEFAULT
    assert by_name["remote.storage.enable"].synonyms == ()
    assert "internal.segment.bytes" not in by_name
    assert len(by_name) == 37
    assert by_name["min.cleanable.dirty.ratio"].value == "0.5"


def test_describing_a_group_and_a_metrics_subscription() -> None:
    config = make()
    group = {each.name: each for each in describe.describe_group({}, config)}
    assert group["consumer.session.timeout.ms"].synonyms == (
        Found("group.consumer.session.timeout.ms", "45000", Source.DEFAULT),
    )
    assert group["share.isolation.level"].synonyms == (
        Found("share.isolation.level", "read_uncommitted", Source.DEFAULT),
    )
    own = describe.describe_group({"consumer.session.timeout.ms": "50000"}, config)
    assert {each.name: each.source for each in own}["consumer.session.timeout.ms"] is Source.GROUP
    metrics = describe.describe_client_metrics({"interval.ms": "1000"})
    assert [(each.name, each.value, each.source) for each in metrics] == [
        ("metrics", "", Source.DEFAULT),
        ("interval.ms", "1000", Source.CLIENT_METRICS),
        ("match", "", Source.DEFAULT),
    ]
