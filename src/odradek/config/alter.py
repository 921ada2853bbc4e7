"""Validates changes of settings by AlterConfigs, IncrementalAlterConfigs and CreateTopics.

`apply_operation` computes the new text of a setting. The `check_*` functions validate all new
settings of a resource together. The functions raise `ApiError` with the codes and messages of
Kafka's ConfigurationControlManager, ConfigAdminManager and LogConfig.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError
from odradek.config.consistency import problems
from odradek.config.definition import Setting, Value
from odradek.config.group_config import group_bounds, group_value
from odradek.config.layers import BrokerLayers, dynamic_problem
from odradek.config.registry import (
    broker_setting,
    client_metrics_settings,
    group_settings,
    topic_settings,
)
from odradek.config.topic_config import topic_value
from odradek.model.config_resource import Operation, ResourceType
from odradek.model.errors import ApiError, ErrorCode

VALUE_LENGTH_MAX = 32767
"""The maximum length of a stored value, in characters."""


def setting_of(resource: ResourceType, name: str) -> Setting | None:
    """Return the definition of a resource's setting; None if there is none."""
    match resource:
        case ResourceType.BROKER:
            return broker_setting(name)
        case ResourceType.TOPIC:
            return topic_settings().get(name)
        case ResourceType.GROUP:
            return group_settings().get(name)
        case ResourceType.CLIENT_METRICS:
            return client_metrics_settings().get(name)
        case ResourceType.BROKER_LOGGER:
            return None


def is_sensitive(resource: ResourceType, name: str) -> bool:
    """Return whether a value must be hidden, because it is a secret or the setting is unknown."""
    setting = setting_of(resource, name)
    return setting is None or setting.is_sensitive


def apply_operation(
    resource: ResourceType,
    name: str,
    operation: Operation,
    current: str | None,
    operand: str | None,
) -> str | None:
    """Return the new text of a setting whose value is `current`; None removes the setting.

    APPEND and SUBTRACT change the value that is set. If no value is set, they change the default.

    Raises:
        ApiError: INVALID_CONFIG if the setting is no list or the result is too long,
            INVALID_REQUEST if there is no operand.
    """
    if operation is Operation.DELETE:
        return None
    if operand is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
    result = operand
    if operation is not Operation.SET:
        setting = setting_of(resource, name)
        if setting is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
        if not setting.is_list:
            problem = f"Can't {operation.name} to key {name} because its type is not LIST."
            if resource is ResourceType.BROKER:
                word = operation.name.lower()
                problem = f"Config value {word} is not allowed for config key: {name}"
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
        elements = _elements(current if current is not None else setting.default_text)
        if operation is Operation.APPEND:
            elements += [each for each in operand.split(",") if each not in elements]
        else:
            for each in operand.split(","):
                if each in elements:
                    elements.remove(each)
        result = ",".join(elements)
    if len(result) > VALUE_LENGTH_MAX:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"the value of {name} has {len(result)} characters; at most {VALUE_LENGTH_MAX} fit",
        )
    return result


def _elements(text: str | None) -> list[str]:
    return [each for each in (text or "").split(",") if each]


def check_topic(overrides: Mapping[str, str | None], config: BrokerConfig) -> None:
    """Check the settings of a topic.

    Raises:
        ApiError: INVALID_CONFIG if a setting is invalid.
    """
    values = _without_nulls(overrides, "topic")
    for name in values:
        if name not in topic_settings():
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    parsed = _parsed(values, topic_settings())
    low, high = (
        _number(topic_value(name, values, config.layers))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if low > high:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms ({low}) is above max.compaction.lag.ms ({high})",
        )
    if parsed.get("remote.storage.enable") is True:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "remote.storage.enable cannot be true: this node has no tiered storage",
        )


STREAMS_ASSIGNORS = ("sticky",)
"""The assignors of Streams groups."""


