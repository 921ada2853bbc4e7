"""The definition of a setting, and the notation of settings.

A module of `definitions/` has a text of the form

    [accepted: one event loop per node serves all requests]
    num.network.threads  int  = 3  >=1  high  cluster-wide
        Threads that read requests and write responses.

A line in brackets gives the status of the settings below the line:

- `honoured`;
- `accepted`, with the reason why the setting can be ignored;
- `unsupported`, with the consequence, which is part of a warning;
- `refused`, with the reason why a node does not start.

Each setting has a line of facts and a line of documentation. The facts are in this order:

- the name and the type;
- the default: `= value`, `required`, or nothing for null;
- the checks (see `checks`) and the importance;
- `per-broker` or `cluster-wide`, if the setting can be changed while the node runs;
- `internal`, if the documentation does not show the setting;
- `from` with broker settings, which apply if a topic or group does not set the setting.

The facts are equal to Apache Kafka's `ConfigDef`s. `tests/oracle` compares them.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

from odradek.config.checks import Check, ConfigurationError, Secret, Value, parse_check

__all__ = [
    "ConfigurationError",
    "Secret",
    "Setting",
    "SettingType",
    "Status",
    "Synonym",
    "UpdateMode",
    "Value",
    "read_settings",
    "value_text",
]


class SettingType(IntEnum):
    """The type of a value, numbered as in DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(StrEnum):
    """Whether and how a setting can be changed while the node runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Status(StrEnum):
    """What Odradek does with a setting."""

    HONOURED = "honoured"
    ACCEPTED = "accepted"
    """The setting is ignored, and nothing is missing."""
    UNSUPPORTED = "unsupported"
    """The setting is ignored. A value other than the default causes a warning."""
    REFUSED = "refused"
    """A value other than the default prevents the start."""


class Synonym(NamedTuple):
    """A broker setting that is the default of a topic's or group's setting."""

    name: str
    factor: int
    """The factor that converts a value from hours or minutes to milliseconds."""


_FACTORS = {"": 1, "minutes": 60_000, "hours": 3_600_000}
_INTEGER_BITS = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}
_MODES = {"per-broker": UpdateMode.PER_BROKER, "cluster-wide": UpdateMode.CLUSTER_WIDE}
REQUIRED = object()
"""The default of a required setting."""


class Setting:
    """The definition of one setting."""

    __slots__ = (
        "_checks",
        "_default_text",
        "documentation",
        "importance",
        "internal",
        "name",
        "reason",
        "required",
        "status",
        "synonyms",
        "type",
        "update_mode",
    )

    def __init__(
        self, name: str, facts: list[str], documentation: str, status: Status, reason: str
    ) -> None:
        self.name = name
        self.documentation = documentation
        self.status = status
        self.reason = reason
        """The reason why the setting can be ignored, what is missing, or why it is refused."""
        self.type = SettingType[facts[0].upper()]
        self.internal = False
        self.update_mode = UpdateMode.READ_ONLY
        self.synonyms: tuple[Synonym, ...] = ()
        if "from" in facts:
            at = facts.index("from")
            self.synonyms = tuple(_synonym(word) for word in facts[at + 1 :])
            facts = facts[:at]
        while facts[-1] in _MODES or facts[-1] == "internal":
            word = facts.pop()
            if word == "internal":
                self.internal = True
            else:
                self.update_mode = _MODES[word]
        self.importance = facts.pop()
        """The word high, medium or low."""
        self.required = facts[1:2] == ["required"]
        self._default_text: str | None = None
        if facts[1:2] == ["="]:
            self._default_text = "" if facts[2] == '""' else facts[2]
        checks = facts[3:] if self._default_text is not None else facts[1 + self.required :]
        self._checks: list[str] | tuple[Check, ...] = checks

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of a value in addition to its type. They are created at first use."""
        if isinstance(self._checks, list):
            self._checks = tuple(parse_check(word) for word in self._checks)
        return self._checks

    @property
    def is_sensitive(self) -> bool:
        """Whether values must never be shown."""
        return self.type is SettingType.PASSWORD

    @property
    def is_list(self) -> bool:
        """Whether APPEND and SUBTRACT apply."""
        return self.type is SettingType.LIST

    @property
    def default(self) -> Value:
        """The parsed default; None for null, and if a value is required."""
        return None if self._default_text is None else _convert(self, self._default_text)

    @property
    def default_text(self) -> str | None:
        """The default as Kafka writes it; None for null or if a value is required."""
        return self._default_text

    @property
    def description(self) -> str:
        """The documentation, with the consequence if the setting is not honoured."""
        match self.status:
            case Status.HONOURED:
                return self.documentation
            case Status.ACCEPTED:
                return f"{self.documentation} It has no effect and needs none: {self.reason}."
            case Status.UNSUPPORTED:
                return f"{self.documentation} It is not supported and has no effect: {self.reason}."
            case Status.REFUSED:
                return f"{self.documentation} It is not supported and is refused: {self.reason}."

    def shortcoming(self, text: str) -> str | None:
        """Return a sentence about the missing effect of a value; None if nothing is missing.

        Raises:
            ConfigurationError: the value is invalid.
        """
        if self.status is not Status.UNSUPPORTED or self.parse(text) == self.default:
            return None
        return f"{self.name} has no effect: {self.reason}"

    def parse(self, text: str) -> Value:
        """Parse a value.

        Raises:
            ConfigurationError: the text does not have the type, or a check fails.
        """
        value = _convert(self, text)
        for check in self.checks:
            value = check.apply(self.name, value)
        return value

    def __repr__(self) -> str:
        return f"Setting({self.name})"


