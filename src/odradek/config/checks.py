"""Checks of values, in the notation of the definitions.

| word | meaning |
|---|---|
| `>=N` | a number not below N |
| `A..B` | a number from A to B |
| `A..B\\|N` | a number from A to B, or the number N |
| `{a,b}` | one of these words; each element of a list must be one of these words |
| `any-case{a,b}` | one of these words, in upper or lower case |
| `distinct` | a list without empty elements; duplicates are removed |
| `non-empty` | not an empty text, and not an empty list |
| `voters` | id@host:port, ... |
| `endpoints` | host:port, ... |
| `replicas` | partition:broker, ..., or `*` |
| `offset-reset` | latest, earliest, or by_duration:<ISO 8601 duration> |
| `priorities` | topic:priority, ... |
"""

from __future__ import annotations

import re
from collections.abc import Callable


class ConfigurationError(ValueError):
    """A setting or a combination of settings that cannot be used."""

    @classmethod
    def of(cls, name: str, value: object, problem: str) -> ConfigurationError:
        """Return an error with the message format of Kafka."""
        return cls(f"Invalid value {value} for configuration {name}: {problem}")


class Secret:
    """A value that is never shown."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __bool__(self) -> bool:
        """Whether there is a value."""
        return self.value != ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return "[hidden]"


Value = bool | int | float | str | tuple[str, ...] | Secret | None


class Check:
    """A requirement on a value. `description` is its text in the documentation."""

    __slots__ = ("_apply", "description")

    def __init__(self, description: str, apply: Callable[[str, Value], Value]) -> None:
        self.description = description
        self._apply = apply

    def apply(self, name: str, value: Value) -> Value:
        """Return the value, which may be normalized.

        Raises:
            ConfigurationError: the value is invalid.
        """
        return self._apply(name, value)


# Patterns are compiled at first use, so that importing this module stays fast.
_RANGE = r"(-?[\d.]+?)\.\.(-?[\d.]+)(?:\|(-?\d+))?"


def parse_check(word: str) -> Check:
    """Return the check for a word of a definition."""
    if word in _NAMED:
        return _NAMED[word]
    if word.startswith(">="):
        return _range(float(word[2:]), None, None, f"[{word[2:]},...]")
    if found := re.fullmatch(_RANGE, word):
        low, high, other = found.groups()
        description = f"[{low},...,{high}]" + (f" or {other}" if other else "")
        return _range(float(low), float(high), float(other) if other else None, description)
    prefix, brace, values = word.rstrip("}").partition("{")
    assert brace, f"unknown check {word!r}"
    return _one_of(tuple(values.split(",")), any_case=prefix == "any-case")


def _range(low: float, high: float | None, other: float | None, description: str) -> Check:
    def apply(name: str, value: Value) -> Value:
        assert isinstance(value, (int, float))
        if value != other:
            if value < low:
                raise ConfigurationError.of(name, value, f"must be at least {low:.15g}")
            if high is not None and value > high:
                raise ConfigurationError.of(name, value, f"must be at most {high:.15g}")
        return value

    return Check(description, apply)


def _one_of(allowed: tuple[str, ...], any_case: bool) -> Check:
    lowered = {each.lower() for each in allowed} if any_case else set(allowed)
    names = ", ".join(allowed)

    def apply(name: str, value: Value) -> Value:
        if isinstance(value, tuple):
            value = distinct(name, value)
        for element in value if isinstance(value, tuple) else (value,):
            assert isinstance(element, str)
            if (element.lower() if any_case else element) not in lowered:
                raise ConfigurationError.of(name, element, f"must be one of {names}")
        return value

    return Check(("any case: " if any_case else "") + f"[{names}]", apply)


def distinct(name: str, value: Value) -> tuple[str, ...]:
    """Return the list without duplicates.

    Raises:
        ConfigurationError: an element is empty.
    """
    assert isinstance(value, tuple)
    if "" in value:
        raise ConfigurationError.of(name, ",".join(value), "no element may be empty")
    return tuple(dict.fromkeys(value))


def _non_empty(name: str, value: Value) -> Value:
    if not value:
        raise ConfigurationError.of(name, '""', "must not be empty")
    return value


_ENDPOINT = r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]+)"


def host_and_port(name: str, text: str, form: str) -> tuple[str, int]:
    """Return the two parts of `host:port` or `[address]:port`.

    Raises:
        ConfigurationError: the text does not have this form.
    """
    found = re.fullmatch(_ENDPOINT, text)
    if found is None or int(found[2]) > 65535:
        raise ConfigurationError.of(name, text, f"each entry must have the form {form}")
    return found[1], int(found[2])


def voters(name: str, value: Value) -> dict[int, tuple[str, int]]:
    """Parse `id@host:port` entries. Return host and port of the voters by id.

    Raises:
        ConfigurationError: an entry does not have this form.
    """
    assert isinstance(value, tuple)
    result: dict[int, tuple[str, int]] = {}
    for entry in value:
        id_text, _, endpoint = entry.partition("@")
        if not id_text.isdecimal():
            raise ConfigurationError.of(name, entry, "each entry must have the form id@host:port")
        result[int(id_text)] = host_and_port(name, endpoint, "id@host:port")
    return result


def _check_voters(name: str, value: Value) -> Value:
    voters(name, value)
    return value


def _check_endpoints(name: str, value: Value) -> Value:
    assert isinstance(value, tuple)
    for entry in value:
        host_and_port(name, entry, "host:port")
    return value


_REPLICA = r"([0-9]+:[0-9]+)?"


def _check_replicas(name: str, value: Value) -> Value:
    assert isinstance(value, tuple)
    if value != ("*",) and not all(re.fullmatch(_REPLICA, each) for each in value):
        raise ConfigurationError.of(
            name, ",".join(value), "must be * or a list of partition:broker, partition:broker, ..."
        )
    return value


_PRIORITY = r"([a-zA-Z0-9._-]{1,249}):(-?[0-9]{1,9})"


def priorities(name: str, value: Value) -> dict[str, int]:
    """Parse `topic:priority` entries. Return the priorities by topic.

    Raises:
        ConfigurationError: an entry does not have this form, or a topic has two priorities.
    """
    assert isinstance(value, tuple)
    result: dict[str, int] = {}
    for entry in value:
        found = re.fullmatch(_PRIORITY, entry)
        if found is None:
            raise ConfigurationError.of(name, entry, "each entry must have the form topic:priority")
        if found[1] in result:
            raise ConfigurationError.of(name, ",".join(value), f"{found[1]} has two priorities")
        result[found[1]] = int(found[2])
    return result


def _check_priorities(name: str, value: Value) -> Value:
    priorities(name, value)
    return value


_DURATION = (
    r"(?i:[-+]?P(?=.)([-+]?\d+D)?(T(?=.)([-+]?\d+H)?([-+]?\d+M)?([-+]?\d+([.,]\d{0,9})?S)?)?)"
)


def _check_offset_reset(name: str, value: Value) -> Value:
    assert isinstance(value, str)
    kind, _, duration = value.partition(":")
    fine = value in {"latest", "earliest"} or (
        kind == "by_duration" and re.fullmatch(_DURATION, duration) and "-" not in duration
    )
    if not fine:
        raise ConfigurationError.of(
            name, value, "must be latest, earliest or by_duration:<ISO 8601 duration>"
        )
    return value


def duration_ms(text: str) -> float:
    """Return the milliseconds of an ISO 8601 duration with days, hours, minutes and seconds."""
    found = re.fullmatch(_DURATION, text)
    if found is None:
        raise ValueError(f"{text} is not a duration")
    total_ms = 0.0
    for number, unit in re.findall(r"([-+]?[\d.,]+)([DHMS])", text.upper()):
        total_ms += float(number.replace(",", ".")) * _UNIT_MS[unit]
    return total_ms


_UNIT_MS = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1_000}

_NAMED = {
    "distinct": Check("no element twice", distinct),
    "non-empty": Check("not empty", _non_empty),
    "voters": Check("id@host:port, ...", _check_voters),
    "endpoints": Check("host:port, ...", _check_endpoints),
    "replicas": Check("partition:broker, ... or *", _check_replicas),
    "offset-reset": Check("latest, earliest, by_duration:...", _check_offset_reset),
    "priorities": Check("topic:priority, ...", _check_priorities),
}
