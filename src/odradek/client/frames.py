"""The bytes of requests and responses, and the versions in which they are sent.

Each request uses the highest version that both sides support, within the limits of this module.
"""

from __future__ import annotations

import struct
from typing import Generic, TypeVar

from odradek.client.address import Address
from odradek.client.errors import MalformedResponseError, UnsupportedVersionError
from odradek.model import api_keys
from odradek.wire.api import BY_KEY, Api
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.primitives import MalformedMessage, Message, UnsupportedField, skip_tagged_fields

VERSION_CAPS = {0: 12, 1: 12, 8: 9, 9: 9, 18: 5, 28: 5}
"""By API key, the highest version that this client uses, unless the caller names another limit. APIs without
an entry have no such limit.
Later versions of Produce, Fetch, OffsetCommit, OffsetFetch and TxnOffsetCommit have topic ids instead
of names."""

VERSION_FLOORS = {1: 12, 3: 4, 9: 8, 10: 4, 17: 1}
"""By API key, the lowest version that this client uses. Lower versions lack features that this
client needs: sessions and epochs in Fetch, Metadata without topic creation, many groups in
OffsetFetch, many keys in FindCoordinator, and tokens of SASL in requests. Apache Kafka supports
these versions since 3.0."""

_LENGTH = struct.Struct(">i")

ResponseT = TypeVar("ResponseT", bound=Message)


class Pending(Generic[ResponseT]):
    """A request in flight. `response` is None until the response has arrived."""

    __slots__ = ("api", "correlation_id", "response", "response_class", "version")

    def __init__(
        self, api: Api, version: int, correlation_id: int, response_class: type[ResponseT]
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.response_class = response_class
        self.response: ResponseT | None = None

    def complete(self, frame: memoryview, address: Address) -> None:
        """Decode the response. The frame begins with the correlation id.

        Raises:
            MalformedResponseError: the response is malformed.
        """
        version, position = self.version, 4
        if self.api.key == api_keys.API_VERSIONS and bytes(frame[4:6]) == b"\x00\x23":
            version = 0  # the response to an unknown version has the oldest version
        try:
            if self.api.response_header_version(version):
                if frame[4]:
                    position = skip_tagged_fields(frame, 5, frame[4])
                else:
                    position = 5
            self.response = self.response_class.decode(frame, version, position)
        except (MalformedMessage, IndexError) as error:
            raise MalformedResponseError(
                f"the response of {address} to {self.api.name} {version} is malformed: {error}"
            ) from error


def usable_version(
    api: Api, offered: tuple[int, int] | None, address: Address, version_max: int = 32767
) -> int:
    """Return the version for requests to a broker that offers a range, at most `version_max`.

    Raises:
        UnsupportedVersionError: no version is supported by both sides.
    """
    if offered is None:
        raise UnsupportedVersionError(f"the broker at {address} does not offer {api.name}")
    cap = version_max if version_max < 32767 else VERSION_CAPS.get(api.key, 32767)
    highest = min(api.version_max, api.unstable_min - 1, cap)
    lowest = max(api.version_min, VERSION_FLOORS.get(api.key, 0))
    version = min(highest, offered[1])
    if version < max(lowest, offered[0]):
        raise UnsupportedVersionError(
            f"the broker at {address} offers {api.name} in versions {offered[0]} to "
            f"{offered[1]}; this client speaks {lowest} to {highest}"
        )
    return version


def encode_request(
    request: Message, version: int, correlation_id: int, client_id: str, address: Address
) -> bytes:
    """Return the frame of a request, with its length.

    Raises:
        UnsupportedVersionError: the version has no place for a field of the request.
    """
    assert request.API_KEY is not None
    api = BY_KEY[request.API_KEY]
    header = RequestHeader(
        request_api_key=api.key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    parts: list[bytes] = [b""]
    header.ENCODERS[api.request_header_version(version)](header, parts.append)
    try:
        request.ENCODERS[version](request, parts.append)
    except UnsupportedField as error:
        raise UnsupportedVersionError(
            f"the broker at {address} is too old: {api.name} {version}: {error}"
        ) from error
    parts[0] = _LENGTH.pack(sum(map(len, parts)))
    return b"".join(parts)
