"""`Request`, one request of the matrix, and the values that are known only at run time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from tests.authorizer.matrix.rights import Right

from odradek.wire.api import BY_NAME
from odradek.wire.primitives import Struct


class Known(NamedTuple):
    """A value that the broker has generated, for example `topic t`: see `Stage.known`."""

    name: str


UNKNOWN_ID = bytes(range(16))
"""The id of no topic."""
NAMES = ("t", "u", "gone", "none")
"""`t` and `u` exist. By default a user has rights for `t` and `gone`."""


@dataclass(frozen=True)
class Request:
    """A request, and the rights that it needs."""

    title: str
    """What it asks for; empty if the API says it."""
    api: str
    version: int
    fields: dict[str, Any]
    needs: Sequence[Right] = ()
    is_on_controller: bool = False

    @property
    def name(self) -> str:
        """The name of the request in the matrix."""
        where = " on a controller" if self.is_on_controller else ""
        about = f": {self.title}" if self.title else ""
        return f"{self.api} {self.version}{where}{about}"


def by_name(
    part: object,
    names: Sequence[str] = NAMES,
    *,
    name: str = "name",
    parts: str = "partitions",
) -> list[dict[str, Any]]:
    """Return an array of topics with one partition."""
    return [{name: each, parts: [part]} for each in names]


def by_id(
    part: object, names: Sequence[str] = ("t", "u"), *, parts: str = "partitions"
) -> list[dict[str, Any]]:
    """Return an array of topics with ids; the last one does not exist."""
    ids = [*(Known(f"topic {each}") for each in names), UNKNOWN_ID]
    return [{"topic_id": each, parts: [part]} for each in ids]


def message(api: str, fields: Mapping[str, Any]) -> Any:
    """Return a request of an API. In `fields` structs are dictionaries."""
    return _build(BY_NAME[api].request_class(), fields)


def _build(kind: Any, fields: Mapping[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            value = _build(_struct(kind, name), value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            value = [_build(_struct(kind, name), each) for each in value]
        values[name] = value
    return kind(**values)


@cache
def _struct(kind: Any, name: str) -> Any:
    """Return the class of a field's struct, from the annotation of the generated field."""
    hints = get_type_hints(vars(kind)["__init__"])
    return next(_structs(hints[name]))


def _structs(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for each in get_args(hint):
        yield from _structs(each)
