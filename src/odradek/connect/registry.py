"""Finds plugins: Odradek's own, and those of installed packages by entry points.

A package names its classes in `pyproject.toml`:

    [project.entry-points."odradek.connect"]
    numbers = "my_package:NumbersConnector"

Nothing is searched: a start imports only what is named.
"""

from __future__ import annotations

import importlib
import logging
from importlib.metadata import entry_points
from typing import Any

import odradek
from odradek.connect.avro_converter import AvroConverter
from odradek.connect.json_schema_converter import JsonSchemaConverter
from odradek.core.connect import converters, headers, json_converter, transforms
from odradek.core.connect.api import SinkConnector, SourceConnector
from odradek.core.connect.converter import Converter
from odradek.core.connect.plugins import Plugin, PluginKind, Plugins, plugin_of
from odradek.core.connect.transform import Predicate, Transform

log = logging.getLogger(__name__)

GROUP = "odradek.connect"
_CONVERTERS: tuple[type[Converter], ...] = (
    json_converter.JsonConverter,
    converters.StringConverter,
    converters.ByteArrayConverter,
    converters.BooleanConverter,
    converters.ShortConverter,
    converters.IntegerConverter,
    converters.LongConverter,
    converters.FloatConverter,
    converters.DoubleConverter,
)

_WITH_REGISTRY: tuple[type[Converter], ...] = (AvroConverter, JsonSchemaConverter)


def installed_plugins(*more: type[Any]) -> Plugins:
    """Return all plugins, with classes that are given."""
    listed = [*_own(), *(plugin for each in more for plugin in _of_class(each))]
    for entry in entry_points(group=GROUP):
        try:
            listed += _of_class(entry.load())
        except Exception:
            log.exception("the plugin %s (%s) cannot be loaded", entry.name, entry.value)
    return Plugins(listed)


def _own() -> list[Plugin]:
    version = odradek.__version__
    simple = headers.SimpleHeaderConverter
    return [
        *(
            plugin_of(PluginKind.CONVERTER, each, version)
            for each in (*_CONVERTERS, *_WITH_REGISTRY)
        ),
        *(plugin_of(PluginKind.HEADER_CONVERTER, each, version) for each in _CONVERTERS),
        plugin_of(PluginKind.HEADER_CONVERTER, simple, version),
        *(plugin for each in transforms.OWN for plugin in _of_class(each)),
    ]


def _of_class(made: type[Any]) -> list[Plugin]:
    kinds: list[PluginKind] = []
    for kind, base in (
        (PluginKind.SOURCE, SourceConnector),
        (PluginKind.SINK, SinkConnector),
        (PluginKind.TRANSFORMATION, Transform),
        (PluginKind.PREDICATE, Predicate),
        (PluginKind.CONVERTER, Converter),
    ):
        if issubclass(made, base):
            kinds.append(kind)
    if PluginKind.CONVERTER in kinds and made.is_for_headers:
        kinds.append(PluginKind.HEADER_CONVERTER)
    if not kinds:
        raise TypeError(f"{made} is not a connector, converter, transform or predicate")
    return [plugin_of(each, made, odradek.__version__) for each in kinds]


def load_class(name: str) -> type[Any]:
    """Return the class `package.module:Name`.

    Raises:
        LookupError: there is none.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"there is no class {name}: {error}") from None
    if not isinstance(found, type):
        raise LookupError(f"{name} is not a class")
    return found
