"""A queue in which each sender has the same number of turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Items of several senders. The senders take turns, however many items each has.

    The items of one sender stay in order.
    """

    __slots__ = ("_items", "_length", "_senders")

    def __init__(self) -> None:
        self._items: dict[Hashable, deque[Item]] = {}
        self._senders: deque[Hashable] = deque()
        """The keys of `_items` in the order of their next turns."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, sender: Hashable, item: Item) -> None:
        """Add an item after the other items of the sender."""
        items = self._items.get(sender)
        if items is None:
            items = self._items[sender] = deque()
            self._senders.append(sender)
        items.append(item)
        self._length += 1

    def take(self) -> Item:
        """Remove and return the first item of the sender whose turn it is.

        Raises:
            IndexError: the queue is empty.
        """
        sender = self._senders.popleft()
        items = self._items[sender]
        item = items.popleft()
        self._length -= 1
        if items:
            self._senders.append(sender)
        else:
            del self._items[sender]
        return item
