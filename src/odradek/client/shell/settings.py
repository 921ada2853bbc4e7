"""Reads the settings of a client: Kafka's names in a mapping, or keywords with underscores."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from odradek.client.address import Address, parse_addresses
from odradek.client.cluster import Cluster
from odradek.client.core.routes import Recovery
from odradek.client.security import SECURITY_SETTINGS, Security, parse_security

CONNECTION_SETTINGS = (
    "bootstrap.servers",
    "client.id",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metadata.cluster.check.enable",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "socket.connection.setup.timeout.ms",
    *SECURITY_SETTINGS,
)
"""The names of the settings that all clients have."""
_OTHER_NAMES = {"metadata.broker.list": "bootstrap.servers"}
_STRATEGIES = {"rebootstrap": True, "none": False}
_WORDS = {"true": True, "false": False}

T = TypeVar("T")


class ConnectionSettings(NamedTuple):
    """How a client connects."""

    bootstrap: tuple[Address, ...]
    client_id: str
    connect_timeout_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_ms_max: int
    security: Security
    recovery: Recovery = Recovery()
    checks_nodes: bool = True
    """Whether to check that an address leads to the cluster and node that it is known for (KIP-1242). A
    client that may not start over does not check."""


def connection_of(cluster: Cluster) -> ConnectionSettings:
    """Return how a cluster connects."""
    return ConnectionSettings(
        cluster.bootstrap,
        cluster.client_id,
        cluster.connect_timeout_ms,
        50,
        1_000,
        cluster.security,
        Recovery(cluster.rebootstraps),
        cluster.checks_nodes,
    )


class Given:
    """The settings that a user has given."""

    def __init__(
        self,
        settings: Mapping[str, object],
        keywords: Mapping[str, object],
        known: Sequence[str],
        other_names: Mapping[str, str],
    ) -> None:
        """`other_names` maps names of other clients to the names in `known`.

        Raises:
            ValueError: a name is unknown, or a setting is given twice.
        """
        by_keyword = {
            name.replace(".", "_"): name for name in (*known, *other_names, *_OTHER_NAMES)
        }
        self._values: dict[str, object] = {}
        self._shown: dict[str, str] = {}
        """The names that the user has written."""
        for shown, value in (*settings.items(), *keywords.items()):
            written = by_keyword.get(shown, shown)
            name = other_names.get(written) or _OTHER_NAMES.get(written, written)
            if name not in known:
                raise ValueError(f"there is no setting {shown}{_hint(shown, known, by_keyword)}")
            if name in self._values:
                raise ValueError(f"{shown} is given twice, also as {self._shown[name]}")
            if value is not None:
                self._values[name] = value
                self._shown[name] = shown

    def has(self, name: str) -> bool:
        """Whether the user has given a setting."""
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        return str(self._values.get(name, default))

    def object(self, name: str) -> object | None:
        """Return what was given, unchanged; None if nothing was."""
        return self._values.get(name)

    def number(self, name: str, lowest: int) -> int:
        """Return a whole number that was given.

        Raises:
            ValueError: it is not a number, or too low.
        """
        value = self._values[name]
        try:
            number = int(value) if isinstance(value, int | str) else None
        except ValueError:
            number = None
        if number is None or isinstance(value, bool):
            raise ValueError(f"{self._shown[name]} is {value!r}; it must be a whole number")
        if number < lowest:
            raise ValueError(f"{self._shown[name]} is {number}; it must be at least {lowest}")
        return number

    def number_or(self, name: str, default: int, lowest: int = 0) -> int:
        """Return a whole number, or the default."""
        return self.number(name, lowest) if name in self._values else default

    def flag(self, name: str, default: bool) -> bool:
        """Return true or false.

        Raises:
            ValueError: it is something else.
        """
        value = self._values.get(name, default)
        found = value if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())
        if found is None:
            raise ValueError(f"{self._shown[name]} is {value!r}; it must be true or false")
        return found

    def choice(self, name: str, choices: Mapping[str, T], default: T) -> T:
        """Return the value of a word.

        Raises:
            ValueError: it is none of the words.
        """
        if name not in self._values:
            return default
        word = str(self._values[name]).strip().lower()
        if word not in choices:
            raise ValueError(
                f"{self._shown[name]} is {self._values[name]!r}; it must be one of "
                f"{', '.join(choices)}"
            )
        return choices[word]

    def connection(self) -> ConnectionSettings:
        """Return how to connect.

        Raises:
            ValueError: a value is malformed, or `bootstrap.servers` is missing.
        """
        if not self.text("bootstrap.servers"):
            raise ValueError("bootstrap.servers is missing; write host:port[,host:port…]")
        backoff_ms = self.number_or("reconnect.backoff.ms", 50)
        recovery = Recovery(
            self.choice("metadata.recovery.strategy", _STRATEGIES, default=True),
            self.number_or("metadata.recovery.rebootstrap.trigger.ms", 300_000),
        )
        checks_nodes = self.flag("metadata.cluster.check.enable", default=True)
        return ConnectionSettings(
            parse_addresses(self.text("bootstrap.servers")),
            self.text("client.id", "odradek"),
            self.number_or("socket.connection.setup.timeout.ms", 10_000, 1),
            backoff_ms,
            max(backoff_ms, self.number_or("reconnect.backoff.max.ms", 1_000)),
            parse_security({each: self.text(each) for each in SECURITY_SETTINGS if self.has(each)}),
            recovery,
            checks_nodes and recovery.rebootstraps,
        )


def _hint(shown: str, known: Sequence[str], by_keyword: Mapping[str, str]) -> str:
    candidates = known if "." in shown else [*known, *by_keyword]
    found = difflib.get_close_matches(shown, candidates, 1, 0.7)
    return f"; do you mean {found[0]}?" if found else ""
