"""Checks offsets that a user wants to set, with Java's texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.core.connect.errors import ConnectError
from odradek.core.connect.java_text import java_text

Json = Mapping[str, Any]
_INT32_MAX = 2**31 - 1


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_text(partition: Json, name: str) -> None:
    """Check that a partition of the source has a text.

    Raises:
        ConnectError: it has not.
    """
    shown = java_text(dict(partition))
    if name not in partition:
        raise ConnectError(
            f"Source partition {shown} is missing the '{name}' key, which is required"
        )
    if not isinstance(partition[name], str):
        raise ConnectError(
            f"Source partition {shown} has an invalid value {java_text(partition[name])} for the "
            f"'{name}' key, which must be a string"
        )


def check_partition(partition: Json) -> None:
    """Check that a partition of the source has the number of a partition.

    Raises:
        ConnectError: it has not.
    """
    shown = java_text(dict(partition))
    if "partition" not in partition:
        raise ConnectError(
            f"Source partition {shown} is missing the 'partition' key, which is required"
        )
    value = partition["partition"]
    start = (
        f"Source partition {shown} has an invalid value {java_text(value)} for the 'partition' key"
    )
    if not _is_integer(value) or value > _INT32_MAX:
        raise ConnectError(f"{start}, which must be an integer")
    if value < 0:
        raise ConnectError(f"{start}, which cannot be negative")


def _value(partition: Json, offset: Json) -> tuple[int, str]:
    """Return the offset, and how an error about it begins."""
    start = (
        f"Source offset {java_text(dict(offset))} for source partition {java_text(dict(partition))}"
    )
    if "offset" not in offset:
        raise ConnectError(f"{start} is missing the 'offset' key, which is required")
    value = offset["offset"]
    start += f" has an invalid value {java_text(value)} for the 'offset' key"
    if not _is_integer(value):
        raise ConnectError(f"{start}, which must be an integer")
    return value, start


def check_offset(partition: Json, offset: Json) -> None:
    """Check the offset of a copied record.

    Raises:
        ConnectError: it is wrong.
    """
    value, start = _value(partition, offset)
    if value < 0:
        raise ConnectError(f"{start}, which cannot be negative")


def check_only_zero(partition: Json, offset: Json) -> None:
    """Check an offset that means nothing: it is always 0.

    Raises:
        ConnectError: it is something else.
    """
    value, start = _value(partition, offset)
    if value != 0:
        raise ConnectError(f"{start}; the only accepted value is 0")
