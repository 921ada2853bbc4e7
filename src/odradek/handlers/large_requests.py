"""Processes large requests: another thread decodes each one.

A hundred thousand elements take a fifth of a second. A few large requests are processed at the same
time, because each needs memory for its elements; others wait for them.

Produce requests are large because of their records, which are not decoded. They do not come here.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from odradek.broker.clients.request_context import RequestContext
from odradek.env.executor import Executor, Pool, call
from odradek.handlers.entry import Entry, Inject
from odradek.network.connection import Connection
from odradek.network.receive_buffers import REUSED_BYTES_MAX
from odradek.network.responses import Slot
from odradek.wire.large_requests import decode_large
from odradek.wire.primitives import Buffer, Decoder, MalformedMessage

RUNNING_MAX: Final = 4
"""So many large requests are processed at the same time."""
MALFORMED: Final = (MalformedMessage, struct.error, IndexError)
"""The errors of a decoder."""
_PURGE_MIN: Final = 64


def _decoded(
    now_ns: Callable[[], int], decoder: Decoder, data: Buffer, position: int
) -> tuple[Any, int]:
    """Return a decoded request, and how many nanoseconds it has taken."""
    began = now_ns()
    request, end = decode_large(decoder, data, position)
    if end > len(data):
        raise MalformedMessage("truncated")
    return request, now_ns() - began


class LargeRequests:
    """The large requests of a dispatcher. Use it only on the event loop's thread."""

    def __init__(
        self,
        executor: Executor,
        now_ns: Callable[[], int],
        refuse: Callable[[Connection, Buffer, BaseException], None],
    ) -> None:
        """`refuse` closes the connection of a malformed frame."""
        self._executor = executor
        self._now_ns = now_ns
        self._refuse = refuse
        self._running = 0
        """Requests that are being decoded, or whose handlers work in pieces."""
        self._waiting: deque[tuple[Connection, Callable[[], None]]] = deque()
        """Requests that wait for others, with a function that begins to decode each."""
        self._purge_at = _PURGE_MIN
        """If so many wait, those whose clients have left are removed."""

    def __len__(self) -> int:
        """Return how many requests are processed or wait."""
        return self._running + len(self._waiting)

    def serve(
        self,
        connection: Connection,
        entry: Entry,
        context: RequestContext,
        received: memoryview,
        position: int,
        started: int,
        inject: Inject | None,
    ) -> None:
        """Decode a request on another thread, and then process it. Its body begins at `position`."""
        frame = bytes(received) if len(received) <= REUSED_BYTES_MAX else received
        context.mark_large()
        slot = connection.defer()
        begin = partial(
            self._decode, connection, slot, entry, context, frame, position, started, inject
        )
        if self._running < RUNNING_MAX:
            begin()
            return
        if len(self._waiting) >= self._purge_at:
            self._waiting = deque(each for each in self._waiting if not each[0].closed)
            self._purge_at = max(_PURGE_MIN, 2 * len(self._waiting))
        self._waiting.append((connection, begin))

    def _decode(
        self,
        connection: Connection,
        slot: Slot,
        entry: Entry,
        context: RequestContext,
        frame: Buffer,
        position: int,
        started: int,
        inject: Inject | None,
    ) -> None:
        decoder = entry.decoders[context.api_version]
        work = partial(_decoded, self._now_ns, decoder, frame, position)
        decoding = call(self._executor, work, Pool.CODEC)
        self._running += 1
        decoding.add_done_callback(
            partial(self._on_decoded, connection, slot, entry, context, frame, started, inject)
        )

    def _on_decoded(
        self,
        connection: Connection,
        slot: Slot,
        entry: Entry,
        context: RequestContext,
        frame: Buffer,
        started: int,
        inject: Inject | None,
        decoding: asyncio.Future[tuple[Any, int]],
    ) -> None:
        task = None
        try:
            request, duration_ns = decoding.result()
            if not connection.closed:
                context.add_work(duration_ns)
                task = entry.serve(connection, len(frame), context, request, started, inject, slot)
        except MALFORMED as error:
            self._refuse(connection, frame, error)
        except BaseException:
            connection.close()  # otherwise the later requests would never be answered
            raise
        finally:
            if task is None:
                self._end()
            else:
                task.add_done_callback(self._end)

    def _end(self, _: object = None) -> None:
        """Begin with the next request whose client has not left."""
        self._running -= 1
        while self._waiting and self._running < RUNNING_MAX:
            connection, begin = self._waiting.popleft()
            if not connection.closed:
                begin()
