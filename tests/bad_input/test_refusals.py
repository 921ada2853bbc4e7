"""The log says which request closed a connection."""

import socket
import struct

import pytest

from odradek.testing import Broker

METADATA, UNKNOWN = 3, 999


@pytest.mark.parametrize(
    ("key", "version", "said"),
    [
        (METADATA, 9, "a request of Metadata version 9 is malformed"),
        (METADATA, 99, "a request of Metadata version 99 is not served"),
        (UNKNOWN, 0, "a request of the unknown API 999 version 0 is not served"),
    ],
)
def test_what_is_logged(caplog, key, version, said):
    request = struct.pack(">hhih", key, version, 7, -1)
    with Broker() as broker, socket.create_connection(("127.0.0.1", broker.port)) as client:
        client.settimeout(30)
        client.sendall(struct.pack(">i", len(request)) + request)
        assert client.recv(1) == b""
    (line,) = [each.message for each in caplog.records if "closed the connection" in each.message]
    assert "(User:ANONYMOUS)" in line
    assert said in line
