"""The response data of DescribeConfigs for brokers, topics, groups and metrics subscriptions.

Each setting has its effective value, the source of this value, and the values that the effective
value overrides (KIP-226, Kafka's ConfigHelper). Sensitive values are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.config.broker_config import BrokerConfig
from odradek.config.definition import Setting, SettingType, UpdateMode, Value, value_text
from odradek.config.group_config import group_value
from odradek.config.layers import BrokerLayers, Found
from odradek.config.registry import (
    DYNAMIC_ONLY,
    OF_AUTHORIZER,
    broker_setting,
    broker_settings,
    broker_synonyms,
    client_metrics_settings,
    group_settings,
    topic_settings,
)
from odradek.config.topic_config import topic_value
from odradek.model.config_resource import Source


class Described(NamedTuple):
    """One setting as DescribeConfigs shows it."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    synonyms: tuple[Found, ...]
    """The values from all sources, by descending precedence. The effective value is the first."""
    type: SettingType
    documentation: str | None


def describe_broker(config: BrokerConfig, names: Iterable[str] | None = None) -> list[Described]:
    """Describe the settings of this node. Without `names`, describe all settings."""
    return [_broker(name, config) for name in _picked(_broker_names(config), names)]


def describe_cluster_default(
    config: BrokerConfig, names: Iterable[str] | None = None
) -> list[Described]:
    """Describe the dynamic settings of all brokers."""
    result: list[Described] = []
    for name in _picked(config.layers.cluster_default, names):
        each = _broker(name, config)
        synonyms = tuple(s for s in each.synonyms if s.source is Source.DYNAMIC_DEFAULT_BROKER)
        text = None if each.sensitive else config.layers.cluster_default[name]
        source = synonyms[0].source if synonyms else Source.DEFAULT
        result.append(each._replace(value=text, source=source, synonyms=synonyms))
    return result


def describe_topic(
    overrides: Mapping[str, str], config: BrokerConfig, names: Iterable[str] | None = None
) -> list[Described]:
    """Describe the settings of a topic. `overrides` are the values that are set for the topic."""
    result: list[Described] = []
    for name, setting in _shown(topic_settings(), overrides, names):
        value = topic_value(name, overrides, config.layers)
        first = setting.synonyms[0].name if setting.synonyms else None
        chain = [] if first is None else _chain(first, setting, config.layers)
        own = [Found(name, overrides[name], Source.TOPIC)] if name in overrides else []
        result.append(_described(setting, value, (*own, *chain)))
    return result


def describe_group(
    overrides: Mapping[str, str], config: BrokerConfig, names: Iterable[str] | None = None
) -> list[Described]:
    """Describe the settings of a group. `overrides` are the values that are set for the group."""
    result: list[Described] = []
    for name, setting in _shown(group_settings(), overrides, names):
        value = group_value(name, overrides, config.layers)
        if setting.synonyms:
            chain = _chain(setting.synonyms[0].name, setting, config.layers)
        else:
            chain = [Found(name, setting.default_text, Source.DEFAULT)]
        own = [Found(name, overrides[name], Source.GROUP)] if name in overrides else []
        result.append(_described(setting, value, (*own, *chain)))
    return result


def describe_client_metrics(
    overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[Described]:
    """Describe the settings of a client metrics subscription."""
    result: list[Described] = []
    for name, setting in _shown(client_metrics_settings(), overrides, names):
        text = overrides.get(name)
        value = setting.default if text is None else setting.parse(text)
        own = () if text is None else (Found(name, text, Source.CLIENT_METRICS),)
        result.append(_described(setting, value, own))
    return result


def _picked(available: Iterable[str], names: Iterable[str] | None) -> list[str]:
    wanted = set(names or ())
    return [name for name in available if not wanted or name in wanted]


def _shown(
    catalogue: Mapping[str, Setting], overrides: Mapping[str, str], names: Iterable[str] | None
) -> Iterator[tuple[str, Setting]]:
    """Yield the settings to show. Internal settings are shown only if they are set."""
    for name in _picked(catalogue, names):
        setting = catalogue[name]
        if name in overrides or not setting.internal:
            yield name, setting


def _broker_names(config: BrokerConfig) -> list[str]:
    effective = config.layers.effective
    known = [
        name
        for name, each in broker_settings().items()
        if not each.internal and name not in DYNAMIC_ONLY | OF_AUTHORIZER
    ]
    other = [name for name in effective if name not in known]
    return [*known, *other]


def _broker(name: str, config: BrokerConfig) -> Described:
    setting = broker_setting(name)
    layers = config.layers
    if setting is None:
        # As in Kafka, the value is hidden, because an unknown setting may be a secret.
        found = tuple(each._replace(text=None) for each in layers.found((name,)))
        source = found[0].source if found else Source.DEFAULT
        return Described(name, None, source, True, True, found, SettingType.UNKNOWN, None)
    exact = setting if name == setting.name else None
    text = layers.effective.get(name)
    if text is None and exact is not None:
        text = exact.default_text
    elif exact is not None and text is not None:
        text = value_text(exact.parse(text))
    chain = [_hidden(each, setting) for each in layers.found(broker_synonyms(name))]
    while chain and chain[0].name != name:
        chain.pop(0)
    return Described(
        name=name,
        value=None if setting.is_sensitive else text,
        source=chain[0].source if chain else Source.DEFAULT,
        read_only=setting.update_mode is UpdateMode.READ_ONLY or exact is None,
        sensitive=setting.is_sensitive,
        synonyms=tuple(chain),
        type=setting.type,
        documentation=setting.description,
    )


def _chain(name: str, setting: Setting, layers: BrokerLayers) -> list[Found]:
    """Return the broker's values that a setting of a topic or group overrides."""
    chain = [_hidden(each, setting) for each in layers.found(broker_synonyms(name))]
    while chain and chain[0].name != name:
        chain.pop(0)
    return chain


def _hidden(found: Found, setting: Setting) -> Found:
    return found._replace(text=None) if setting.is_sensitive else found


def _described(setting: Setting, value: Value, chain: tuple[Found, ...]) -> Described:
    return Described(
        name=setting.name,
        value=value_text(value),
        source=chain[0].source if chain else Source.DEFAULT,
        read_only=False,
        sensitive=setting.is_sensitive,
        synonyms=chain,
        type=setting.type,
        documentation=setting.description,
    )
