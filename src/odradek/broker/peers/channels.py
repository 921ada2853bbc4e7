"""Connections to other brokers, for WriteTxnMarkers (sent by transaction coordinators) and
AddPartitionsToTxn (sent by partition leaders).

`BrokerChannels` connects to a broker with the first request to it. The first request to a broker is
ApiVersions, because a broker of another release may not serve the newest version of a request.
ApiVersions is sent again after a request has failed or the broker's registration has changed.

A request fails at once if the broker cannot be reached. The caller repeats it, possibly to another
broker. If the broker's registration changes (it is fenced, has restarted, or has another address),
its connection is closed and the requests in flight fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.core.metadata.registrations import Endpoint
from odradek.env.network import Buffer
from odradek.network.client import NodeClient
from odradek.network.client_machine import RequestError
from odradek.wire.api import BY_KEY
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.primitives import MalformedMessage, Message, skip_tagged_fields

NEGOTIATION_VERSION: Final = 0
"""The version of ApiVersions that every broker knows."""

Connect = Callable[[Endpoint], NodeClient]


class BrokerUnreachable(Exception):
    """The broker has not responded. It may or may not have processed the request."""


class UnsupportedByBroker(Exception):
    """The broker knows no version of the request that has all fields that are needed."""


class _Registration(NamedTuple):
    """What must stay the same as long as a connection is used."""

    endpoint: Endpoint
    broker_epoch: int


class BrokerChannels:
    """One connection to each broker; a `Publisher`. Use it only on the event loop's thread."""

    def __init__(
        self, connect: Connect, *, listener: str, client_id: str, request_timeout_ms: int
    ) -> None:
        """`listener` is the inter-broker listener."""
        self._connect = connect
        self._listener = listener
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._channels: dict[int, _Channel] = {}
        self._is_closed = False
        self.image = EMPTY_IMAGE
        """The newest metadata image."""

    # -- metadata -----------------------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """See `Publisher`."""
        self.image = image

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Close the connections to brokers whose registrations have changed."""
        self.image = image
        if delta.cluster.brokers.changed:
            for broker_id, channel in list(self._channels.items()):
                if self._registration(broker_id) != channel.registration:
                    del self._channels[broker_id]
                    channel.close()

    def _registration(self, broker_id: int) -> _Registration | None:
        """Return the registration of a live broker."""
        broker = self.image.cluster.brokers.get(broker_id)
        endpoint = None if broker is None else broker.listeners.get(self._listener)
        if broker is None or broker.fenced or endpoint is None:
            return None
        return _Registration(endpoint, broker.epoch)

    # -- requests -----------------------------------------------------------------------------

    async def ask(self, broker_id: int, request: Message, version_min: int) -> Message:
        """Send a request in the newest version that both brokers know; return the response.

        Do not send a second request to a broker before the response to the first has arrived.

        Raises:
            BrokerUnreachable: there is no response.
            UnsupportedByBroker: the broker does not know `version_min` of the request.
        """
        channel = self._channels.get(broker_id)
        if channel is None:
            registration = self._registration(broker_id)
            if registration is None or self._is_closed:
                raise BrokerUnreachable(f"broker {broker_id} is not alive")
            channel = self._channels[broker_id] = _Channel(
                registration,
                self._connect(registration.endpoint),
                self._client_id,
                self._timeout_ms,
            )
        return await channel.ask(request, version_min)

    def close(self) -> None:
        """Close the connections. Requests in flight and later requests fail."""
        self._is_closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


class _Channel:
    """The connection to one broker."""

    __slots__ = ("_client", "_header", "_timeout_ms", "_versions", "registration")

    def __init__(
        self, registration: _Registration, client: NodeClient, client_id: str, timeout_ms: int
    ) -> None:
        self.registration = registration
        self._client = client
        name = client_id.encode()
        self._header = len(name).to_bytes(2, "big") + name
        self._timeout_ms = timeout_ms
        self._versions: dict[int, tuple[int, int]] | None = None
        """API key -> the versions that the broker knows; None until it has responded."""

    async def ask(self, request: Message, version_min: int) -> Message:
        """See `BrokerChannels.ask`."""
        try:
            if self._versions is None:
                self._versions = await self._negotiate()
            version = self._version(request, version_min)
            return await self._send(request, version)
        except (RequestError, MalformedMessage, IndexError) as error:
            self._versions = None  # the broker may be another one after the next connection
            raise BrokerUnreachable(str(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    async def _negotiate(self) -> dict[int, tuple[int, int]]:
        response = await self._send(ApiVersionsRequest(), NEGOTIATION_VERSION)
        assert isinstance(response, ApiVersionsResponse)
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def _version(self, request: Message, version_min: int) -> int:
        """Return the newest common version of the request.

        Raises:
            UnsupportedByBroker: the common versions are all older than `version_min`.
        """
        assert self._versions is not None
        assert request.API_KEY is not None
        lowest, highest = self._versions.get(request.API_KEY, (0, -1))
        version = min(highest, request.VERSION_MAX)
        if version < max(lowest, version_min):
            raise UnsupportedByBroker(
                f"the broker knows versions {lowest} to {highest} of {type(request).__name__}"
            )
        return version

    async def _send(self, request: Message, version: int) -> Message:
        """Send a request and return the response.

        Raises:
            RequestError: there is no response.
            MalformedMessage: the response cannot be read.
        """
        assert request.API_KEY is not None
        api = BY_KEY[request.API_KEY]
        parts: list[Buffer] = [self._header]
        if api.request_header_version(version) >= 2:
            parts.append(b"\0")
        request.ENCODERS[version](request, parts.append)
        data = await self._client.call(api.key, version, parts, self._timeout_ms)
        position = 0
        if api.response_header_version(version) >= 1:
            if not data:
                raise MalformedMessage("the response has no header")
            position = skip_tagged_fields(data, 1, data[0]) if data[0] else 1
        return api.response_class().decode(data, version, position)
