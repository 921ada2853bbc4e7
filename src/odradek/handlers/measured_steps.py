"""Measures how long a coroutine computes, without the time that it waits.

The quota `request_percentage` counts the computing time of a request. A handler that is a coroutine
computes in steps: each one ends where the coroutine waits for a future.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Steps(Generic[T]):
    """An awaitable that runs a coroutine."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        now_ns: Callable[[], int],
        add_ns: Callable[[int], None],
    ) -> None:
        self._coroutine = coroutine
        self._now_ns = now_ns
        self._add_ns = add_ns

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._coroutine
        step: Callable[[], Any] = partial(coroutine.send, None)
        while True:
            began = self._now_ns()
            try:
                awaited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._add_ns(self._now_ns() - began)
            try:
                received = yield awaited
            except BaseException as error:  # noqa: BLE001  the coroutine handles it
                step = partial(coroutine.throw, error)
            else:
                step = partial(coroutine.send, received)


async def measured(
    coroutine: Coroutine[Any, Any, T], now_ns: Callable[[], int], add_ns: Callable[[int], None]
) -> T:
    """Run a coroutine; call `add_ns` with the nanoseconds of each step.

    Raises:
        Exception: the coroutine has raised it.
    """
    return await _Steps(coroutine, now_ns, add_ns)
