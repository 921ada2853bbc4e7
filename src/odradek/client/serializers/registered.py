"""What serializers with a schema registry have in common: which schema is written, and its id.

The schema of a value is, in this order: the version with `use_schema_id`, the latest version of the subject
(`use_latest_version`), or the given one, which is registered (`auto_register_schemas`) or looked up. What
was found is kept for ever, except for latest versions, which are kept for `latest_cache_ttl_s`.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from odradek.client.errors import SerializationError
from odradek.client.serializers.framing import Headers, prefix, split
from odradek.client.serializers.registry import Registered, Registry, SchemaReference
from odradek.client.serializers.settings import RegistrySettings, parse_registry
from odradek.client.serializers.subjects import Strategy, topic_name

CACHED_MAX = 1000


class Choice(NamedTuple):
    """Which schema is written. The names are those of Confluent's settings, with underscores."""

    auto_register_schemas: bool = True
    normalize_schemas: bool = False
    use_latest_version: bool = False
    use_schema_id: int | None = None
    latest_cache_ttl_s: float | None = None
    """After so long, the latest version is asked for again; None: never."""
    subject_name_strategy: Strategy = topic_name


class Given(NamedTuple):
    """A schema as it is registered."""

    text: str
    name: str | None
    """The full name of the record, for subjects."""
    references: tuple[SchemaReference, ...] = ()


class RegisteredFormat(ABC):
    """A serializer and deserializer whose schemas are in a registry."""

    kind: str
    """The registry's name of the format."""

    def __init__(
        self, registry: RegistrySettings | str | Mapping[str, object], choice: Choice
    ) -> None:
        """`registry` is the URL of a schema registry, or its settings (`settings`).

        Raises:
            ValueError: a setting is wrong.
        """
        self.registry = Registry(parse_registry(registry))
        self._choice = choice
        self._is_key = False
        self._ids: dict[tuple[str, str], int] = {}
        """Ids by subject and text."""
        self._latest: dict[str, tuple[float, Registered]] = {}
        """The latest versions by subject, and when they were asked for."""

    def for_keys(self) -> Self:
        """Return the same serializer for keys."""
        made = copy.copy(self)
        made._is_key = True
        made._ids, made._latest = {}, {}
        return made

    # -- what formats have ------------------------------------------------------------------

    @abstractmethod
    def given(self, value: Any) -> Given:
        """Return the schema of a value without the registry. It is cheap.

        Raises:
            SerializationError: there is none.
        """

    @abstractmethod
    def encode(self, value: Any, found: Registered | None, start: bytes) -> bytes:
        """Return `start` and the encoded value; with the given schema, if `found` is None.

        Raises:
            SerializationError: the value does not fit the schema.
        """

    @abstractmethod
    def decode(self, data: bytes, start: int, written: Registered) -> Any:
        """Return the value of the bytes from `start` on.

        Raises:
            SerializationError: they are not of the schema.
        """

    # -- writing ----------------------------------------------------------------------------

    def serialize(self, topic: str, value: Any, /) -> bytes:
        """See `Serializer`."""
        choice = self._choice
        if choice.use_schema_id is not None:
            found = self.registry.by_id(choice.use_schema_id)
            return self.encode(value, self._checked(found), prefix(found.schema_id))
        given = self.given(value)
        subject = choice.subject_name_strategy(topic, self._is_key, given.name)
        if choice.use_latest_version:
            latest = self._checked(self._latest_of(subject))
            return self.encode(value, latest, prefix(latest.schema_id))
        return self.encode(value, None, prefix(self._id(subject, given)))

    def is_ready(self, topic: str, item: Any, headers: Headers = ()) -> bool:
        """Whether no registry is asked for a value, or for a byte string."""
        choice = self._choice
        if isinstance(item, bytes):
            try:
                return self.registry.has(split(item, headers, is_key=self._is_key).schema)
            except SerializationError:
                return True
        if choice.use_schema_id is not None:
            return self.registry.has(choice.use_schema_id)
        given = self.given(item)
        subject = choice.subject_name_strategy(topic, self._is_key, given.name)
        if choice.use_latest_version:
            return self._kept(subject) is not None
        return (subject, given.text) in self._ids

    def _id(self, subject: str, given: Given) -> int:
        found = self._ids.get((subject, given.text))
        if found is None:
            add = (
                self.registry.register
                if self._choice.auto_register_schemas
                else self.registry.registered
            )
            found = add(
                subject,
                self.kind,
                given.text,
                given.references,
                normalizes=self._choice.normalize_schemas,
            )
            if len(self._ids) >= CACHED_MAX:
                self._ids.clear()
            self._ids[subject, given.text] = found
        return found

    def _latest_of(self, subject: str) -> Registered:
        kept = self._kept(subject)
        if kept is None:
            kept = self.registry.latest(subject)
            if len(self._latest) >= CACHED_MAX:
                self._latest.clear()
            self._latest[subject] = time.monotonic(), kept
        return kept

    def _kept(self, subject: str) -> Registered | None:
        at, found = self._latest.get(subject, (0.0, None))
        limit = self._choice.latest_cache_ttl_s
        return None if limit is not None and time.monotonic() - at > limit else found

    def _checked(self, found: Registered) -> Registered:
        try:
            found.require(self.kind)
        except ValueError as error:
            raise SerializationError(str(error)) from error
        return found

    # -- reading ----------------------------------------------------------------------------

    def deserialize(self, topic: str, data: bytes, /) -> Any:
        """See `Deserializer`."""
        return self.deserialize_with_headers(topic, data, ())

    def deserialize_with_headers(self, topic: str, data: bytes, headers: Headers, /) -> Any:
        """See `Deserializer`. The id of the schema may be in the headers."""
        del topic
        schema, start = split(data, headers, is_key=self._is_key)
        return self.decode(data, start, self._checked(self.registry.by_id(schema)))


def references_of(
    given: Sequence[SchemaReference | tuple[str, str, int]],
) -> tuple[SchemaReference, ...]:
    """Return references to other schemas: name, subject and version."""
    return tuple(SchemaReference(*each) for each in given)
