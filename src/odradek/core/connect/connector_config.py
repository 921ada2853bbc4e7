"""The definitions that all connectors have, those of sources and of sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.core.connect.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigType,
    ConfigValue,
    Importance,
    Validator,
    Width,
    at_least,
    if_given,
    non_empty,
    non_empty_without_control_characters,
    one_of,
    one_of_in_any_case,
    parse_value,
    unique_aliases,
)
from odradek.core.connect.errors import ConfigError
from odradek.core.connect.plugins import Plugin, PluginKind
from odradek.java_regex.errors import PatternError
from odradek.java_regex.pattern import Pattern

NAME, CLASS, TASKS_MAX = "name", "connector.class", "tasks.max"
KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER = (
    "key.converter",
    "value.converter",
    "header.converter",
)
TOPICS, TOPICS_REGEX = "topics", "topics.regex"
TRANSACTION_BOUNDARY = "transaction.boundary"
TRANSACTION_INTERVAL = "transaction.boundary.interval.ms"
OFFSETS_TOPIC = "offsets.storage.topic"
DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_COMMON, _ERRORS = "Common", "Error Handling"
_EXACTLY_ONCE, _CREATION, _OFFSETS = "Exactly Once Support", "Topic Creation", "offsets.topic"
_Row = tuple[str, str, Any, str, str, str, int, str, str, Validator | None]
"""Name, type, default, importance, documentation, group, order, width, display name, validator."""


def _of_kind(kind: PluginKind, what: str) -> Validator:
    """Return a validator of plugins of a kind."""

    def validate(name: str, value: Any) -> None:
        if not isinstance(value, Plugin) or value.kind == kind:
            return
        is_both = kind == PluginKind.HEADER_CONVERTER and value.kind == PluginKind.CONVERTER
        if not is_both or not value.made.is_for_headers:
            raise ConfigError.of(name, value.name, f"Must be a subclass of {what}")

    return validate


def _is_pattern(name: str, value: Any) -> None:
    try:
        Pattern(value)
    except PatternError:
        raise ConfigError.of(name, value, f"Invalid regex: {value}") from None


_converter = _of_kind(PluginKind.CONVERTER, "Converter")
_header_converter = _of_kind(PluginKind.HEADER_CONVERTER, "HeaderConverter")
_reload = one_of("none", "restart")
_tolerance = one_of("none", "all")

_OF_ALL: tuple[_Row, ...] = (
    (
        NAME,
        "STRING",
        REQUIRED,
        "HIGH",
        "The name of the connector, unique in its Connect cluster.",
        _COMMON,
        1,
        "MEDIUM",
        "Connector name",
        non_empty_without_control_characters,
    ),
    (
        CLASS,
        "STRING",
        REQUIRED,
        "HIGH",
        "The class of the connector: its full name or the last part of it.",
        _COMMON,
        2,
        "LONG",
        "Connector class",
        None,
    ),
    (
        "connector.plugin.version",
        "STRING",
        None,
        "MEDIUM",
        "The version of the connector's class.",
        _COMMON,
        3,
        "MEDIUM",
        "Connector version",
        None,
    ),
    (
        TASKS_MAX,
        "INT",
        1,
        "HIGH",
        "The most tasks that the connector may have.",
        _COMMON,
        4,
        "SHORT",
        "Tasks max",
        at_least(1),
    ),
    (
        "tasks.max.enforce",
        "BOOLEAN",
        True,
        "LOW",
        "Whether a connector that makes more tasks than tasks.max fails.",
        _COMMON,
        5,
        "SHORT",
        "Enforce tasks max",
        None,
    ),
    (
        KEY_CONVERTER,
        "CLASS",
        None,
        "LOW",
        "The class that converts keys; by default the worker's.",
        _COMMON,
        6,
        "SHORT",
        "Key converter class",
        _converter,
    ),
    (
        KEY_CONVERTER + ".plugin.version",
        "STRING",
        None,
        "LOW",
        "The version of the class that converts keys.",
        _COMMON,
        7,
        "SHORT",
        "Key converter version",
        None,
    ),
    (
        VALUE_CONVERTER,
        "CLASS",
        None,
        "LOW",
        "The class that converts values; by default the worker's.",
        _COMMON,
        8,
        "SHORT",
        "Value converter class",
        _converter,
    ),
    (
        VALUE_CONVERTER + ".plugin.version",
        "STRING",
        None,
        "LOW",
        "The version of the class that converts values.",
        _COMMON,
        9,
        "SHORT",
        "Value converter version",
        None,
    ),
    (
        HEADER_CONVERTER,
        "CLASS",
        None,
        "LOW",
        "The class that converts headers; by default the worker's.",
        _COMMON,
        10,
        "SHORT",
        "Header converter class",
        _header_converter,
    ),
    (
        HEADER_CONVERTER + ".plugin.version",
        "STRING",
        None,
        "LOW",
        "The version of the class that converts headers.",
        _COMMON,
        11,
        "SHORT",
        "Header converter version",
        None,
    ),
    (
        "transforms",
        "LIST",
        [],
        "LOW",
        "The aliases of the transforms that each record passes.",
        "Transforms",
        12,
        "LONG",
        "Transforms",
        unique_aliases,
    ),
    (
        "predicates",
        "LIST",
        [],
        "LOW",
        "The aliases of the predicates of transforms.",
        "Predicates",
        13,
        "LONG",
        "Predicates",
        unique_aliases,
    ),
    (
        "config.action.reload",
        "STRING",
        "restart",
        "LOW",
        "What happens when a value of a configuration provider changes.",
        _COMMON,
        14,
        "MEDIUM",
        "Reload Action",
        _reload,
    ),
    (
        "errors.retry.timeout",
        "LONG",
        0,
        "MEDIUM",
        "For how many ms a failed operation is repeated: 0 never, -1 for ever.",
        _ERRORS,
        1,
        "MEDIUM",
        "Retry Timeout for Errors",
        None,
    ),
    (
        "errors.retry.delay.max.ms",
        "LONG",
        60_000,
        "MEDIUM",
        "The longest pause between two attempts, in ms.",
        _ERRORS,
        2,
        "MEDIUM",
        "Maximum Delay Between Retries for Errors",
        None,
    ),
    (
        "errors.tolerance",
        "STRING",
        "none",
        "MEDIUM",
        "With all, records that fail are dropped; with none, the task fails.",
        _ERRORS,
        3,
        "SHORT",
        "Error Tolerance",
        _tolerance,
    ),
    (
        "errors.log.enable",
        "BOOLEAN",
        False,
        "MEDIUM",
        "Whether errors that are tolerated are logged.",
        _ERRORS,
        4,
        "SHORT",
        "Log Errors",
        None,
    ),
    (
        "errors.log.include.messages",
        "BOOLEAN",
        False,
        "MEDIUM",
        "Whether the log shows the records that failed.",
        _ERRORS,
        5,
        "SHORT",
        "Log Error Details",
        None,
    ),
)
_OF_SINKS: tuple[_Row, ...] = (
    (
        TOPICS,
        "LIST",
        [],
        "HIGH",
        "The topics to read, separated by commas.",
        _COMMON,
        4,
        "LONG",
        "Topics",
        None,
    ),
    (
        TOPICS_REGEX,
        "STRING",
        "",
        "HIGH",
        "A regular expression of Java; topics that match it are read.",
        _COMMON,
        4,
        "LONG",
        "Topics regex",
        _is_pattern,
    ),
    (
        DEAD_LETTERS,
        "STRING",
        "",
        "MEDIUM",
        "The topic of records that failed; none if it is empty.",
        _ERRORS,
        6,
        "MEDIUM",
        "Dead Letter Queue Topic Name",
        None,
    ),
    (
        "errors.deadletterqueue.topic.replication.factor",
        "SHORT",
        3,
        "MEDIUM",
        "The replication factor with which the topic is created.",
        _ERRORS,
        7,
        "MEDIUM",
        "Dead Letter Queue Topic Replication Factor",
        None,
    ),
    (
        "errors.deadletterqueue.context.headers.enable",
        "BOOLEAN",
        False,
        "MEDIUM",
        "Whether dead letters have headers that begin with __connect.errors.",
        _ERRORS,
        8,
        "MEDIUM",
        "Enable Error Context Headers",
        None,
    ),
)
_OF_SOURCES: tuple[_Row, ...] = (
    (
        "topic.creation.groups",
        "LIST",
        [],
        "LOW",
        "Groups of settings for topics that the connector creates.",
        _CREATION,
        1,
        "LONG",
        "Topic Creation Groups",
        unique_aliases,
    ),
    (
        "exactly.once.support",
        "STRING",
        "requested",
        "MEDIUM",
        "With required, a connector that cannot be exact is refused.",
        _EXACTLY_ONCE,
        2,
        "SHORT",
        "Exactly once support",
        one_of_in_any_case("REQUESTED", "REQUIRED"),
    ),
    (
        TRANSACTION_BOUNDARY,
        "STRING",
        "poll",
        "MEDIUM",
        "What ends a transaction: each poll, an interval or the connector.",
        _EXACTLY_ONCE,
        3,
        "SHORT",
        "Transaction Boundary",
        one_of_in_any_case("POLL", "INTERVAL", "CONNECTOR"),
    ),
    (
        TRANSACTION_INTERVAL,
        "LONG",
        None,
        "LOW",
        "The interval of transactions in ms, if the boundary is interval.",
        _EXACTLY_ONCE,
        4,
        "SHORT",
        "Transaction boundary interval",
        if_given(at_least(0)),
    ),
    (
        OFFSETS_TOPIC,
        "STRING",
        None,
        "LOW",
        "A topic of its own for the offsets of this connector.",
        _OFFSETS,
        1,
        "LONG",
        "Offsets topic",
        non_empty,
    ),
)


def _define(config: ConfigDef, rows: tuple[_Row, ...]) -> ConfigDef:
    for name, kind, default, importance, text, group, order, width, display, validator in rows:
        config.define(
            name,
            ConfigType(kind),
            default,
            Importance(importance),
            text,
            validator=validator,
            group=group,
            order=order,
            width=Width(width),
            display=display,
        )
    return config


def sink_config() -> ConfigDef:
    """Return the definitions of all sinks."""
    return _define(_define(ConfigDef(), _OF_ALL), _OF_SINKS)


def source_config() -> ConfigDef:
    """Return the definitions of all sources."""
    return _define(_define(ConfigDef(), _OF_ALL), _OF_SOURCES)


SINK_CONFIG, SOURCE_CONFIG = sink_config(), source_config()
CREATION_PREFIX = "topic.creation."


def creation_groups(config: Mapping[str, str]) -> list[str]:
    """Return the names of the groups of new topics; the last is `default`."""
    listed = parse_value("", config.get("topic.creation.groups", ""), ConfigType.LIST) or []
    return [*(each for each in listed if each != "default"), "default"]


def with_creation_groups(base: ConfigDef, config: Mapping[str, str]) -> ConfigDef:
    """Return the definitions with those of the groups of new topics, if there are any."""
    if not creates_topics(config):
        return base
    enriched = ConfigDef(base)
    for alias in ["default", *creation_groups(config)[:-1]]:
        enriched.embed(
            f"{CREATION_PREFIX}{alias}.",
            f"Topic Creation: {alias}" if alias != "default" else "Topic Creation: default",
            1,
            _creation_group(is_default=alias == "default"),
        )
    return enriched


def creates_topics(config: Mapping[str, str]) -> bool:
    """Return whether a source creates the topics that it writes to."""
    return any(name.startswith(CREATION_PREFIX + "default.") for name in config) or bool(
        config.get("topic.creation.groups")
    )


def _replication_factor(name: str, value: Any) -> None:
    if value is not None and value != -1 and value <= 0:
        raise ConfigError.of(
            name,
            value,
            "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default",
        )


def _partition_count(name: str, value: Any) -> None:
    if value is not None and value != -1 and value <= 0:
        raise ConfigError.of(
            name, value, "Number of partitions must be positive, or -1 to use the broker's default"
        )


def _patterns(name: str, value: Any) -> None:
    for each in value:
        try:
            Pattern(each)
        except PatternError as error:
            raise ConfigError.of(
                name, value, f"Syntax error in regular expression: {error}"
            ) from None


def _creation_group(*, is_default: bool) -> ConfigDef:
    number = REQUIRED if is_default else None
    config = ConfigDef()
    config.define(
        "include",
        ConfigType.LIST,
        [".*"] if is_default else [],
        Importance.LOW,
        "Regular expressions of topics in the group.",
        validator=_patterns,
        width=Width.LONG,
        display="Inclusion Topic Pattern",
    )
    config.define(
        "exclude",
        ConfigType.LIST,
        [],
        Importance.LOW,
        "Regular expressions of topics that are not in the group.",
        validator=_patterns,
        width=Width.LONG,
        display="Exclusion Topic Pattern",
    )
    config.define(
        "replication.factor",
        ConfigType.SHORT,
        number,
        Importance.LOW,
        "The replication factor of new topics; -1 for the broker's default.",
        validator=_replication_factor,
        width=Width.LONG,
        display="Replication Factor",
    )
    config.define(
        "partitions",
        ConfigType.INT,
        number,
        Importance.LOW,
        "The number of partitions of new topics; -1 for the broker's default.",
        validator=_partition_count,
        width=Width.LONG,
        display="Partition Count",
    )
    return config


# -- sinks ------------------------------------------------------------------------------------


def check_sink(config: Mapping[str, str | None], values: dict[str, ConfigValue]) -> None:
    """Add what is wrong with the topics of a sink to the values."""

    def add(name: str, message: str) -> None:
        found = values.setdefault(name, ConfigValue(name, config.get(name)))
        found.errors.append(message)

    topics, regex = config.get(TOPICS), config.get(TOPICS_REGEX)
    has_topics, has_regex = bool((topics or "").strip()), bool((regex or "").strip())
    if has_topics and has_regex:
        for name in (TOPICS, TOPICS_REGEX):
            add(name, "topics and topics.regex are mutually exclusive options, but both are set.")
    if not has_topics and not has_regex:
        for name in (TOPICS, TOPICS_REGEX):
            add(name, "Must configure one of topics or topics.regex")
    dead = (config.get(DEAD_LETTERS) or "").strip()
    if not dead:
        return
    listed = parse_value(TOPICS, topics or "", ConfigType.LIST)
    if has_topics and dead in listed:
        add(
            TOPICS,
            f"The DLQ topic '{dead}' may not be included in the list of topics "
            f"('topics=[{', '.join(listed)}]') consumed by the connector",
        )
    if has_regex and _matches(regex or "", dead):
        add(
            TOPICS_REGEX,
            f"The DLQ topic '{dead}' may not be matched by the regex for the topics "
            f"('topics.regex={regex}') consumed by the connector",
        )


def _matches(regex: str, topic: str) -> bool:
    try:
        return bool(Pattern(regex).matches(topic))
    except PatternError:
        return False
