"""Column expressions: `col.amount > 10` instead of `lambda order: order.amount > 10`.

An expression describes what it computes, so it can be shown, its type is known from that of the
fields, and runners may compute it in another way than record by record. `col.name` is a field of the
value: an attribute of a dataclass, or an element of a dict. `col.key` is no field but `key()` is the
record's key. Comparisons with a null are false, and arithmetic with a null gives null, as in SQL.
"""

from __future__ import annotations

import operator
import typing
from collections.abc import Callable
from typing import Any


class Column:
    """An expression over the key and the value of a record. Call it with both."""

    __slots__ = ("_compute", "_kind", "_text")

    def __init__(
        self,
        compute: Callable[[Any, Any], Any],
        text: str,
        kind: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        self._compute = compute
        self._text = text
        self._kind = kind

    def __call__(self, key: Any, value: Any) -> Any:
        """Return the result for a record."""
        return self._compute(key, value)

    def __repr__(self) -> str:
        return self._text

    __hash__ = object.__hash__

    def kind_of(self, key: Any, value: Any) -> Any:
        """Return the type of the result for types of key and value; None if it is not known."""
        return None if self._kind is None else self._kind(key, value)

    def __add__(self, other: Any) -> Column:
        return _binary(self, other, operator.add, "+")

    def __radd__(self, other: Any) -> Column:
        return _binary(_column(other), self, operator.add, "+")

    def __sub__(self, other: Any) -> Column:
        return _binary(self, other, operator.sub, "-")

    def __rsub__(self, other: Any) -> Column:
        return _binary(_column(other), self, operator.sub, "-")

    def __mul__(self, other: Any) -> Column:
        return _binary(self, other, operator.mul, "*")

    def __rmul__(self, other: Any) -> Column:
        return _binary(_column(other), self, operator.mul, "*")

    def __truediv__(self, other: Any) -> Column:
        return _binary(self, other, operator.truediv, "/")

    def __mod__(self, other: Any) -> Column:
        return _binary(self, other, operator.mod, "%")

    def __eq__(self, other: object) -> Column:  # type: ignore[override]  # an expression
        return _compare(self, other, operator.eq, "==")

    def __ne__(self, other: object) -> Column:  # type: ignore[override]  # an expression
        return _compare(self, other, operator.ne, "!=")

    def __lt__(self, other: Any) -> Column:
        return _compare(self, other, operator.lt, "<")

    def __le__(self, other: Any) -> Column:
        return _compare(self, other, operator.le, "<=")

    def __gt__(self, other: Any) -> Column:
        return _compare(self, other, operator.gt, ">")

    def __ge__(self, other: Any) -> Column:
        return _compare(self, other, operator.ge, ">=")

    def __and__(self, other: Any) -> Column:
        right = _column(other)
        return _boolean(lambda k, v: bool(self(k, v)) and bool(right(k, v)), self, right, "&")

    def __or__(self, other: Any) -> Column:
        right = _column(other)
        return _boolean(lambda k, v: bool(self(k, v)) or bool(right(k, v)), self, right, "|")

    def __invert__(self) -> Column:
        return Column(lambda k, v: not self(k, v), f"~{self._text}", _is_bool)

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self._text} has no truth value before there is a record; combine conditions with & and |"
        )

    def __getitem__(self, name: str | int) -> Column:
        return Column(
            lambda k, v: _field(self(k, v), name),
            f"{self._text}[{name!r}]",
            lambda key, value: _field_kind(self.kind_of(key, value), name),
        )

    def is_null(self) -> Column:
        """Return whether there is no value."""
        return Column(lambda k, v: self(k, v) is None, f"{self._text}.is_null()", _is_bool)

    def is_in(self, values: typing.Iterable[Any]) -> Column:
        """Return whether the value is one of the given ones."""
        allowed = frozenset(values)
        return Column(
            lambda k, v: self(k, v) in allowed, f"{self._text}.is_in({sorted(allowed)!r})", _is_bool
        )


class _Columns:
    """`col.name` and `col["name"]`: a field of the record's value."""

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Column:
        return Column(
            lambda _key, value: _field(value, name),
            f"col.{name}" if name.isidentifier() else f"col[{name!r}]",
            lambda _key, value: _field_kind(value, name),
        )


col = _Columns()


def key() -> Column:
    """Return the record's key as an expression."""
    return Column(lambda key, _value: key, "key()", lambda key, _value: key)


def _is_bool(_key: Any, _value: Any) -> Any:
    return bool


def _field(value: Any, name: str | int) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(name, int):
        return value[name]
    return getattr(value, name)


def _field_kind(kind: Any, name: str | int) -> Any:
    if kind is None or isinstance(name, int):
        return None
    try:
        return typing.get_type_hints(kind).get(name)
    except TypeError:
        return None


def _column(other: Any) -> Column:
    if isinstance(other, Column):
        return other
    return Column(lambda _key, _value: other, repr(other), lambda _key, _value: type(other))


def _binary(left: Column, other: Any, compute: Callable[[Any, Any], Any], sign: str) -> Column:
    right = _column(other)

    def both(key: Any, value: Any) -> Any:
        one, two = left(key, value), right(key, value)
        return None if one is None or two is None else compute(one, two)

    def kind(key: Any, value: Any) -> Any:
        one, two = left.kind_of(key, value), right.kind_of(key, value)
        if sign == "/" and one in (int, float):
            return float
        return float if float in (one, two) else one

    return Column(both, f"({left!r} {sign} {right!r})", kind)


def _compare(left: Column, other: Any, compute: Callable[[Any, Any], Any], sign: str) -> Column:
    right = _column(other)

    def both(key: Any, value: Any) -> Any:
        one, two = left(key, value), right(key, value)
        return one is not None and two is not None and bool(compute(one, two))

    return Column(both, f"({left!r} {sign} {right!r})", _is_bool)


def _boolean(compute: Callable[[Any, Any], Any], left: Column, right: Column, sign: str) -> Column:
    return Column(compute, f"({left!r} {sign} {right!r})", _is_bool)
