"""Finds the limit that applies to a client (Kafka's DefaultQuotaCallback).

A limit is set for a user, a client id, or a user with a client id. The user, the client id, or both
may be the default, which is None here as in the metadata. The first limit that is set applies:

    1. the user and the client id           5. the default user and the default client id
    2. the user and the default client id   6. the default user
    3. the user                             7. the client id
    4. the default user and the client id   8. the default client id

The clients that share a limit share one measurement, which has a key: a user and a client id. With
the limits 3 and 6 all client ids of a user share it, and the client id in the key is empty. With 7
and 8 all users of a client id share it, and the user is empty. Otherwise it belongs to the user
with this client id. A default is thus a limit for each user or client id, not for all together.

A client without a client id, or with an empty one, is special as in Apache Kafka: the limits 2 and
5 determine its key, but do not apply to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""The kinds of entities."""

Entity = tuple[tuple[str, str | None], ...]
"""The kinds of an entity with its names, in the order of the kinds; None is the default."""
_Pair = tuple[str | None, str | None]
KeyT = TypeVar("KeyT")


class Key(NamedTuple):
    """The key of a measurement. A part that does not matter is empty."""

    user: str
    client_id: str | None


class Found(NamedTuple):
    """A limit."""

    limit: float
    entity: Entity
    """The entity that has the limit."""


class Limits:
    """The limits of one type."""

    __slots__ = ("_by_client_id", "_by_pair", "_by_user")

    def __init__(self) -> None:
        self._by_pair: dict[_Pair, float] = {}
        """Limits by user and client id."""
        self._by_user: dict[str | None, float] = {}
        self._by_client_id: dict[str | None, float] = {}

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return bool(self._by_pair or self._by_user or self._by_client_id)

    def set(self, entity: Mapping[str, str | None], limit: float | None) -> None:
        """Set the limit of an entity; None removes it. Entities of other kinds are ignored."""
        if USER in entity and CLIENT_ID in entity:
            _set(self._by_pair, (entity[USER], entity[CLIENT_ID]), limit)
        elif USER in entity:
            _set(self._by_user, entity[USER], limit)
        elif CLIENT_ID in entity:
            _set(self._by_client_id, entity[CLIENT_ID], limit)

    def key(self, user: str, client_id: str | None) -> Key:
        """Return the key of a client."""
        pairs, users = self._by_pair, self._by_user
        if not users and not self._by_client_id:
            return Key(user, client_id) if pairs else Key("", client_id)
        if not pairs and not self._by_client_id:
            return Key(user, "")
        if (user, client_id) in pairs or (user, None) in pairs:
            return Key(user, client_id)
        if user in users:
            return Key(user, "")
        if (None, client_id) in pairs or (None, None) in pairs:
            return Key(user, client_id)
        return Key(user, "") if None in users else Key("", client_id)

    def of(self, key: Key) -> float | None:
        """Return the limit that applies to a measurement; None if there is none."""
        found = self.find(key)
        return None if found is None else found.limit

    def find(self, key: Key) -> Found | None:
        """Return the limit that applies to a measurement, and the entity that has it."""
        user, client_id = key
        if client_id is None:
            return None
        if user and client_id:
            for pair in ((user, client_id), (user, None), (None, client_id), (None, None)):
                if pair in self._by_pair:
                    entity = ((CLIENT_ID, pair[1]), (USER, pair[0]))
                    return Found(self._by_pair[pair], entity)
        elif user or client_id:
            kind, limits = (USER, self._by_user) if user else (CLIENT_ID, self._by_client_id)
            for name in (user or client_id, None):
                if name in limits:
                    return Found(limits[name], ((kind, name),))
        return None


def _set(limits: dict[KeyT, float], key: KeyT, limit: float | None) -> None:
    if limit is None:
        limits.pop(key, None)
    else:
        limits[key] = limit
