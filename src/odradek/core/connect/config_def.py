"""Definitions of configurations, and their validation with Kafka's texts (`ConfigDef`)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from odradek.core.connect.errors import ConfigError
from odradek.core.connect.java_text import java_double

_COMMA = re.compile(r"\s*,\s*")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}


class ConfigType(Enum):
    """The type of a value."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type


class Importance(Enum):
    """How much a value matters to a user."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """How wide an input field for the value should be."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required:
    """The type of `REQUIRED`."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
"""The default of a value that must be given."""


class Password(str):
    """A secret. It is shown as `[hidden]`; `secret` is the text."""

    __slots__ = ()

    @property
    def secret(self) -> str:
        """The text."""
        return str.__str__(self)

    def __str__(self) -> str:
        return "[hidden]"

    def __repr__(self) -> str:
        return "[hidden]"


Validator = Callable[[str, Any], None]
"""Checks a parsed value of a name. Raises ConfigError."""


class Recommender(Protocol):
    """Knows which values are possible, and whether a value matters."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        """Return the possible values."""
        ...

    def is_visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Return whether the value has an effect."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The definition of a value."""

    name: str
    type: ConfigType
    default: Any
    importance: Importance
    documentation: str = ""
    validator: Validator | None = None
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is REQUIRED


@dataclass(slots=True)
class ConfigValue:
    """A value with what is wrong with it."""

    name: str
    value: Any = None
    recommended: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    is_visible: bool = True

    def set_value(self, value: Any) -> None:
        """Set the parsed value."""
        self.value = value

    def recommend(self, values: list[Any], is_visible: bool) -> None:
        """Set what the recommender says."""
        self.recommended = values
        self.is_visible = is_visible


FindClass = Callable[[str], Any]
"""Finds a plugin by the name in a configuration. Raises LookupError."""


def no_class(name: str) -> Any:
    """Find no class."""
    raise LookupError(name)


