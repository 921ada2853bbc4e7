"""All administrative requests for asyncio.

The methods are those of `odradek.client.Admin`, and are awaited. Each runs on the event loop's executor, one after
the other, because administrators do not send many requests. If a call is cancelled, the request goes on.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from odradek.client.admin.admin import Admin as BlockingAdmin

_OWN = frozenset({"close"})


class Admin:
    """Administers a cluster. Any number of tasks may use it. See `odradek.client.Admin`."""

    def __init__(self, settings: Mapping[str, object] | None = None, **keywords: object) -> None:
        """Make a client, which connects when it is first used.

        Raises:
            ValueError: a setting is unknown or malformed.
        """
        self._admin = BlockingAdmin(settings, None, **keywords)
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the requests under way, and close the connections."""
        await self._call(self._admin.close)

    async def _call(self, work: Callable[[], Any]) -> Any:
        await self._turn.acquire()
        try:
            future = asyncio.get_running_loop().run_in_executor(None, work)
        except BaseException:
            self._turn.release()
            raise
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._turn.release()
        if not future.cancelled():
            future.exception()  # if the caller was cancelled, nobody else looks at it

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]: ...


def _awaited(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def call(self: Admin, *arguments: Any, **keywords: Any) -> Any:
        return await self._call(functools.partial(function, self._admin, *arguments, **keywords))

    return call


for _name in dir(BlockingAdmin):
    if not _name.startswith("_") and _name not in _OWN:
        setattr(Admin, _name, _awaited(getattr(BlockingAdmin, _name)))
