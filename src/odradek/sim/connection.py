"""A connection of a simulated client to a broker: sends requests, receives responses in the same order.

A new connection asks for the versions of the broker, as `odradek.client.connection` does.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.client.address import Address
from odradek.client.core.asks import Ask
from odradek.client.errors import ClientError, DisconnectedError, RequestTimeoutError
from odradek.client.frames import VERSION_CAPS, Pending, encode_request, usable_version
from odradek.env.network import Transport
from odradek.model import api_keys
from odradek.sim.simulation import SimClock, Simulation
from odradek.wire.api import BY_KEY
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.primitives import Message

_RECEIVE_BYTES = 1 << 16
_LENGTH = struct.Struct(">i")


class _UnderWay(NamedTuple):
    ask: Ask
    pending: Pending[Any]
    expires_ms: int


class Connection:
    """One end of a transport. `on_change` is called when a response has arrived, or the connection ended."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        address: Address,
        transport: Transport,
        on_change: Callable[[], None],
    ) -> None:
        """`name` is the id of the client."""
        self.address = address
        self.error: ClientError | None = None
        """Why the connection has ended."""
        self.features: ApiVersionsResponse | None = None
        """The response of a broker that has told its versions."""
        self._simulation = simulation
        self._clock = SimClock(simulation)
        self._name = name
        self._transport = transport
        self._on_change = on_change
        self._versions: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self._under_way: deque[_UnderWay] = deque()
        self._received = bytearray()
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._outbox = memoryview(b"")
        transport.watch_readable(self._readable)

    # -- requests -------------------------------------------------------------------------------

    def negotiate(self, timeout_ms: int) -> None:
        """Ask for the versions. `features` is set when they have arrived."""
        ask = Ask(
            None,
            ApiVersionsRequest(
                client_software_name="odradek", client_software_version="simulation"
            ),
            ApiVersionsResponse,
            self._negotiated,
            lambda error, now_ms: None,
            timeout_ms=timeout_ms,
        )
        self._write(ask, VERSION_CAPS[api_keys.API_VERSIONS])

    def _negotiated(self, response: ApiVersionsResponse, now_ms: int) -> None:
        self.features = response
        self._versions = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}

    def send(self, ask: Ask) -> None:
        """Send a request. Its outcome is reported later.

        Raises:
            UnsupportedVersionError: the broker does not support it.
        """
        key = ask.request.API_KEY
        assert key is not None
        offered = self._versions.get(key)
        self._write(ask, usable_version(BY_KEY[key], offered, self.address, ask.version_max))

    def _write(self, ask: Ask, version: int) -> None:
        key = ask.request.API_KEY
        assert key is not None
        api = BY_KEY[key]
        self._correlation_id += 1
        frame = encode_request(ask.request, version, self._correlation_id, self._name, self.address)
        self._simulation.note(self._name, f"{api.name} {frame[4:].hex()}")
        pending: Pending[Message] = Pending(api, version, self._correlation_id, ask.response_class)
        expires_ms = self._clock.monotonic_ms() + ask.timeout_ms
        self._under_way.append(_UnderWay(ask, pending, expires_ms))
        is_blocked = bool(self._outbox)
        self._outbox = memoryview(bytes(self._outbox) + frame)
        if not is_blocked:
            self._flush()

    def _flush(self) -> None:
        """Write what the transport takes now."""
        self._transport.unwatch_writable()
        try:
            while self._outbox:
                self._outbox = self._outbox[self._transport.send(self._outbox) :]
        except BlockingIOError:
            self._transport.watch_writable(self._flush)
        except OSError as error:
            self.end(DisconnectedError(f"the connection to {self.address} broke: {error}"))

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open and has no request in flight."""
        return self.error is None and not self._under_way

    @property
    def expires_ms(self) -> int | None:
        """When the oldest request must have a response."""
        return self._under_way[0].expires_ms if self._under_way else None

    def expire(self, now_ms: int) -> None:
        """End the connection if the oldest request has had no response in time."""
        expires_ms = self.expires_ms
        if self.error is None and expires_ms is not None and expires_ms <= now_ms:
            what = type(self._under_way[0].ask.request).__name__.removesuffix("Request")
            self.end(RequestTimeoutError(f"{self.address} did not answer {what} in time"))

    # -- responses ------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            count = self._transport.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self.end(DisconnectedError(f"the connection to {self.address} broke: {error}"))
            return
        if not count:
            self.end(DisconnectedError(f"the broker at {self.address} closed the connection"))
            return
        self._received += self._buffer[:count]
        while self.error is None and self._take():
            pass

    def _take(self) -> bool:
        """Process the next response. Return whether there was one."""
        received = self._received
        if len(received) < 4 or len(received) < 4 + _LENGTH.unpack_from(received)[0]:
            return False
        frame = bytes(received[4 : 4 + _LENGTH.unpack_from(received)[0]])
        del received[: 4 + len(frame)]
        self._simulation.note(self._name, f"answer {frame.hex()}")
        ask, pending, _ = self._under_way.popleft()
        assert _LENGTH.unpack_from(frame) == (pending.correlation_id,)
        pending.complete(memoryview(frame), self.address)
        ask.on_answer(pending.response, self._clock.monotonic_ms())
        self._on_change()
        return True

    # -- the end --------------------------------------------------------------------------------

    def end(self, error: ClientError) -> None:
        """Close the connection, because of an error. Requests in flight fail."""
        if self.error is not None:
            return
        self.error = error
        self._transport.close()
        now_ms = self._clock.monotonic_ms()
        if self._under_way:
            self._simulation.note(
                self._name, f"{type(self._under_way[0].ask.request).__name__} failed: {error}"
            )
        while self._under_way:
            self._under_way.popleft().ask.on_error(error, now_ms)
        self._on_change()
