r"""ssl.principal.mapping.rules: maps the name of a certificate to a principal (KIP-371).

    RULE:^CN=(.*?),OU=.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole distinguished name applies. Then each match of the
pattern in the name is replaced: `.*` also matches the end of the name. L and U convert the result to
lower or upper case. DEFAULT is the name itself. The syntax is that of Kafka's SslPrincipalMapper.
Patterns and replacements are Java's (see `odradek.java_regex`), with Kafka's exception: a reference
in the replacement to a group that the pattern lacks is text, if the pattern has other groups.

A mistake in a replacement is an error when the rules are read. In Kafka it is one when a name matches.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from odradek.config.checks import ConfigurationError
from odradek.model.principal import NoUser

if TYPE_CHECKING:
    from odradek.java_regex.pattern import Pattern, Replacement

NAME = "ssl.principal.mapping.rules"
_ANY = "[^\n\r\x85\u2028\u2029]"
_RULE = rf"(DEFAULT)|RULE:((?:\\{_ANY}|[^\\/])*)/((?:\\{_ANY}|[^\\/])*)/([LU]?)"
_EMPTY = re.compile(r"[\s,]*", re.ASCII)
"""What may be between two rules; empty rules are ignored, as in Kafka."""
_SPLIT = re.compile(rf"\s*(?:{_RULE})\s*(?:,|\Z)", re.ASCII)
_REFERENCE = re.compile(r"\$([0-9]+)")
_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's `trim` removes from both ends."""


class _Rule(NamedTuple):
    pattern: Pattern
    replacement: Replacement
    case: str

    def apply(self, name: str) -> str | None:
        """Return the user of a name; None if the rule does not apply."""
        if not self.pattern.matches(name):
            return None
        text = self.pattern.replace_all(name, self.replacement)
        return text.lower() if self.case == "L" else text.upper() if self.case == "U" else text


def _skip_empty(text: str, position: int) -> int:
    found = _EMPTY.match(text, position)
    return position if found is None else found.end()


class PrincipalMapping:
    """Maps distinguished names to names of users."""

    def __init__(self, text: str) -> None:
        """Parse the value of the setting.

        Raises:
            ConfigurationError: a rule is malformed, or its pattern is not supported.
        """
        self._rules: list[_Rule | None] = []
        """None is the rule DEFAULT."""
        trimmed = text.strip(_TRIMMED)
        position = _skip_empty(trimmed, 0)
        while position < len(trimmed):
            found = _SPLIT.match(trimmed, position)
            if found is None or found.end() == position:
                raise ConfigurationError.of(NAME, text, f"the rule at {position + 1} is malformed")
            position = _skip_empty(trimmed, found.end())
            self._rules.append(None if found[1] else _rule(text, found))

    def user_of(self, name: str) -> str:
        """Return the user of a distinguished name.

        Raises:
            NoUser: no rule matches, or it takes too long to find out.
        """
        for rule in self._rules:
            user = name if rule is None else _applied(rule, name)
            if user is not None:
                return user
        raise NoUser(f"no rule of {NAME} matches its certificate")


def _rule(text: str, found: re.Match[str]) -> _Rule:
    # Most nodes have no rules, so they need not load this.
    from odradek.java_regex.errors import PatternError
    from odradek.java_regex.pattern import Pattern

    try:
        pattern = Pattern(found[2])
        replacement = pattern.replacement(_with_text_references(found[3], pattern.groups))
    except PatternError as error:
        raise ConfigurationError.of(NAME, text, str(error)) from None
    return _Rule(pattern, replacement, found[4])


def _with_text_references(replacement: str, groups: int) -> str:
    """Put a backslash before each reference to a group that does not exist, if there are groups.

    As in Kafka, the positions are those in the original: after the first backslash, the next ones
    are one character too early.
    """
    if not groups:
        return replacement
    escaped = replacement
    for found in _REFERENCE.finditer(replacement):
        digits = found[1]
        while len(digits) > 1 and int(digits) > groups:
            digits = digits[:-1]
        if not found[1].startswith("0") and int(digits) > groups:
            escaped = f"{escaped[: found.start()]}\\{escaped[found.start() :]}"
    return escaped


def _applied(rule: _Rule, name: str) -> str | None:
    from odradek.java_regex.errors import MatchRefused

    try:
        return rule.apply(name)
    except MatchRefused as reason:
        raise NoUser(f"the rule {rule.pattern.text} of {NAME} does not decide: {reason}") from None