class ConfigDef:
    """The definitions of a configuration, in order."""

    def __init__(self, base: ConfigDef | None = None) -> None:
        self.keys: dict[str, ConfigKey] = {} if base is None else dict(base.keys)

    def define(
        self,
        name: str,
        type: ConfigType,  # noqa: A002 - the word of Kafka
        default: Any = REQUIRED,
        importance: Importance = Importance.MEDIUM,
        documentation: str = "",
        *,
        validator: Validator | None = None,
        group: str | None = None,
        order: int = -1,
        width: Width = Width.NONE,
        display: str | None = None,
        dependents: Iterable[str] = (),
        recommender: Recommender | None = None,
    ) -> ConfigDef:
        """Define a value, and return this object.

        Raises:
            ConfigError: the name is defined already, or the default is invalid.
        """
        if name in self.keys:
            raise ConfigError(f"Configuration {name} is defined twice.")
        if default is not REQUIRED and validator is not None:
            validator(name, default)
        self.keys[name] = ConfigKey(
            name,
            type,
            default,
            importance,
            documentation,
            validator,
            group,
            order,
            width,
            name if display is None else display,
            tuple(dependents),
            recommender,
        )
        return self

    def embed(self, prefix: str, group: str, start: int, child: ConfigDef) -> None:
        """Define the values of `child` with a prefix, as a group of its own, the important ones first."""
        ranks = {rank: index for index, rank in enumerate(Importance)}
        keys = sorted(
            child.keys.values(),
            key=lambda each: (not each.is_required, ranks[each.importance], each.name),
        )
        for order, key in enumerate(keys, start):
            self.define(
                prefix + key.name,
                key.type,
                key.default,
                key.importance,
                key.documentation,
                validator=_unprefixed(prefix, key.validator),
                group=group,
                order=order,
                width=key.width,
                display=key.display_name,
                dependents=[prefix + each for each in key.dependents],
                recommender=key.recommender,
            )

    def groups(self) -> list[str]:
        """Return the names of the groups in the order of their first values."""
        return list(dict.fromkeys(k.group for k in self.keys.values() if k.group is not None))

    def parse(self, given: Mapping[str, Any], find_class: FindClass = no_class) -> dict[str, Any]:
        """Return the parsed values by name.

        Raises:
            ConfigError: a value is missing or invalid.
        """
        parsed: dict[str, Any] = {}
        for key in self.keys.values():
            if key.name in given:
                value = parse_value(key.name, given[key.name], key.type, find_class)
            elif key.is_required:
                raise ConfigError(missing(key.name))
            else:
                value = key.default
            if key.validator is not None:
                key.validator(key.name, value)
            parsed[key.name] = value
        return parsed

    def validate(
        self, given: Mapping[str, Any], find_class: FindClass = no_class
    ) -> dict[str, ConfigValue]:
        """Return each value with its errors."""
        values = {name: ConfigValue(name) for name in self.keys}
        for key in self.keys.values():
            for dependent in key.dependents:
                if dependent not in self.keys:
                    message = f"{dependent} is referred in the dependents, but not defined."
                    values[dependent] = ConfigValue(dependent, errors=[message], is_visible=False)
        parsed = {
            key.name: self._parse(key, given, values[key.name], find_class)
            for key in self.keys.values()
        }
        for key in self.keys.values():
            if key.recommender is not None:
                self._recommend(key, key.recommender, parsed, values[key.name])
        return values

    def _parse(
        self, key: ConfigKey, given: Mapping[str, Any], value: ConfigValue, find_class: FindClass
    ) -> Any:
        parsed = None
        if key.name in given:
            try:
                parsed = parse_value(key.name, given[key.name], key.type, find_class)
            except ConfigError as error:
                value.errors.append(str(error))
        elif key.is_required:
            value.errors.append(missing(key.name))
        else:
            parsed = key.default
        if key.validator is not None:
            try:
                key.validator(key.name, parsed)
            except ConfigError as error:
                value.errors.append(str(error))
        value.set_value(parsed)
        return parsed

    def _recommend(
        self,
        key: ConfigKey,
        recommender: Recommender,
        parsed: Mapping[str, Any],
        value: ConfigValue,
    ) -> None:
        try:
            value.recommend(
                recommender.valid_values(key.name, parsed),
                recommender.is_visible(key.name, parsed),
            )
        except ConfigError as error:
            value.errors.append(str(error))

    def unknown(self, given: Iterable[str]) -> dict[str, str | None]:
        """Return the names that are not defined, with the nearest name that is."""
        found: dict[str, str | None] = {}
        for name in given:
            if name not in self.keys:
                near = difflib.get_close_matches(name, self.keys, 1, 0.8)
                found[name] = near[0] if near else None
        return found


def missing(name: str) -> str:
    """Return the text about a value that must be given."""
    return f'Missing required configuration "{name}" which has no default value.'


def _unprefixed(prefix: str, validator: Validator | None) -> Validator | None:
    if validator is None:
        return None

    def validate(name: str, value: Any) -> None:
        validator(name.removeprefix(prefix), value)

    return validate


def parse_value(name: str, value: Any, kind: ConfigType, find_class: FindClass = no_class) -> Any:
    """Return a value of a type.

    Raises:
        ConfigError: it is not a value of this type.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return _parse_text(name, value, kind, find_class)
    return _check_object(name, value, kind)


def _parse_text(name: str, value: str, kind: ConfigType, find_class: FindClass) -> Any:
    text = value.strip(_JAVA_BLANKS)
    match kind:
        case ConfigType.BOOLEAN:
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
            raise ConfigError.of(name, value, "Expected value to be either true or false")
        case ConfigType.PASSWORD:
            return Password(text)
        case ConfigType.STRING:
            return text
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _integer(name, value, text, kind)
        case ConfigType.DOUBLE:
            return _double(name, value, text)
        case ConfigType.LIST:
            return _COMMA.split(text) if text else []
        case ConfigType.CLASS:
            try:
                return find_class(text)
            except LookupError:
                raise ConfigError.of(name, value, f"Class {value} could not be found.") from None


_JAVA_BLANKS = "".join(map(chr, range(33)))


def _integer(name: str, value: str, text: str, kind: ConfigType) -> int:
    limit = 1 << (_BITS[kind.name] - 1)
    number = int(text) if _INTEGER.match(text) else limit
    if not -limit <= number < limit:
        raise ConfigError.of(name, value, f"Not a number of type {kind.name}")
    return number


def _double(name: str, value: str, text: str) -> float:
    try:
        if "_" in text or text.lower().lstrip("+-") in ("inf", "nan", "infinity"):
            raise ValueError(text)
        return float(text[:-1] if text[-1:] in ("d", "D", "f", "F") else text)
    except ValueError:
        raise ConfigError.of(
            name, value, f"Not a number of type {ConfigType.DOUBLE.name}"
        ) from None


def _check_object(name: str, value: Any, kind: ConfigType) -> Any:
    allowed: dict[ConfigType, tuple[type, ...]] = {
        ConfigType.BOOLEAN: (bool,),
        ConfigType.INT: (int,),
        ConfigType.SHORT: (int,),
        ConfigType.LONG: (int,),
        ConfigType.DOUBLE: (int, float),
        ConfigType.LIST: (list,),
        ConfigType.CLASS: (type,),
    }
    if not isinstance(value, allowed.get(kind, ())):
        raise ConfigError.of(name, value, f"Not a value of type {kind.name}")
    return value


def text_of(value: Any, kind: ConfigType | None) -> str | None:
    """Return a parsed value as the REST API shows it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        if kind == ConfigType.LIST:
            return ",".join(map(str, value))
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, float):
        return java_double(value)
    java_name = getattr(value, "java_name", None)
    if java_name is not None:
        return str(java_name)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    return str(value)


