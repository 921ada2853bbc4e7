"""The answer to a request to validate a configuration, and the definitions of a plugin, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from odradek.core.connect import connector_config as base
from odradek.core.connect.api import Connector, SinkConnector, SourceConnector
from odradek.core.connect.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Width,
    parse_value,
    text_of,
)
from odradek.core.connect.errors import ConfigError, bad_request, not_found
from odradek.core.connect.plugins import CONNECTORS, Plugin, PluginKind, Plugins, UnknownPluginError

Json = dict[str, Any]
Config = Mapping[str, str | None]
CheckOverride = Callable[[str, str], str | None]
"""From a kind of client and a name of a setting to the error, if a connector may not set it."""
CheckMore = Callable[[Connector, Mapping[str, str], dict[str, ConfigValue]], None]


def find_connector(plugins: Plugins, name: str) -> Plugin:
    """Return the plugin of a connector.

    Raises:
        RestError: there is none; the text has the nearest name.
    """
    try:
        return plugins.find(name, *CONNECTORS)
    except UnknownPluginError:
        known = ", ".join(each.name for each in plugins.of_kind(*CONNECTORS))
        near = plugins.nearest(name, *CONNECTORS)
        hint = "" if near is None else f" Do you mean {near}?"
        raise bad_request(
            "Failed to find any class that implements Connector and which name matches "
            f"{name}, available connectors are: {known}.{hint}"
        ) from None


def validate_connector(
    plugins: Plugins,
    config: Config,
    worker: Mapping[str, str],
    check_override: CheckOverride | None = None,
    check_more: CheckMore | None = None,
) -> Json:
    """Return the answer: each value with its definition and its errors.

    `worker` has the settings of the worker, whose converters are the default.

    Raises:
        RestError: the configuration has no class, or the class is unknown.
        ConfigError: a value cannot be read at all.
    """
    name = config.get(base.CLASS)
    if name is None:
        shown = ", ".join(f"{k}={v}" for k, v in config.items())
        raise bad_request(f"Connector config {{{shown}}} contains no connector type")
    plugin = find_connector(plugins, name)
    connector: Connector = plugin.made()
    given = {k: v for k, v in config.items() if v is not None}
    is_sink = isinstance(connector, SinkConnector)
    definition = base.SINK_CONFIG if is_sink else base.SOURCE_CONFIG
    definition = _with_defaults(enrich(plugins, definition, given), plugins, plugin, given, worker)
    values = definition.validate(config, plugins.find_class)
    if is_sink:
        base.check_sink(config, values)
    for each, value in config.items():
        if value is None:
            values.setdefault(each, ConfigValue(each)).errors.append(
                "Null value can not be supplied as the configuration value."
            )
    if check_more is not None:
        check_more(connector, given, values)
    own = connector.config()
    own_values = connector.validate(given)
    keys = {**definition.keys, **own.keys}
    groups = list(dict.fromkeys([*definition.groups(), *own.groups()]))
    infos, count = _infos(keys, [*values.values(), *own_values.values()])
    answer: Json = {"name": name, "error_count": count, "groups": groups, "configs": infos}
    _add_overrides(answer, is_sink, given, check_override)
    for role in (base.HEADER_CONVERTER, base.KEY_CONVERTER, base.VALUE_CONVERTER):
        _add_converter(answer, plugins, given, values[role], role)
    return answer


def _with_defaults(
    definition: ConfigDef,
    plugins: Plugins,
    plugin: Plugin,
    given: Mapping[str, str],
    worker: Mapping[str, str],
) -> ConfigDef:
    """Return the definitions with the worker's converters and the present versions as defaults."""
    found = ConfigDef(definition)

    def default(name: str, value: Any) -> None:
        found.keys[name] = replace(found.keys[name], default=value)

    default("connector.plugin.version", plugin.version)
    for role in (base.KEY_CONVERTER, base.VALUE_CONVERTER, base.HEADER_CONVERTER):
        kind = PluginKind.HEADER_CONVERTER if "header" in role else PluginKind.CONVERTER
        try:
            default(role, plugins.find(worker.get(role, ""), kind))
            used = plugins.find(given.get(role) or worker.get(role, ""), kind)
        except UnknownPluginError:
            continue
        default(f"{role}.plugin.version", used.version)
    return found


