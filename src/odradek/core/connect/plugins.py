"""The plugins that a worker knows, by the names that configurations use.

A plugin has the full name of its Java class, or of its Python class. It is also found by the last
part of this name, and by the last part without `Connector`, `Converter` and so on, if only one plugin
has this short name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class PluginKind(Enum):
    """What a plugin is. The value is its name in the REST API."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


_SUFFIXES = {
    PluginKind.SINK: "Connector",
    PluginKind.SOURCE: "Connector",
    PluginKind.TRANSFORMATION: "Transformation",
    PluginKind.PREDICATE: "Predicate",
    PluginKind.CONVERTER: "Converter",
    PluginKind.HEADER_CONVERTER: "HeaderConverter",
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class of a kind, with its full name."""

    kind: PluginKind
    name: str
    made: type[Any]
    version: str

    @property
    def short_names(self) -> tuple[str, ...]:
        """The last part of the name, and the same without the word for its kind."""
        simple = self.name.rpartition(".")[2].rpartition("$")[2]
        suffix = _SUFFIXES[self.kind]
        pruned = simple.removesuffix(suffix) if simple != suffix else simple
        return (simple,) if pruned == simple else (simple, pruned)


class UnknownPluginError(LookupError):
    """There is no such plugin."""


class Plugins:
    """Plugins by name."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._listed = sorted(plugins, key=lambda each: (each.kind.value, each.name))
        self._by_name: dict[str, list[Plugin]] = {}
        self._by_short_name: dict[str, set[str]] = {}
        for each in self._listed:
            self._by_name.setdefault(each.name, []).append(each)
            python = python_name(each.made)
            if python != each.name:
                self._by_name.setdefault(python, []).append(each)
            for short in each.short_names:
                self._by_short_name.setdefault(short, set()).add(each.name)

    def of_kind(self, *kinds: PluginKind) -> list[Plugin]:
        """Return the plugins of some kinds, in the order of kinds, then of names."""
        return [each for kind in kinds for each in self._listed if each.kind == kind]

    def find(self, name: str, *kinds: PluginKind) -> Plugin:
        """Return the plugin with a full or short name, of one of the kinds; by default of any.

        Raises:
            UnknownPluginError: there is none, or the short name is that of several.
        """
        found = self._by_name.get(name, [])
        if not found:
            names = self._by_short_name.get(name, set())
            if len(names) == 1:
                found = self._by_name[next(iter(names))]
        for each in found:
            if not kinds or each.kind in kinds:
                return each
        raise UnknownPluginError(name)

    def nearest(self, name: str, *kinds: PluginKind) -> str | None:
        """Return the name that a user may have meant."""
        plugins = self.of_kind(*kinds)
        names = {each.name: each.name for each in plugins}
        names |= {short: short for each in plugins for short in each.short_names}
        near = difflib.get_close_matches(name, names, 1, 0.6)
        return near[0] if near else None

    def find_class(self, name: str) -> Plugin:
        """Return any plugin, as a value of the type CLASS.

        Raises:
            LookupError: there is none.
        """
        return self.find(name)


def python_name(made: type[Any]) -> str:
    """Return the full name of a class."""
    return f"{made.__module__}.{made.__qualname__}"


CONNECTORS = (PluginKind.SOURCE, PluginKind.SINK)


def plugin_of(kind: PluginKind, made: type[Any], version: str) -> Plugin:
    """Make a plugin of a class: its name is that of its Java class, if it has one."""
    java_name = getattr(made, "java_name", "")
    return Plugin(kind, java_name or python_name(made), made, made.version or version)


def shown(value: Any) -> str:
    """Return the name of a class in a configuration."""
    return value.name if isinstance(value, Plugin) else str(value)