def check_group(overrides: Mapping[str, str | None], config: BrokerConfig) -> None:
    """Check the settings of a group.

    Raises:
        ApiError: INVALID_CONFIG if a setting is invalid.
    """
    values = _without_nulls(overrides, "group")
    for name in values:
        if name not in group_settings():
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    _parsed(values, group_settings())
    for name in values:
        low, high = group_bounds(name)
        value = group_value(name, values, config.layers)
        if low is not None and _number(value) < _number(config.layers.value(low)):
            problem = f"{name} must be greater than or equal to {low}"
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
        if high is not None and _number(value) > _number(config.layers.value(high)):
            problem = f"{name} must be less than or equal to {high}"
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    assignor, known = values.get("streams.assignor.name"), STREAMS_ASSIGNORS
    if assignor is not None and assignor not in known:
        problem = (
            f"streams.assignor.name '{assignor}' is not a registered task assignor. "
            f"Registered assignors are: [{', '.join(known)}]."
        )
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = (
            f"{kind}.{what}" for what in ("session.timeout.ms", "heartbeat.interval.ms")
        )
        session_ms, heartbeat_ms = (
            _number(group_value(name, values, config.layers)) for name in (session, heartbeat)
        )
        if session_ms <= heartbeat_ms:
            problem = f"{session} must be greater than {heartbeat}"
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)


def check_broker_values(values: Mapping[str, str], per_broker: bool) -> None:
    """Check dynamic settings of this broker, or of all brokers, each by itself.

    Raises:
        ApiError: INVALID_REQUEST if a setting is invalid, as in Kafka (KAFKA-13609).
    """
    for name, text in values.items():
        problem = dynamic_problem(name, text, per_broker)
        if problem is not None:
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def check_broker(values: Mapping[str, str | None], config: BrokerConfig, per_broker: bool) -> None:
    """Check the dynamic settings of this broker, or of all brokers.

    They must fit together as at the start of a node. A problem that exists already is no reason to refuse.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    texts = {name: text for name, text in values.items() if text is not None}
    check_broker_values(texts, per_broker)
    layers = config.layers
    if per_broker:
        changed = BrokerLayers(layers.static, layers.cluster_default, texts)
    else:
        changed = BrokerLayers(layers.static, texts, layers.per_broker)
    try:
        new = BrokerConfig(changed)
    except ConfigurationError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
    present = problems(config)
    for problem in problems(new):
        if problem not in present:
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)


_MATCHES = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
_PUSH_INTERVAL_MIN_MS, _PUSH_INTERVAL_MAX_MS = 100, 3_600_000


def check_client_metrics(overrides: Mapping[str, str | None]) -> None:
    """Check the settings of a client metrics subscription (KIP-714).

    Raises:
        ApiError: INVALID_REQUEST or INVALID_CONFIG if a setting is invalid.
    """
    values = _without_nulls(overrides, "client metrics")
    for name in values:
        if name not in client_metrics_settings():
            problem = f"Unknown client metrics configuration: {name}"
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    parsed = _parsed(values, client_metrics_settings())
    interval_ms = _number(parsed.get("interval.ms", _PUSH_INTERVAL_MIN_MS))
    if not _PUSH_INTERVAL_MIN_MS <= interval_ms <= _PUSH_INTERVAL_MAX_MS:
        problem = f"Invalid value {interval_ms} for interval.ms: must be from 100 to 3600000"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    patterns = parsed.get("match", ())
    assert isinstance(patterns, tuple)
    for pattern in patterns:
        parse_match(pattern)


def parse_match(pattern: str) -> tuple[str, str]:
    """Return the two sides of one `match` pattern, `client_id=REGEX`.

    Raises:
        ApiError: INVALID_CONFIG if the pattern is malformed.
    """
    name, equals, expression = (part.strip() for part in pattern.partition("="))
    import re  # Needed only here.

    problem = ""
    if not equals or name not in _MATCHES:
        problem = f"must be one of {', '.join(sorted(_MATCHES))}, then = and a pattern"
    try:
        re.compile(expression)
    except re.error as error:
        problem = str(error)
    if problem:
        text = f"Illegal client matching pattern: {pattern}: {problem}"
        raise ApiError(ErrorCode.INVALID_CONFIG, text)
    return name, expression


def _without_nulls(values: Mapping[str, str | None], kind: str) -> dict[str, str]:
    nulls = [name for name, text in values.items() if text is None]
    if nulls:
        problem = f"Null value not supported for {kind} configs: {','.join(nulls)}"
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    return {name: text for name, text in values.items() if text is not None}


def _parsed(values: Mapping[str, str], catalogue: Mapping[str, Setting]) -> dict[str, Value]:
    try:
        return {name: catalogue[name].parse(text) for name, text in values.items()}
    except ConfigurationError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
