"""Requests to a controller listener, one connection each."""

import asyncio
import struct

from odradek.wire.api import BY_KEY
from odradek.wire.generated.default_principal_data import DefaultPrincipalData
from odradek.wire.generated.envelope_request import EnvelopeRequest
from odradek.wire.generated.request_header import RequestHeader


def encoded(request, version, correlation_id=7, client_id="test"):
    """A request with its header."""
    api = BY_KEY[request.API_KEY]
    header = RequestHeader(
        request_api_key=api.key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    head = header.encode(api.request_header_version(version))
    return bytes(head) + bytes(request.encode(version))


def decoded(request, version, data, correlation_id=7):
    """The response in the bytes from its header on."""
    api = BY_KEY[request.API_KEY]
    assert struct.unpack_from(">i", data) == (correlation_id,)
    start = 5 if api.response_header_version(version) else 4
    return api.response_class().decode(data, version, start)


async def ask(port, request, version=None):
    """Return the response of the node at this port."""
    version = request.VERSION_MAX if version is None else version
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        frame = encoded(request, version)
        writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return decoded(request, version, await reader.readexactly(size))
    finally:
        writer.close()
        await writer.wait_closed()


def envelope(request, version, principal=b"", address=b"\x7f\0\0\1"):
    """The envelope in which a broker forwards a request."""
    who = DefaultPrincipalData(type="User", name="alice")
    principal = principal or struct.pack(">h", 0) + bytes(who.encode(0))
    return EnvelopeRequest(
        request_data=encoded(request, version),
        request_principal=principal,
        client_host_address=address,
    )
