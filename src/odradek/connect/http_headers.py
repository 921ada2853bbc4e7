"""Headers that all answers of the REST API have: `response.http.headers.config` and `access.control.*`.

They are those that Jetty 12 adds in Apache Kafka 4.3.
"""

from __future__ import annotations

import csv
import email.utils
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.core.connect.errors import ConfigError
from odradek.rest import Reply, Request

_ACTIONS = {each.lower(): each for each in ("set", "add", "setDate", "addDate")}
_METHODS = ("GET", "POST", "HEAD")
_Header = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for a header. The value of `setDate` and `addDate` is a number of ms from now."""

    action: str
    name: str
    value: str


def parse_rules(text: str) -> list[Rule]:
    """Return the rules of `response.http.headers.config`.

    Raises:
        ConfigError: one is malformed.
    """
    if not text.strip():
        return []
    return [_rule(each) for each in next(csv.reader([text], skipinitialspace=True))]


def _rule(text: str) -> Rule:
    words = text.strip().split(None, 1)
    if len(words) != 2:
        raise ConfigError(
            f"Invalid format of header config '{text}'. Expected: '[action] [header name]:[header value]'"
        )
    action = _ACTIONS.get(words[0].lower())
    if action is None:
        known = ", ".join(_ACTIONS.values())
        raise ConfigError(f"Invalid header config action: '{words[0]}'. Expected one of [{known}]")
    parts = words[1].split(":")
    if len(parts) != 2:
        raise ConfigError(
            f"Invalid format of header name and header value pair '{words[1]}'. "
            "Expected: '[header name]:[header value]'"
        )
    name, value = parts[0].strip(), parts[1].strip()
    if not name or re.search(r"\s", name):
        raise ConfigError(
            f"Invalid header name '{name}'. The '[header name]' cannot contain whitespace"
        )
    if action.endswith("Date") and not re.fullmatch(r"-?\d+", value):
        raise ConfigError(f"Invalid header config '{text}': the value is a number of ms")
    return Rule(action, name, value)


class HeaderFilter:
    """Adds headers to answers."""

    def __init__(self, rules: str, origins: str, methods: str) -> None:
        """The arguments are the values of the three settings.

        Raises:
            ConfigError: one is malformed.
        """
        self._rules = parse_rules(rules)
        self._any = "*" in _words(origins)
        try:
            self._origins = [re.compile(e, re.IGNORECASE) for e in _words(origins) if e != "*"]
        except re.error as error:
            raise ConfigError.of("access.control.allow.origin", origins, str(error)) from None
        self._crosses = bool(_words(origins))
        self._methods = _words(methods) or list(_METHODS)

    def __call__(self, request: Request, reply: Reply) -> Reply:
        """Return the reply with all headers."""
        added = [*self._of_origin(request), *_ruled(self._rules)]
        return replace(reply, headers=(*added, *reply.headers))

    def _of_origin(self, request: Request) -> list[_Header]:
        if not self._crosses:
            return []
        found = [("Vary", "Origin")]
        origin = request.headers.get("origin")
        if origin is None or not self._allows(origin):
            return found
        found.append(("Access-Control-Allow-Origin", origin))
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            found += [
                ("Access-Control-Allow-Methods", ",".join(self._methods)),
                ("Access-Control-Allow-Headers", "Content-Type"),
                ("Access-Control-Max-Age", "60"),
            ]
        return found

    def _allows(self, origin: str) -> bool:
        return self._any or any(each.fullmatch(origin) for each in self._origins)


def _words(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _ruled(rules: Sequence[Rule]) -> list[_Header]:
    found: list[_Header] = []
    for each in rules:
        value = each.value
        if each.action.endswith("Date"):
            value = email.utils.formatdate(time.time() + int(value) / 1000, usegmt=True)
        if each.action.startswith("set"):
            found = [other for other in found if other[0].lower() != each.name.lower()]
        found.append((each.name, value))
    return found