# -- validators -------------------------------------------------------------------------------


def at_least(lowest: float) -> Validator:
    """Return a validator of the lowest number."""

    def validate(name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.of(name, None, "Value must be non-null")
        if value < lowest:
            raise ConfigError.of(name, value, f"Value must be at least {lowest}")

    return validate


def between(lowest: float, highest: float) -> Validator:
    """Return a validator of a range of numbers, whose ends are allowed."""
    check_lowest = at_least(lowest)

    def validate(name: str, value: Any) -> None:
        check_lowest(name, value)
        if value > highest:
            raise ConfigError.of(name, value, f"Value must be no more than {highest}")

    return validate


def one_of(*words: str) -> Validator:
    """Return a validator of words."""

    def validate(name: str, value: Any) -> None:
        if value not in words:
            raise ConfigError.of(name, value, f"String must be one of: {', '.join(words)}")

    return validate


def one_of_in_any_case(*words: str) -> Validator:
    """Return a validator of words, whose case does not matter."""
    upper = {each.upper() for each in words}

    def validate(name: str, value: Any) -> None:
        if value is None or value.upper() not in upper:
            raise ConfigError.of(
                name, value, f"String must be one of (case insensitive): {', '.join(words)}"
            )

    return validate


def non_null(name: str, value: Any) -> None:
    """Refuse null."""
    if value is None:
        raise ConfigError.of(name, None, "entry must be non null")


def non_empty(name: str, value: Any) -> None:
    """Refuse an empty text."""
    if value is not None and not value:
        raise ConfigError.of(name, value, "String must be non-empty")


def non_empty_without_control_characters(name: str, value: Any) -> None:
    """Refuse an empty text, and one with control characters."""
    if value is None:
        return
    if not value:
        raise ConfigError.of(name, value, "String may not be empty")
    found = [ord(each) for each in value if ord(each) < 32 or 127 <= ord(each) < 160]
    if found:
        codes = ", ".join(map(str, found))
        raise ConfigError.of(
            name,
            value,
            f"String may not contain control sequences but had the following ASCII chars: {codes}",
        )


def non_empty_list(name: str, value: Any) -> None:
    """Refuse null and an empty list."""
    if not value:
        raise ConfigError.of(name, value, "Empty list")


def unique_aliases(name: str, value: Any) -> None:
    """Refuse null, and a list with an alias twice."""
    non_null(name, value)
    if len(value) > len(set(value)):
        raise ConfigError.of(name, value, "Duplicate alias provided.")


def all_of(*validators: Validator) -> Validator:
    """Return a validator that calls several."""

    def validate(name: str, value: Any) -> None:
        for each in validators:
            each(name, value)

    return validate


def if_given(validator: Validator) -> Validator:
    """Return a validator that accepts null, too."""

    def validate(name: str, value: Any) -> None:
        if value is not None:
            validator(name, value)

    return validate
