"""Deserializes the keys and values of a consumer, if it has deserializers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from odradek.client.core.consumed_batch import Batch
from odradek.client.serializers.interface import (
    Read,
    asks_others,
    deserializer_of,
    for_keys,
    is_ready,
)
from odradek.client.shell.settings import Given
from odradek.records.record import Headers

KEY_DESERIALIZER, VALUE_DESERIALIZER = "key.deserializer", "value.deserializer"


class Deserializers:
    """The deserializers of a consumer. Null stays None."""

    def __init__(self, given: Given) -> None:
        """Raise a TypeError if a deserializer is none."""
        key, value = given.object(KEY_DESERIALIZER), given.object(VALUE_DESERIALIZER)
        self._waiting = [
            (is_key, for_keys(each) if is_key else each)
            for is_key, each in ((True, key), (False, value))
            if asks_others(each)
        ]
        """The deserializers that ask a schema registry."""
        self._key: Read | None = None if key is None else deserializer_of(key, is_key=True)
        self._value: Read | None = None if value is None else deserializer_of(value, is_key=False)

    @property
    def may_wait(self) -> bool:
        """Whether a schema registry may be asked."""
        return bool(self._waiting)

    def unready(self, batch: Batch) -> Iterator[Callable[[], Any]]:
        """Yield functions that ask the registry for what a batch needs. Call each before the next.

        Raises:
            CorruptRecordsError: the records cannot be read.
        """
        for is_key, given in self._waiting:
            read = deserializer_of(given, is_key=False)
            for item in batch.raw(is_key):
                if item is not None and not is_ready(given, batch.topic, item):
                    yield partial(read, batch.topic, item, ())

    def decode(self, topic: str, key: Any, value: Any, headers: Headers) -> tuple[Any, Any]:
        """Return the objects of a key and a value.

        Raises:
            SerializationError: the bytes cannot be decoded.
            ClientError: a schema registry cannot be used.
        """
        if key is not None and self._key is not None:
            key = self._key(topic, key, headers)
        if value is not None and self._value is not None:
            value = self._value(topic, value, headers)
        return key, value


def deserializers(given: Given) -> Deserializers | None:
    """Return the deserializers of a consumer; None if it has none.

    Raises:
        TypeError: a deserializer is none.
    """
    has_any = given.has(KEY_DESERIALIZER) or given.has(VALUE_DESERIALIZER)
    return Deserializers(given) if has_any else None
