"""The program's functions, in the form in which the task core calls them.

A function may have fewer parameters than it could get: `lambda value: ...` instead of
`lambda key, value: ...`.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.serdes import Serde, serde_of
from odradek.streams.columns import Column

Function = Callable[..., Any]


def parameter_count(function: Function, fewest: int, most: int) -> int:
    """Return how many arguments a function gets.

    Raises:
        TopologyError: it can be called with none of the possible numbers.
    """
    if not callable(function):
        raise TopologyError(f"{function!r} is no function")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return fewest
    for count in range(fewest, most + 1):
        try:
            signature.bind(*([None] * count))
        except TypeError:
            continue
        return count
    wanted = str(most) if fewest == most else f"{fewest} to {most}"
    raise TopologyError(f"{_name(function)}{signature} must have {wanted} parameters")


def of_value(function: Function) -> Function:
    """Return a function of key and value. With one parameter it gets the value."""
    if isinstance(function, Column) or parameter_count(function, 1, 2) == 2:
        return function
    return lambda _key, value: function(value)


def of_key(function: Function) -> Function:
    """Return a function of key and value. With one parameter it gets the key."""
    if isinstance(function, Column) or parameter_count(function, 1, 2) == 2:
        return function
    return lambda key, _value: function(key)


def joiner_of(function: Function) -> Function:
    """Return a function of the key and both values. With two parameters it gets the values."""
    if parameter_count(function, 2, 3) == 3:
        return function
    return lambda _key, left, right: function(left, right)


def aggregator_of(function: Function) -> Function:
    """Return a function of key, value and aggregate. With two parameters it gets the last two."""
    if parameter_count(function, 2, 3) == 3:
        return function
    return lambda _key, value, total: function(value, total)


def result_type(function: Function, given: Any, fallback: Serde, key: Serde, value: Serde) -> Serde:
    """Return the type of a function's results: as given, as annotated, or `fallback`."""
    if given is not None:
        return serde_of(given)
    kind: Any = None
    if isinstance(function, Column):
        kind = function.kind_of(key.kind, value.kind)
    else:
        kind = annotation_of(function)
    found = _serde_or_none(kind)
    return fallback if found is None else found


def pair_types(
    function: Function, key: Any, value: Any, old_key: Serde, old_value: Serde, is_list: bool
) -> tuple[Serde, Serde]:
    """Return the types of the keys and values that a function returns as pairs."""
    kinds: tuple[Any, ...] = ()
    hint = annotation_of(function)
    arguments = typing.get_args(hint)
    if is_list and arguments:
        hint = arguments[0]
        arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and len(arguments) == 2:
        kinds = arguments
    new_key = serde_of(key) if key is not None else _serde_or_none(kinds[0] if kinds else None)
    new_value = (
        serde_of(value) if value is not None else _serde_or_none(kinds[1] if kinds else None)
    )
    return new_key or old_key, new_value or old_value


def element_type(function: Function, given: Any, fallback: Serde) -> Serde:
    """Return the type of the elements of the lists that a function returns."""
    if given is not None:
        return serde_of(given)
    arguments = typing.get_args(annotation_of(function))
    return (_serde_or_none(arguments[0]) if arguments else None) or fallback


def annotation_of(function: Function) -> Any:
    """Return the annotated type of a function's results; None if there is none."""
    try:
        return typing.get_type_hints(function).get("return")
    except (TypeError, NameError, AttributeError):
        return None


def initial_type(initial: Any, given: Any) -> Serde:
    """Return the type of an aggregate, from its first value.

    Raises:
        TopologyError: the first value is None, so that nothing is known.
    """
    if given is not None:
        return serde_of(given)
    if initial is None:
        raise TopologyError(
            "the first aggregate is None; say which type aggregates have: value=..."
        )
    return serde_of(type(initial))


def _serde_or_none(kind: Any) -> Serde | None:
    if kind is None or kind is type(None) or kind is Any:
        return None
    arguments = [each for each in typing.get_args(kind) if each is not type(None)]
    if type(None) in typing.get_args(kind) and len(arguments) == 1:
        kind = arguments[0]
    try:
        return serde_of(kind)
    except TopologyError:
        return None


def _name(function: Function) -> str:
    return getattr(function, "__name__", repr(function))
