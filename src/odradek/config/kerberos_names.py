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
Kafka's KerberosShortNamer. Patterns and replacements are Java's (see `odradek.java_regex`); a mistake in
a replacement is an error when the rules are read, in Kafka when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from odradek.config.checks import ConfigurationError
from odradek.model.principal import NoUser

if TYPE_CHECKING:
    from odradek.java_regex.pattern import Pattern, Replacement

NAME = "sasl.kerberos.principal.to.local.rules"
_KERBEROS_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(
    r"RULE:\[(?P<parts>[0-9]+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_FORMAT = re.compile(r"\$([0-9]*)")
_PARTS_MAX = 0x7FFFFFFF


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


class _Substitution(NamedTuple):
    pattern: Pattern
    replacement: Replacement
    replaces_all: bool


class _Rule(NamedTuple):
    text: str
    parts: int
    format: str
    match: Pattern | None
    substitution: _Substitution | None
    case: str

    def apply(self, values: list[str]) -> str | None:
        """Return the result for a realm and the parts before it; None if the rule does not apply."""
        if len(values) - 1 != self.parts:
            return None
        base = _FORMAT.sub(lambda found: values[int(found[1])], self.format)
        if self.match is not None and not self.match.matches(base):
            return None
        if self.substitution is None:
            return base
        pattern, replacement, replaces_all = self.substitution
        replaced = pattern.replace_all if replaces_all else pattern.replace_first
        return replaced(base, replacement)


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
                result = _applied(rule, name, values)
            if result is None:
                continue
            if not result or "/" in result or "@" in result:
                raise NoUser(f"the result {result!r} of the rule {text} for {name} is no user")
            case = "" if rule is None else rule.case
            return result.lower() if case == "L" else result.upper() if case == "U" else result
        raise NoUser(f"no rule of {NAME} applies to {name}")


def _applied(rule: _Rule, name: str, values: list[str]) -> str | None:
    from odradek.java_regex.errors import MatchRefused

    try:
        return rule.apply(values)
    except MatchRefused as reason:
        raise NoUser(f"the rule {rule.text} does not decide for {name}: {reason}") from None


def _rule(text: str) -> _Rule:
    # Most nodes have no rules, so they need not load this.
    from odradek.java_regex.errors import PatternError
    from odradek.java_regex.pattern import Pattern

    found = _RULE.fullmatch(text)
    if found is None:
        raise ConfigurationError.of(NAME, text, "a rule is malformed")
    parts = int(found["parts"])
    if parts > _PARTS_MAX:
        raise ConfigurationError.of(NAME, text, f"{parts} is too large")
    numbers = _FORMAT.findall(found["format"])
    if not all(each and int(each) <= parts for each in numbers):
        raise ConfigurationError.of(NAME, text, f"$ must be followed by a number from 0 to {parts}")
    try:
        match = None if found["match"] is None else Pattern(found["match"])
        substitution = None
        if found["pattern"] is not None:
            pattern = Pattern(found["pattern"])
            replacement = pattern.replacement(found["replacement"])
            substitution = _Substitution(pattern, replacement, found["all"] is not None)
    except PatternError as error:
        raise ConfigurationError.of(NAME, text, str(error)) from None
    return _Rule(text, parts, found["format"], match, substitution, found["case"] or "")
