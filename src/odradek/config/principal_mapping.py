"""ssl.principal.mapping.rules: maps the name of a certificate to a principal (KIP-371).

    RULE:^CN=(.*?),OU=.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole distinguished name applies. Then each match of the
pattern in the name is replaced: `.*` also matches the end of the name. `$1` is a group of the
pattern; a reference to a group that does not exist is text, if there are other groups. L and U
convert the result to lower or upper case. DEFAULT is the name itself. The syntax is that of Kafka's
SslPrincipalMapper; the patterns are Python's.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from odradek.config.checks import ConfigurationError

NAME = "ssl.principal.mapping.rules"
_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_EMPTY = re.compile(r"[\s,]*")
"""What may be between two rules; empty rules are ignored, as in Kafka."""
_SPLIT = re.compile(rf"\s*(?:{_RULE})\s*(?:,|\Z)")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None is the rule DEFAULT."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        text = self.pattern.sub(self._replaced, name)
        return text.lower() if self.case == "L" else text.upper() if self.case == "U" else text

    def _replaced(self, found: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda part: _expanded(found, part), self.replacement)


_REFERENCE = re.compile(r"\\(.)|\$(\d)")


def _expanded(found: re.Match[str], part: re.Match[str]) -> str:
    if part[1] is not None:
        return part[1]
    group = int(part[2])
    return part[0] if group > found.re.groups else found[group] or ""


def _skip_empty(text: str, position: int) -> int:
    found = _EMPTY.match(text, position)
    return position if found is None else found.end()


class PrincipalMapping:
    """Maps distinguished names to names of users."""

    def __init__(self, text: str) -> None:
        """Parse the value of the setting.

        Raises:
            ConfigurationError: a rule is malformed.
        """
        self._rules: list[_Rule] = []
        position = _skip_empty(text, 0)
        while position < len(text):
            found = _SPLIT.match(text, position)
            if found is None or found.end() == position:
                raise ConfigurationError.of(NAME, text, f"the rule at {position + 1} is malformed")
            position = _skip_empty(text, found.end())
            self._rules.append(self._rule(text, found))

    @staticmethod
    def _rule(text: str, found: re.Match[str]) -> _Rule:
        if found[1]:
            return _Rule(None, "", "")
        try:
            pattern = re.compile(found[2])
        except re.error as error:
            raise ConfigurationError.of(NAME, text, f"a pattern is malformed: {error}") from None
        if not pattern.groups and re.search(r"(?<!\\)\$[1-9]", found[3]):
            raise ConfigurationError.of(NAME, text, "a pattern lacks a group of its replacement")
        return _Rule(pattern, found[3], found[4])

    def user_of(self, name: str) -> str | None:
        """Return the user of a distinguished name; None if no rule matches."""
        return next((user for rule in self._rules if (user := rule.apply(name)) is not None), None)