def _infos(keys: Mapping[str, ConfigKey], values: Iterable[ConfigValue]) -> tuple[list[Json], int]:
    infos: list[Json] = []
    by_name: dict[str, ConfigValue] = {}
    count = 0
    for each in values:
        by_name[each.name] = each
        if each.name not in keys:
            infos.append({"definition": None, "value": value_json(each, None)})
            count += len(each.errors)
    for name, key in keys.items():
        value = by_name.get(name)
        shown = None if value is None else value_json(value, key.type)
        count += 0 if value is None else len(value.errors)
        infos.append({"definition": key_json(key), "value": shown})
    return infos, count


def enrich(plugins: Plugins, definition: ConfigDef, given: Mapping[str, str]) -> ConfigDef:
    """Return the definitions with those of each transform and predicate that is named."""
    enriched = ConfigDef(definition)
    for word, kind, title in (
        ("transforms", PluginKind.TRANSFORMATION, "Transformation"),
        ("predicates", PluginKind.PREDICATE, "Predicate"),
    ):
        aliases = parse_value(word, given.get(word, ""), ConfigType.LIST)
        for alias in dict.fromkeys(aliases):
            _add_alias(enriched, plugins, given, (word, alias, title), kind)
    return enriched


class _Classes:
    """Recommends all plugins of a kind."""

    def __init__(self, plugins: Plugins, kind: PluginKind) -> None:
        self._names = [each.name for each in plugins.of_kind(kind)]

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        """See `Recommender`."""
        return list(self._names)

    def is_visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """See `Recommender`."""
        return True


def _add_alias(
    enriched: ConfigDef,
    plugins: Plugins,
    given: Mapping[str, str],
    names: tuple[str, str, str],
    kind: PluginKind,
) -> None:
    word, alias, title = names
    prefix = f"{word}.{alias}."
    group = f"{word.capitalize()}: {alias}"

    def validate(name: str, value: Any) -> None:
        if prefix + "negate" in given and prefix + "predicate" not in given:
            raise ConfigError(
                f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' "
                "defining a predicate to be negated."
            )
        if isinstance(value, Plugin) and value.kind != kind:
            raise ConfigError.of(name, value.name, f"Not a {title}")

    enriched.keys[prefix + "type"] = ConfigKey(
        prefix + "type",
        ConfigType.CLASS,
        REQUIRED,
        Importance.HIGH,
        f"Class for the '{alias}' {title.lower()}.",
        validate,
        group,
        0,
        Width.LONG,
        f"{title} type for {alias}",
        (),
        _Classes(plugins, kind),
    )
    enriched.keys[prefix + "plugin.version"] = ConfigKey(
        prefix + "plugin.version",
        ConfigType.STRING,
        None,
        Importance.HIGH,
        f"Version of the '{alias}' {title.lower()}.",
        None,
        group,
        1,
        Width.LONG,
        f"{title} version for {alias}",
    )
    try:
        plugin = plugins.find(given.get(prefix + "type", "").strip(), kind)
    except UnknownPluginError:
        return
    version = enriched.keys[prefix + "plugin.version"]
    enriched.keys[version.name] = replace(version, default=plugin.version)
    enriched.embed(prefix, group, 2, _with_predicate(plugin, kind))


def _with_predicate(plugin: Plugin, kind: PluginKind) -> ConfigDef:
    """Return the definitions of a transform or a predicate, with what the chain adds."""
    found = ConfigDef()
    if kind == PluginKind.TRANSFORMATION:
        found.define(
            "predicate",
            ConfigType.STRING,
            None,
            Importance.MEDIUM,
            "The alias of the predicate that decides whether the transform is applied.",
        )
        found.define(
            "negate",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Whether the transform is applied if the predicate is false.",
        )
    for key in plugin.made.config().keys.values():
        found.keys.setdefault(key.name, key)
    return found


