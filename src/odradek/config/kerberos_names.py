"""sasl.kerberos.principal.to.local.rules: maps the names of Kerberos to names of users.

    RULE:[2:$1-$2](kafka-.*)s/-.*//, RULE:[1:$1]/L, DEFAULT

A name is `primary@REALM` or `primary/instance@REALM`. A rule has these parts:

- `[n:format]`: it applies to names with n parts before the realm. In the format `$0` is the realm, and
  `$1` and `$2` are the parts. The result is the base.
- `(pattern)`, optional: the pattern must match the whole base.
- `s/pattern/replacement/`, optional: replaces the first match in the base; with `g` at the end all of
  them. In the replacement `$1` is a group of the pattern.
- `/L` or `/U`, optional: the result in lower or upper case.

DEFAULT applies to the names of the default realm; the result is the primary. The first rule that
applies determines the user. If its result has `/` or `@`, there is no user. The syntax is that of
Kafka's KerberosShortNamer; the patterns are Python's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from odradek.config.checks import ConfigurationError

NAME = "sasl.kerberos.principal.to.local.rules"
_KERBEROS_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(
    r"RULE:\[(?P<parts>[0-9]+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_FORMAT = re.compile(r"\$([0-9]*)")
_REPLACEMENT = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)


class NoUser(Exception):
    """No user belongs to a name of Kerberos."""


class KerberosName(NamedTuple):
    """A name of Kerberos."""

    primary: str
    """The user, or the name of a service."""
    instance: str | None = None
    """The host of a service, or a role of a user."""
    realm: str | None = None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Parse a name.

        Raises:
            ValueError: it is malformed.
        """
        found = _KERBEROS_NAME.fullmatch(text)
        if found is not None:
            return cls(*found.groups())
        if "@" in text:
            raise ValueError(f"malformed Kerberos name: {text}")
        return cls(text)


class _Rule(NamedTuple):
    parts: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    replaces_all: bool
    case: str

    def apply(self, values: list[str]) -> str | None:
        """Return the result for a realm and the parts before it; None if the rule does not apply."""
        if len(values) - 1 != self.parts:
            return None
        base = _FORMAT.sub(lambda found: values[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is None:
            return base
        return self.pattern.sub(self._replaced, base, count=0 if self.replaces_all else 1)

    def _replaced(self, found: re.Match[str]) -> str:
        return _REPLACEMENT.sub(lambda part: _expanded(found, part), self.replacement)


def _expanded(found: re.Match[str], part: re.Match[str]) -> str:
    """Expand a part of a replacement. As in Java, a group has as many digits as there are groups."""
    if part[1] is not None:
        return part[1]
    number, rest = _group(part[2], found.re.groups)
    return (found[number] or "") + rest


def _group(digits: str, groups: int) -> tuple[int, str]:
    end = 1
    while end < len(digits) and int(digits[: end + 1]) <= groups:
        end += 1
    return int(digits[:end]), digits[end:]


class NameRules:
    """Maps names of Kerberos to names of users."""

    def __init__(self, rules: Iterable[str]) -> None:
        """Parse the value of the setting.

        Raises:
            ConfigurationError: a rule is malformed.
        """
        self._texts = tuple(rules)
        self._rules = [None if each == "DEFAULT" else _rule(each) for each in self._texts]
        """None is the rule DEFAULT."""

    def __eq__(self, other: object) -> bool:
        """Compare the texts of the rules."""
        return isinstance(other, NameRules) and self._texts == other._texts

    def __hash__(self) -> int:
        """Return the hash of the texts."""
        return hash(self._texts)

    def user_of(self, name: str, default_realm: str) -> str:
        """Return the user of a name.

        Raises:
            NoUser: no rule applies, or the result is not a simple name.
        """
        try:
            primary, instance, realm = KerberosName.parse(name)
        except ValueError as error:
            raise NoUser(str(error)) from error
        if realm is None:
            return primary
        values = [realm, primary] if instance is None else [realm, primary, instance]
        for rule, text in zip(self._rules, self._texts, strict=True):
            if rule is None:
                result = primary if realm == default_realm else None
            else:
                result = rule.apply(values)
            if result is None:
                continue
            if not result or "/" in result or "@" in result:
                raise NoUser(f"the result {result!r} of the rule {text} for {name} is no user")
            case = "" if rule is None else rule.case
            return result.lower() if case == "L" else result.upper() if case == "U" else result
        raise NoUser(f"no rule of {NAME} applies to {name}")


def _rule(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ConfigurationError.of(NAME, text, "a rule is malformed")
    parts = int(found["parts"])
    numbers = _FORMAT.findall(found["format"])
    if not all(each and int(each) <= parts for each in numbers):
        raise ConfigurationError.of(NAME, text, f"$ must be followed by a number from 0 to {parts}")
    pattern = _compiled(text, found["pattern"])
    replacement = found["replacement"] or ""
    groups = 0 if pattern is None else pattern.groups
    for part in _REPLACEMENT.finditer(replacement):
        if part[2] is not None and _group(part[2], groups)[0] > groups:
            raise ConfigurationError.of(NAME, text, "the pattern lacks a group of its replacement")
    if re.search(r"[$\\]", _REPLACEMENT.sub("", replacement)):
        raise ConfigurationError.of(NAME, text, "the replacement is malformed")
    return _Rule(
        parts,
        found["format"],
        _compiled(text, found["match"]),
        pattern,
        replacement,
        found["all"] is not None,
        found["case"] or "",
    )


def _compiled(text: str, pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigurationError.of(NAME, text, f"a pattern is malformed: {error}") from error
