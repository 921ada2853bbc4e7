"""The connection of a broker to the active controller over the network.

The channel sends the broker's own requests unchanged. It sends the requests that the broker
forwards for clients in an Envelope (KIP-590). The leader of the quorum is the active controller;
its address comes from the raft client. If there is no leader, the connection is lost, or the other
node responds with NOT_CONTROLLER, the request is repeated after `retry_backoff_ms`, until its time
is over. The same happens if another node becomes the active controller before the response. If the
connection was lost, the controller may have processed the request already. Then the repetition of
CreateTopics gets the error TOPIC_ALREADY_EXISTS. The classes of Apache Kafka are
NodeToControllerChannelManager and ForwardingManager.

The requests on a connection are processed one after the other. So heartbeats use a channel of their
own.

All clients of a broker share a connection. So the time that a client gives its request does not end
the connection when it is over, but only the wait for this response: the controller answers in this
time, and after a grace the broker does. The connection ends if a response takes longer than the
broker's own timeout.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import struct
from collections.abc import Callable
from typing import Any

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.peers.versions import PeerVersions, VersionNotServed, encoded_request
from odradek.core.raft.voters import Destination
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.client import NodeClient
from odradek.network.client_machine import ClientSettings, RequestError
from odradek.wire.api import BY_KEY, Api
from odradek.wire.generated.default_principal_data import DefaultPrincipalData
from odradek.wire.generated.envelope_request import EnvelopeRequest
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.primitives import (
    MalformedMessage,
    Message,
    UnsupportedField,
    skip_tagged_fields,
)

log = logging.getLogger("odradek.broker")

PRINCIPAL_VERSION = 0
CHECK_SECONDS = 0.1
"""How often a request without a response checks whether the controller is still the same."""
_short = struct.Struct(">h").pack


class _Repeat(Exception):
    """The active controller has not responded to the request. The argument is the reason."""


class RemoteControllerChannel:
    """A channel to a controller on another node. Use it only on the event loop's thread."""

    def __init__(
        self,
        find_controller: Callable[[], Destination | None],
        network: Network,
        random_bytes: RandomBytes,
        *,
        client_id: str,
        timeout_ms: int,
        attempt_timeout_ms: int,
        retry_backoff_ms: int,
    ) -> None:
        """`find_controller` returns the address of the active controller; None while unknown.

        `timeout_ms` is the time for a request that has no timeout of its own, and for a response.
        `attempt_timeout_ms` is the time to connect, and how much longer than its own timeout a
        request may wait for a response.
        """
        self._find_controller = find_controller
        self._network = network
        self._random_bytes = random_bytes
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._attempt_timeout_ms = attempt_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._loop = asyncio.get_running_loop()
        self._client: NodeClient | None = None
        self._versions: PeerVersions | None = None
        self._destination: Destination | None = None
        self._is_closed = False

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """Return the active controller's response; see `ControllerChannel`.

        Raises:
            ApiError: REQUEST_TIMED_OUT (no active controller has responded in time), or an error
                of the whole request.
        """
        timeout_ms = getattr(request, "timeout_ms", 0)
        if timeout_ms <= 0:
            timeout_ms = self._timeout_ms
        deadline = self._loop.time() + timeout_ms / 1000
        while True:
            try:
                return await self._attempt(context, request, deadline)
            except _Repeat as reason:
                log.debug("%s is repeated: %s", type(request).__name__, reason)
                pause = self._retry_backoff_ms / 1000
                if self._is_closed or self._loop.time() + pause >= deadline:
                    raise ApiError(
                        ErrorCode.REQUEST_TIMED_OUT, f"the controller does not answer: {reason}"
                    ) from None
            await asyncio.sleep(pause)

    def close(self) -> None:
        """Close the connection; requests are not repeated any more."""
        self._is_closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        if self._client is not None:
            self._drop(self._client)

    def _drop(self, client: NodeClient) -> None:
        """Close a client. It is not used again, even if its node becomes the controller again."""
        client.close()
        if self._client is client:
            self._client = None

    async def _attempt(self, context: RequestContext | None, request: Any, deadline: float) -> Any:
        """Send a request once; wait for the response until after `deadline`, on the loop's clock."""
        destination = self._find_controller()
        if destination is None:
            raise _Repeat("the active controller is not known")
        client = self._connect(destination)
        answer_by = deadline + self._attempt_timeout_ms / 1000
        if context is None:
            response = await self._send(client, request, answer_by)
        else:
            response = await self._forward(client, context, request, answer_by)
        if _is_standby(response):
            raise _Repeat(f"node {destination.node_id} is not the active controller")
        code = getattr(response, "error_code", 0)
        if code and context is None:
            raise ApiError(ErrorCode.of(code))
        return response

    def _connect(self, destination: Destination) -> NodeClient:
        """Return the client of this node; close the one of another node."""
        if self._client is None or destination != self._destination:
            self._disconnect()
            self._destination = destination
            self._versions = PeerVersions(self._client_id)
            self._client = NodeClient(
                self._network,
                destination.host,
                destination.port,
                self._random_bytes,
                ClientSettings(
                    connection_setup_timeout_ms=self._attempt_timeout_ms, fails_fast=True
                ),
                handshake=self._versions.handshake,
            )
        return self._client

    async def _send(self, client: NodeClient, request: Any, answer_by: float) -> Any:
        """Send a request in the newest version that both nodes serve; return the response.

        Raises:
            ApiError: UNSUPPORTED_VERSION, because there is no such version; REQUEST_TIMED_OUT, because
                there was no response until `answer_by`.
        """
        assert self._versions is not None
        try:
            version = self._versions.version(request)
            key, parts = encoded_request(request, version, self._client_id)
        except (VersionNotServed, UnsupportedField) as error:
            self._disconnect()  # the node may be upgraded before the next request
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        api = BY_KEY[key]
        call = client.call(key, version, parts, self._timeout_ms)
        try:
            while not (await asyncio.wait((call,), timeout=CHECK_SECONDS))[0]:
                if self._find_controller() not in (None, self._destination):
                    self._drop(client)  # another node is the active controller: `call` fails
                elif self._loop.time() >= answer_by:
                    raise ApiError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        "the controller does not answer: no response in time",
                    )
        finally:
            call.cancel()  # no effect if there is a response
        try:
            return _decoded(api, version, call.result())
        except RequestError as error:
            raise _Repeat(str(error)) from error

    async def _forward(
        self, client: NodeClient, context: RequestContext, request: Any, answer_by: float
    ) -> Any:
        """Send a client's request in an envelope; return the response in the envelope.

        Raises:
            ApiError: the controller has rejected the envelope.
        """
        api = BY_KEY[request.API_KEY]
        version = context.api_version
        header = RequestHeader(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=context.correlation_id,
            client_id=context.client_id,
        )
        head = bytes(header.encode(api.request_header_version(version)))
        kind, _, name = context.principal.partition(":")
        principal = DefaultPrincipalData(
            type=kind, name=name, token_authenticated=context.peer.is_token_authenticated
        ).encode(PRINCIPAL_VERSION)
        envelope = EnvelopeRequest(
            request_data=head + bytes(request.encode(version)),
            request_principal=_short(PRINCIPAL_VERSION) + bytes(principal),
            client_host_address=ipaddress.ip_address(context.peer.host).packed,
        )
        answer = await self._send(client, envelope, answer_by)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            return answer
        if answer.error_code or answer.response_data is None:
            log.error("the controller refuses a forwarded %s: %d", api.name, answer.error_code)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        # The response in the envelope has the correlation id that was sent in the envelope.
        return _decoded(api, version, answer.response_data[4:])


def _is_standby(response: Any) -> bool:
    """Return whether the node was not the active controller.

    A response to CreateTopics has this error in each topic, because it has no other error field."""
    topics = getattr(response, "topics", ())
    return any(
        getattr(each, "error_code", 0) == ErrorCode.NOT_CONTROLLER for each in (response, *topics)
    )


def _decoded(api: Api, version: int, data: bytes) -> Message:
    """Return the response in the bytes after the correlation id.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR: the response cannot be read.
    """
    try:
        position = 0
        if api.response_header_version(version) >= 1:
            position = skip_tagged_fields(data, 1, data[0]) if data[0] else 1
        return api.response_class().decode(data, version, position)
    except (MalformedMessage, IndexError, ValueError) as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's response cannot be read: {error}"
        ) from error
