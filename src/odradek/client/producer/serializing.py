"""Serializes the keys and values of a producer, if it has serializers."""

from __future__ import annotations

from typing import Any

from odradek.client.core.record_encoder import bytes_of
from odradek.client.serializers.interface import for_keys, is_ready, serializer_of
from odradek.client.shell.settings import Given

KEY_SERIALIZER, VALUE_SERIALIZER = "key.serializer", "value.serializer"


class Serializers:
    """The serializers of a producer."""

    def __init__(self, given: Given) -> None:
        """Raise a TypeError if a serializer is none."""
        key, value = given.object(KEY_SERIALIZER), given.object(VALUE_SERIALIZER)
        self._given = key if key is None else for_keys(key), value
        self._key = None if key is None else serializer_of(key, is_key=True)
        self._value = None if value is None else serializer_of(value, is_key=False)

    def key(self, topic: str, key: Any) -> bytes | None:
        """Return the bytes of a key. Without a serializer, it must be bytes.

        Raises:
            TypeError: a function returned something else than bytes.
            SerializationError: the key does not fit.
            ClientError: a schema registry cannot be used.
        """
        if key is not None and self._key is not None:
            key = self._key(topic, key)
        return None if key is None else bytes_of(key, "a key")

    def value(self, topic: str, value: Any) -> bytes | None:
        """Return the bytes of a value, as `key`."""
        if value is not None and self._value is not None:
            value = self._value(topic, value)
        return None if value is None else bytes_of(value, "a value")

    def is_ready(self, topic: str, key: Any, value: Any) -> bool:
        """Whether `key` and `value` do not wait for a schema registry."""
        pairs = zip(self._given, (key, value), strict=True)
        return all(item is None or is_ready(given, topic, item) for given, item in pairs)


def serializers(given: Given) -> Serializers | None:
    """Return the serializers of a producer; None if it has none.

    Raises:
        TypeError: a serializer is none.
    """
    has_any = given.has(KEY_SERIALIZER) or given.has(VALUE_SERIALIZER)
    return Serializers(given) if has_any else None