def _synonym(word: str) -> Synonym:
    name, _, unit = word.partition(":")
    return Synonym(name, _FACTORS[unit])


def _convert(setting: Setting, text: str) -> Value:
    """Convert a text as Kafka's ConfigDef.parseType does. Spaces around the text are ignored."""
    trimmed = text.strip()
    match setting.type:
        case SettingType.BOOLEAN:
            lowered = trimmed.lower()
            if lowered not in {"true", "false"}:
                raise ConfigurationError.of(setting.name, text, "expected true or false")
            return lowered == "true"
        case SettingType.SHORT | SettingType.INT | SettingType.LONG:
            return _integer(setting, text, trimmed)
        case SettingType.DOUBLE:
            try:
                return float(trimmed.replace("_", "?"))  # Python allows underscores, Java does not.
            except ValueError:
                raise ConfigurationError.of(setting.name, text, "not a number") from None
        case SettingType.LIST:
            return tuple(part.strip() for part in trimmed.split(",")) if trimmed else ()
        case SettingType.PASSWORD:
            return Secret(trimmed)
        case _:
            return trimmed


def _integer(setting: Setting, text: str, trimmed: str) -> int:
    bits = _INTEGER_BITS[setting.type]
    digits = trimmed[1:] if trimmed[:1] in {"-", "+"} else trimmed
    value = int(trimmed) if digits.isdecimal() and len(digits) < 20 else 1 << 64
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ConfigurationError.of(setting.name, text, f"Not a number of type {setting.type.name}")
    return value


def value_text(value: Value) -> str | None:
    """Return a value as Kafka writes it; None for null and for secrets."""
    match value:
        case None | Secret():
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _double_text(value)
        case _:
            return str(value)


def _double_text(value: float) -> str:
    """Return a double as Java writes it: `1.7976931348623157E308`, `0.5`."""
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    if not exponent:
        return text
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(power)}"


def read_settings(text: str) -> dict[str, Setting]:
    """Parse a text of definitions, and return the settings by name."""
    settings: dict[str, Setting] = {}
    status, reason = Status.HONOURED, ""
    facts: list[str] = []
    for line in text.splitlines():
        if line.startswith("["):
            word, _, reason = line[1:-1].partition(": ")
            status = Status(word)
        elif line.startswith(" "):
            name, *rest = facts
            settings[name] = Setting(name, rest, line.strip(), status, reason)
        elif line:
            facts = line.split()
    return settings
