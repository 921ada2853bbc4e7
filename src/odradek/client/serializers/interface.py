"""What a producer and a consumer need of serializers.

A serializer has `serialize(topic, value)`, a deserializer has `deserialize(topic, data)`; the classes of
this package have both. A function of the value alone is accepted, too. Null is never passed to them: it
stays None.

Three methods are optional:

- `for_keys()` returns a serializer for keys, if it differs (with a registry, the subject does).
- `deserialize_with_headers(topic, data, headers)` is called instead of `deserialize`.
- `is_ready(topic, item, headers)` says that no registry would be asked now, so that an event loop
  does not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from odradek.client.serializers.framing import Headers

T_in = TypeVar("T_in", contravariant=True)
T_out = TypeVar("T_out", covariant=True)


@runtime_checkable
class Serializer(Protocol[T_in]):
    """Makes byte strings of values."""

    def serialize(self, topic: str, value: T_in, /) -> bytes | None:
        """Return the byte string of a value.

        Raises:
            SerializationError: the value does not fit.
            ClientError: a schema registry cannot be used.
        """
        ...


@runtime_checkable
class Deserializer(Protocol[T_out]):
    """Makes values of byte strings."""

    def deserialize(self, topic: str, data: bytes, /) -> T_out:
        """Return the value of a byte string.

        Raises:
            SerializationError: the byte string cannot be decoded.
            ClientError: a schema registry cannot be used.
        """
        ...


Write = Callable[[str, Any], bytes | None]
Read = Callable[[str, bytes, Headers], Any]


def serializer_of(given: object, *, is_key: bool) -> Write:
    """Return the function that serializes keys or values.

    Raises:
        TypeError: it is no serializer.
    """
    found = _for(given, is_key=is_key)
    if isinstance(found, Serializer) and not isinstance(found, type):
        return found.serialize
    if callable(found) and not hasattr(found, "serialize"):
        function = found
        return lambda topic, value: function(value)
    raise TypeError(f"a serializer has a method serialize, or is a function; it is {_shown(given)}")


def deserializer_of(given: object, *, is_key: bool) -> Read:
    """Return the function that deserializes keys or values. Its last argument are the headers.

    Raises:
        TypeError: it is no deserializer.
    """
    found = _for(given, is_key=is_key)
    with_headers = getattr(found, "deserialize_with_headers", None)
    if with_headers is not None and not isinstance(found, type):
        read: Read = with_headers
        return read
    if isinstance(found, Deserializer) and not isinstance(found, type):
        plain = found.deserialize
        return lambda topic, data, headers: plain(topic, data)
    if callable(found) and not hasattr(found, "deserialize"):
        function = found
        return lambda topic, data, headers: function(data)
    raise TypeError(
        f"a deserializer has a method deserialize, or is a function; it is {_shown(given)}"
    )


def reads_headers(given: object) -> bool:
    """Whether a deserializer looks at headers."""
    return hasattr(given, "deserialize_with_headers")


def is_ready(given: object, topic: str, item: object, headers: Headers = ()) -> bool:
    """Whether the value or the byte string `item` can be converted without asking a registry."""
    method = getattr(given, "is_ready", None)
    return True if method is None else bool(method(topic, item, headers))


def asks_others(given: object) -> bool:
    """Whether a serializer may ask a registry."""
    return hasattr(given, "is_ready")


def for_keys(given: object) -> object:
    """Return the form of a serializer that is for keys."""
    method = getattr(given, "for_keys", None)
    return given if method is None else method()


def _for(given: object, *, is_key: bool) -> object:
    return for_keys(given) if is_key else given


def _shown(given: object) -> str:
    if isinstance(given, type):
        return f"the class {given.__name__}: make an object of it"
    return repr(given)
