"""Dispatches requests to the handlers of their APIs.

One dispatcher serves all listeners of one kind (broker or controller). It decodes the header of a
request, finds the entry of the API, and decodes the body. The entry calls the handler and sends the
response (`Entry`). Large requests are decoded by another thread (`LargeRequests`).

The dispatcher closes the connection if the API is unknown, if the version is not served, or if the
request is malformed. Special case: a request for an unserved version of ApiVersions gets a response
of version 0 (KIP-511). Apache Kafka does the same. Each closed connection is counted and
logged.

The dispatcher also closes the connection if it has no response for a request, for example because no
open file is left to import the handler. Nothing was processed then, and the client tries again.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Mapping
from typing import Final

from odradek.broker.clients.quotas import Charge
from odradek.broker.clients.request_context import RequestContext
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.handlers.entry import Binding, Entry, Inject
from odradek.handlers.large_requests import MALFORMED, LargeRequests
from odradek.model import api_keys
from odradek.model.errors import ErrorCode
from odradek.network.connection import Connection
from odradek.network.peer import NULL_CLIENT_ID
from odradek.telemetry.log_lines import printable
from odradek.wire.api import BY_KEY
from odradek.wire.large_requests import LARGE_BYTES, decode_large
from odradek.wire.primitives import Buffer, MalformedMessage, skip_tagged_fields

log = logging.getLogger("odradek.request")

_header: Final = struct.Struct(">hhih")
_api: Final = struct.Struct(">hh")


def _name(frame: Buffer) -> str:
    """Return the API and the version of a request, which may be malformed."""
    key, version = _api.unpack_from(frame, 0)
    return f"{BY_KEY[key].name if key in BY_KEY else f'the unknown API {key}'} version {version}"


class Dispatcher:
    """Dispatches the requests of all connections. Use it only on the event loop's thread."""

    def __init__(
        self,
        served: Mapping[int, Binding],
        clock: Clock,
        inject: Inject | None = None,
        executor: Executor | None = None,
    ) -> None:
        """`served` has the served APIs by API key.

        Without an executor, large requests are decoded and encoded on this thread.
        """
        self._now_ns = clock.monotonic_ns
        self._tasks: set[asyncio.Task[None]] = set()
        self.entries = {
            key: Entry(key, binding, self._now_ns, self._tasks, executor)
            for key, binding in served.items()
        }
        self.large = (
            None
            if executor is None
            else LargeRequests(executor, self._now_ns, self._refuse_malformed)
        )
        self.requests_refused = 0
        self.inject = inject

    def use_charge(self, charge: Charge | None) -> None:
        """Set the function that counts requests for quotas. None: they are not counted."""
        for entry in self.entries.values():
            entry.use_charge(charge)

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        """Process one request; `frame` is the request without its length."""
        try:
            self._process(connection, frame)
        except Exception as error:  # noqa: BLE001  a request may fail, the node must not
            self._fail(connection, frame, error)

    def _process(self, connection: Connection, frame: memoryview) -> None:
        started = self._now_ns()
        try:
            key, version, correlation_id, length = _header.unpack_from(frame, 0)
            entry = self.entries.get(key)
            if entry is None or not entry.version_min <= version <= entry.version_max:
                entry = self._unserved(connection, frame)
                if entry is None:
                    return
                peer = connection.peer
                version, request = 0, None
                peer.use_client_id(NULL_CLIENT_ID)
            else:
                connection.count_in(entry.metrics)
                position = 10 + length if length > 0 else 10
                peer = connection.peer
                if peer.client_id_on_wire != frame[8:position]:
                    peer.use_client_id(bytes(frame[8:position]))
                if version >= entry.flexible_min:
                    tags = frame[position]
                    position += 1
                    if tags:
                        position = skip_tagged_fields(frame, position, tags)
                if entry.quick is not None and self.inject is None:
                    body = position
                    try:
                        answer = entry.quick(peer, frame, position, version, correlation_id)
                    except Exception as error:  # noqa: BLE001  may be one of MALFORMED
                        self._fail(connection, frame, error)
                        return
                    if answer is not None:
                        frame_bytes = len(frame)
                        entry.answer_quickly(
                            connection, frame_bytes, frame_bytes - body, answer, version, started
                        )
                        return
                decoder = entry.decoders[version]
                if len(frame) <= LARGE_BYTES:
                    request, end = decoder(frame, position)
                elif key != api_keys.PRODUCE and self.large is not None:
                    context = RequestContext(
                        peer, key, version, correlation_id, peer.client_id, started // 1_000_000
                    )
                    self.large.serve(
                        connection, entry, context, frame, position, started, self.inject
                    )
                    return
                else:
                    request, end = decode_large(decoder, frame, position)
                if end > len(frame):
                    raise MalformedMessage("truncated")
        except MALFORMED as error:
            self._refuse_malformed(connection, frame, error)
            return
        context = RequestContext(
            peer, key, version, correlation_id, peer.client_id, started // 1_000_000
        )
        entry.serve(connection, len(frame), context, request, started, self.inject)

    def _unserved(self, connection: Connection, frame: memoryview) -> Entry | None:
        """Return the entry of ApiVersions if the version of ApiVersions is not served (KIP-511).

        Otherwise close the connection and return None.
        """
        key = _header.unpack_from(frame, 0)[0]
        entry = self.entries.get(key)
        if key == api_keys.API_VERSIONS and entry is not None:
            entry.load()  # nothing of this request is decoded
            return entry
        self._refuse(connection, f"{_name(frame)} is not served")
        return None

    def _fail(self, connection: Connection, frame: Buffer, error: Exception) -> None:
        """Close the connection of a request that has no response because of a bug in Odradek, or
        because its handler cannot be loaded. A part of the request may have been processed.
        """
        entry = self.entries[_api.unpack_from(frame, 0)[0]]
        entry.metrics.record_errors([ErrorCode.UNKNOWN_SERVER_ERROR])
        log.error("%s failed, and its connection is closed", entry.name, exc_info=error)
        connection.refuse()

    def _refuse_malformed(
        self, connection: Connection, frame: Buffer, error: BaseException
    ) -> None:
        self._refuse(connection, f"{_name(frame)} is malformed ({error})")

    def _refuse(self, connection: Connection, problem: str) -> None:
        self.requests_refused += 1
        peer = connection.peer
        log.warning(
            "closed the connection of %s:%d (%s): a request of %s",
            peer.host,
            peer.port,
            printable(peer.principal),
            problem,
        )
        connection.refuse()

    async def drain(self) -> None:
        """Wait at most 5 s for the handlers that are still running."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
