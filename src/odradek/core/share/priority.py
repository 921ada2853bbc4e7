"""The priorities of topics in a share group (`odradek.share.priority`), which only Odradek has.

A share fetch gets records of one priority only: of the highest that has records for it. Records of
a lower priority would delay those of a higher priority that arrive while the member processes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


def levels(
    entries: Mapping[KeyT, ValueT], priority_of: Callable[[KeyT], int], least: int | None = None
) -> list[dict[KeyT, ValueT]]:
    """Return the entries of each priority, those of the highest priority first.

    Leave out the priorities below `least`. The entries of a priority keep their order.
    """
    found: dict[int, dict[KeyT, ValueT]] = {}
    for key, value in entries.items():
        priority = priority_of(key)
        if least is None or priority >= least:
            found.setdefault(priority, {})[key] = value
    return [found[priority] for priority in sorted(found, reverse=True)]
