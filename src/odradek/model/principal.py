"""Principals: who a client is (Kafka's KafkaPrincipal). The text form is `User:alice`."""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"
"""The type of all principals of authenticated clients."""
ANONYMOUS = "User:ANONYMOUS"
"""The principal of clients that are not authenticated."""


class NoUser(Exception):
    """No user belongs to a name of Kerberos or of a certificate. The message has the reason."""


class Principal(NamedTuple):
    """The type and the name of a principal."""

    type: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the principal with this text form. The name may contain colons."""
        kind, _, name = text.partition(":")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"