def _add_overrides(
    answer: Json, is_sink: bool, given: Mapping[str, str], check: CheckOverride | None
) -> None:
    if check is None:
        return
    has_dead_letters = bool((given.get(base.DEAD_LETTERS) or "").strip())
    clients = {
        "producer": not is_sink or has_dead_letters,
        "admin": has_dead_letters if is_sink else base.creates_topics(given),
        "consumer": is_sink,
    }
    for client, is_used in clients.items():
        prefix = f"{client}.override."
        for name, value in given.items():
            if not is_used or not name.startswith(prefix):
                continue
            error = check(client, name.removeprefix(prefix))
            shown = ConfigValue(name, value, errors=[] if error is None else [error])
            answer["configs"].append({"definition": None, "value": value_json(shown, None)})
            answer["error_count"] += len(shown.errors)


def _add_converter(
    answer: Json, plugins: Plugins, given: Mapping[str, str], value: ConfigValue, role: str
) -> None:
    """Add what a converter that the connector names has to say."""
    plugin = value.value
    if role not in given or value.errors or not isinstance(plugin, Plugin):
        return
    kind = role.removesuffix(".converter")
    definition = plugin.made.config()
    own = {
        name.removeprefix(role + "."): each
        for name, each in given.items()
        if name.startswith(role + ".")
    }
    own.setdefault("converter.type", kind)
    for found in definition.validate(own, plugins.find_class).values():
        key = definition.keys.get(found.name)
        prefixed = ConfigValue(f"{role}.{found.name}", found.value, found.recommended, found.errors)
        shown = value_json(prefixed, key.type if key else None)
        described = None if key is None else {**key_json(key), "name": f"{role}.{key.name}"}
        answer["configs"].append({"definition": described, "value": shown})
        answer["error_count"] += 1 if found.errors else 0
    for group in definition.groups():
        if group not in answer["groups"]:
            answer["groups"].append(group)


def key_json(key: ConfigKey) -> Json:
    """Return a definition as the REST API shows it."""
    return {
        "name": key.name,
        "type": key.type.value,
        "required": key.is_required,
        "default_value": None if key.is_required else _text(key.default, key.type),
        "importance": key.importance.value,
        "documentation": key.documentation,
        "group": key.group,
        "order_in_group": key.order_in_group,
        "width": key.width.value,
        "display_name": key.display_name,
        "dependents": list(key.dependents),
    }


def _text(value: Any, kind: ConfigType | None) -> str | None:
    return value.name if isinstance(value, Plugin) else text_of(value, kind)


def value_json(value: ConfigValue, kind: ConfigType | None) -> Json:
    """Return a value as the REST API shows it."""
    return {
        "name": value.name,
        "value": _text(value.value, kind),
        "recommended_values": [text_of(each, kind) for each in value.recommended],
        "errors": value.errors,
        "visible": value.is_visible,
    }


def error_text(answer: Json) -> str | None:
    """Return the text of the error 400 about an invalid configuration; None if it is valid."""
    if not answer["error_count"]:
        return None
    messages = [
        message
        for info in answer["configs"]
        if info["value"] is not None
        for message in info["value"]["errors"]
    ]
    lines = "".join(f"\n{each}" for each in messages)
    return (
        "Connector configuration is invalid and contains the following "
        f"{answer['error_count']} error(s):{lines}\nYou can also find the above list of errors at the "
        "endpoint `/connector-plugins/{connectorType}/config/validate`"
    )


def plugin_config(plugins: Plugins, name: str) -> list[Json]:
    """Return the definitions of a plugin.

    Raises:
        RestError: there is no such plugin.
    """
    try:
        plugin = plugins.find(name)
    except UnknownPluginError:
        raise not_found(f"Unknown plugin {name}.") from None
    keys = dict(plugin.made.config().keys)
    if issubclass(plugin.made, Connector):
        is_source = issubclass(plugin.made, SourceConnector)
        common = base.SOURCE_CONFIG if is_source else base.SINK_CONFIG
        for key in common.keys.values():
            is_version = key.name == "connector.plugin.version"
            found = replace(key, default=plugin.version) if is_version else key
            keys.setdefault(key.name, found)
    return [key_json(each) for each in keys.values()]
