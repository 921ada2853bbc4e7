"""The definitions are consistent: they parse, their defaults are valid, the views match them."""

from __future__ import annotations

import pytest

from odradek.config import kerberos, oauth, oauth_login
from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError, Secret, priorities
from odradek.config.definition import Setting, SettingType, Status, value_text
from odradek.config.group_config import GroupConfig, group_bounds
from odradek.config.registry import (
    OF_AUTHORIZER,
    broker_settings,
    broker_synonyms,
    client_metrics_settings,
    group_settings,
    honoured,
    topic_settings,
)
from odradek.config.topic_config import TopicConfig

CATALOGUES = (broker_settings, topic_settings, group_settings, client_metrics_settings)
ALL = [setting for catalogue in CATALOGUES for setting in catalogue().values()]
PYTHON_TYPES = {
    SettingType.BOOLEAN: "bool",
    SettingType.INT: "int",
    SettingType.SHORT: "int",
    SettingType.LONG: "int",
    SettingType.DOUBLE: "float",
    SettingType.STRING: "str",
    SettingType.CLASS: "str",
    SettingType.LIST: "tuple[str, ...]",
    SettingType.PASSWORD: "Secret",
}


def test_all_settings_of_apache_kafka_are_there() -> None:
    ours = [
        name for name in broker_settings() if name.startswith("odradek.") or name in OF_AUTHORIZER
    ]
    assert len(broker_settings()) - len(ours) == 382
    assert len(topic_settings()) == 38
    of_groups = [name for name in group_settings() if not name.startswith("odradek.")]
    assert len(of_groups) == 27
    assert len(client_metrics_settings()) == 3


def test_the_bounds_of_group_settings_exist() -> None:
    for name in group_settings():
        for bound in group_bounds(name):
            assert bound is None or bound in broker_settings(), name


@pytest.mark.parametrize("setting", ALL, ids=lambda each: each.name)
def test_a_definition_is_whole(setting: Setting) -> None:
    assert setting.importance in {"high", "medium", "low"}
    assert setting.documentation.endswith((".", "?"))
    assert (setting.reason == "") == (setting.status is Status.HONOURED)
    if setting.default_text is not None:
        assert setting.parse(setting.default_text) == setting.default
        if setting.type not in {SettingType.PASSWORD, SettingType.DOUBLE}:
            assert value_text(setting.default) == setting.default_text
    for synonym in setting.synonyms:
        assert synonym.name in broker_settings()


@pytest.mark.parametrize(
    ("view", "catalogue"),
    [(BrokerConfig, broker_settings), (TopicConfig, topic_settings), (GroupConfig, group_settings)],
)
def test_the_attributes_of_a_view_are_settings_of_that_type(view: type, catalogue: object) -> None:
    settings = catalogue()  # type: ignore[operator]
    for attribute, annotation in view.__annotations__.items():
        setting = settings.get(attribute.replace("_", "."))
        if setting is None or attribute in COMPUTED:
            continue
        optional = " | None" if setting.default_text is None and not setting.required else ""
        assert annotation == PYTHON_TYPES[setting.type] + optional, attribute


COMPUTED = {
    "process_roles",
    "log_dirs",
    "metadata_log_dir",
    "listeners",
    "advertised_listeners",
    "controller_listener_names",
    "inter_broker_listener_name",
    "group_coordinator_rebalance_protocols",
    "super_users",
    "max_connections_per_ip_overrides",
    "max_connections_by_listener",
    "max_connection_creation_rate_by_listener",
    "cleanup_policy",
}


