"""The API versions that another node serves.

A connection to another node begins with ApiVersions (`PeerVersions.handshake`). From then on a
request is sent in the newest version that both nodes serve. A request that was made before the
first connection is in the newest version of this node. If the other node does not serve it, it
closes the connection. The sender repeats the request in a version that both serve.
"""

from __future__ import annotations

from collections.abc import Generator

from odradek import __version__
from odradek.env.network import Buffer
from odradek.model.errors import ErrorCode
from odradek.network.client import HandshakeError
from odradek.network.sessions import PlainRequest
from odradek.wire.api import BY_KEY
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.primitives import MalformedMessage, Message

API_VERSIONS = 18
API_VERSIONS_VERSION = 4
"""Apache Kafka 4.3 serves no newer version of ApiVersions. Older versions omit kraft.version."""
SOFTWARE_NAME = "odradek"


class VersionNotServed(Exception):
    """The other node serves no version of the API that this node can send."""


class PeerVersions:
    """What one other node serves. Its handshake is used for each connection to the node."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._served: dict[int, tuple[int, int]] | None = None
        """The lowest and the highest version by API key; None before the first connection."""

    def version(self, message: Message, lowest: int = 0) -> int:
        """Return the version in which a request is sent, at least `lowest`.

        Raises:
            VersionNotServed: there is no common version.
        """
        key = message.API_KEY
        assert key is not None
        newest = API_VERSIONS_VERSION if key == API_VERSIONS else message.VERSION_MAX
        if self._served is None:
            return newest
        low, high = self._served.get(key, (0, -1))
        version = min(newest, high)
        if version < max(low, lowest, message.VERSION_MIN):
            raise VersionNotServed(f"the node serves {BY_KEY[key].name} {low} to {high}")
        return version

    def handshake(self) -> Generator[PlainRequest, bytes, None]:
        """Ask for the versions (`NodeClient.handshake`).

        Raises:
            HandshakeError: the response is not usable.
        """
        version = API_VERSIONS_VERSION
        response = _decoded((yield self._request(version)), version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = [each.max_version for each in response.api_keys]
            version = min([version, *offered[:1]])
            response = _decoded((yield self._request(version)), version)
        if response.error_code:
            raise HandshakeError(f"ApiVersions has the error {response.error_code}")
        self._served = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }

    def _request(self, version: int) -> PlainRequest:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        key, parts = encoded_request(request, version, self._client_id)
        return key, version, parts


def encoded_request(message: Message, version: int, client_id: str) -> tuple[int, list[Buffer]]:
    """Return the API key of a request, and its bytes after the correlation id.

    Raises:
        UnsupportedField: the version cannot encode the value of a field.
    """
    key = message.API_KEY
    assert key is not None
    name = client_id.encode()
    tags = b"\0" if BY_KEY[key].request_header_version(version) >= 2 else b""
    parts: list[Buffer] = [len(name).to_bytes(2, "big") + name + tags]
    message.ENCODERS[version](message, parts.append)
    return key, parts


def _decoded(data: bytes, version: int) -> ApiVersionsResponse:
    """Return the response. If the version is not served, the response has version 0."""
    try:
        if int.from_bytes(data[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        return ApiVersionsResponse.decode(data, version)
    except (MalformedMessage, IndexError, ValueError) as error:
        raise HandshakeError(f"the response to ApiVersions cannot be read: {error}") from error
