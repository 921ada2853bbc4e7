"""Sends what a broker must tell the controller, one request at a time.

A request has all items that were put since the last one, up to a maximum. There is at most one item
for each key: a newer one replaces it. If a request fails, or does not settle all of its items, the
next one waits. An item is kept until a subclass removes it, because the controller has processed it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")


class ControllerReports(ABC, Generic[KeyT, ItemT]):
    """Items for the controller. Use it only on the event loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, items_max: int, retry_seconds: float
    ) -> None:
        self._loop = loop
        self._items_max = items_max
        self._retry_seconds = retry_seconds
        self._items: dict[KeyT, ItemT] = {}
        """The items that the controller has not processed, including those in flight."""
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def close(self) -> None:
        """Stop sending."""
        self._is_closed = True
        self._items.clear()
        if self._task is not None:
            self._task.cancel()

    def _put(self, key: KeyT, item: ItemT) -> None:
        """Send an item soon."""
        if self._is_closed:
            return
        self._items[key] = item
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)  # for the other items of the same metadata change
            while self._items:
                sent = dict(list(self._items.items())[: self._items_max])
                if not await self._send(sent):
                    await asyncio.sleep(self._retry_seconds)
        finally:
            self._task = None

    @abstractmethod
    async def _send(self, sent: dict[KeyT, ItemT]) -> bool:
        """Send items, and remove those that are processed. Return whether all of them are."""