def test_every_honoured_setting_reaches_a_view() -> None:
    reached = {name.replace("_", ".") for name in BrokerConfig.__annotations__}
    defaults = {
        synonym.name
        for settings in (topic_settings(), group_settings())
        for each in settings.values()
        for synonym in each.synonyms
    }
    elsewhere = {
        "broker.id",
        "log.dir",
        "listener.security.protocol.map",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        *("sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.server.max.receive.size"),
        *("connections.max.reauth.ms", "security.inter.broker.protocol", "config.providers"),
        *("sasl.mechanism.controller.protocol", "sasl.mechanism.inter.broker.protocol"),
        "ssl.endpoint.identification.algorithm",
        *("ssl.client.auth", "ssl.enabled.protocols", "ssl.principal.mapping.rules"),
        *("ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.cipher.suites"),
        *("ssl.keystore.type", "ssl.keystore.location", "ssl.key.password"),
        *("ssl.truststore.type", "ssl.truststore.location"),
        *("ssl.keystore.password", "ssl.truststore.password"),
        *("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"),
        "group.streams.min.task.offset.interval.ms",  # the bound of a group's setting
        *kerberos.PER_LISTENER,
        *oauth.PER_LISTENER,
        *oauth_login.SETTINGS,
    }
    assert set(honoured(broker_settings())) <= reached | defaults | elsewhere
    topic_names = {name.replace("_", ".") for name in TopicConfig.__annotations__}
    assert set(honoured(topic_settings())) <= topic_names | {
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
    group_names = {name.replace("_", ".") for name in GroupConfig.__annotations__}
    assert set(honoured(group_settings())) <= group_names


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("auto.create.topics.enable", " TRUE ", True),
        ("log.dirs", "/a, /b ,/c", ("/a", "/b", "/c")),
        ("log.dirs", "/a,/a", ("/a",)),
        ("log.cleanup.policy", "", ()),
        ("log.retention.bytes", "-1", -1),
        ("num.partitions", " 12 ", 12),
        ("num.partitions", "+12", 12),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("compression.gzip.level", "-1", -1),
        ("compression.gzip.level", "9", 9),
        ("group.consumer.migration.policy", "Upgrade", "Upgrade"),
        ("ssl.key.password", " x ", Secret("x")),
        ("controller.quorum.voters", "1@[::1]:9093,2@h:1", ("1@[::1]:9093", "2@h:1")),
    ],
)
def test_values(name: str, text: str, value: object) -> None:
    assert broker_settings()[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("auto.create.topics.enable", "yes"),
        ("num.partitions", "0"),
        ("num.partitions", "1.5"),
        ("num.partitions", "2147483648"),
        ("num.partitions", "9" * 5000),
        ("num.partitions", "1_000"),
        ("offsets.topic.replication.factor", "32768"),
        ("log.retention.bytes", "9223372036854775808"),
        ("log.cleaner.min.cleanable.ratio", "1.5"),
        ("compression.gzip.level", "0"),
        ("compression.type", "brotli"),
        ("log.cleanup.policy", "compact,shrink"),
        ("log.dirs", ""),
        ("log.dirs", "/a,,/b"),
        ("controller.quorum.voters", "x@h:1"),
        ("controller.quorum.voters", "1@h"),
        ("controller.quorum.bootstrap.servers", "h:99999"),
    ],
)
def test_invalid_values(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"for configuration {name}: "):
        broker_settings()[name].parse(text)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("latest", True),
        ("by_duration:PT1H", True),
        ("by_duration:P1DT2H3.5S", True),
        ("by_duration:-PT1H", False),
        ("by_duration:P", False),
        ("by_duration:PT", False),
        ("yesterday", False),
    ],
)
def test_share_offset_reset(text: str, valid: bool) -> None:
    setting = group_settings()["share.auto.offset.reset"]
    if valid:
        assert setting.parse(text) == text
    else:
        with pytest.raises(ConfigurationError):
            setting.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("orders:5, other_orders.x-1:-10", {"orders": 5, "other_orders.x-1": -10}),
        ("orders", None),
        ("orders:", None),
        (":1", None),
        ("orders:+1", None),
        ("orders:1.5", None),
        ("orders:1:2", None),
        ("or ders:1", None),
        ("orders:1,,", None),
        ("orders:1,orders:2", None),
        ("orders:9999999999", None),
    ],
)
def test_priorities(text: str, expected: dict[str, int] | None) -> None:
    setting = group_settings()["odradek.share.priority"]
    if expected is None:
        with pytest.raises(ConfigurationError):
            setting.parse(text)
    else:
        assert priorities(setting.name, setting.parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "valid"), [("*", True), ("", True), ("1:2, 3:4", True), ("1", False), ("*,1:2", False)]
)
def test_throttled_replicas(text: str, valid: bool) -> None:
    setting = topic_settings()["leader.replication.throttled.replicas"]
    if valid:
        setting.parse(text)
    else:
        with pytest.raises(ConfigurationError):
            setting.parse(text)


def test_secrets_are_not_shown() -> None:
    assert "swordfish" not in repr(broker_settings()["ssl.key.password"].parse("swordfish"))
    assert value_text(Secret("swordfish")) is None


def test_synonyms_of_a_listeners_setting() -> None:
    assert broker_synonyms("listener.name.x.ssl.key.password")[1] == "ssl.key.password"
    assert broker_synonyms("listener.name.x.plain.sasl.jaas.config")[1] == "sasl.jaas.config"
    assert broker_synonyms("log.flush.scheduler.interval.ms") == (
        "log.flush.scheduler.interval.ms",
    )


def test_a_description_says_what_is_not_done() -> None:
    settings = broker_settings()
    assert settings["num.partitions"].description == settings["num.partitions"].documentation
    assert "has no effect and needs none: one event loop" in settings["num.io.threads"].description
    rate = settings["remote.log.manager.copy.max.bytes.per.second"]
    assert rate.description.endswith(
        "It is not supported and has no effect: there is no tiered storage yet."
    )
    assert "is refused: the rules of the class" in (
        settings["create.topic.policy.class.name"].description
    )
    assert rate.shortcoming(str(2**63 - 1)) is None
    assert rate.shortcoming("5") == (
        "remote.log.manager.copy.max.bytes.per.second has no effect: there is no tiered storage yet"
    )
    assert settings["num.io.threads"].shortcoming("5") is None
