"""Long requests: the elements of all arrays are counted."""

import struct

import pytest

from odradek.wire import large_requests
from odradek.wire.generated.list_offsets_request import ListOffsetsRequest
from odradek.wire.large_requests import decode_large
from odradek.wire.primitives import MalformedMessage

VERSION = 1
DECODER = ListOffsetsRequest.DECODERS[VERSION]


def request(topics: int, partitions: int) -> bytes:
    topic = struct.pack(">hi", 0, partitions) + bytes(12) * partitions
    return struct.pack(">ii", -1, topics) + topic * topics


def test_the_message_is_the_same() -> None:
    data = request(3, 100)
    assert decode_large(DECODER, data, 0) == DECODER(data, 0)


def test_elements_of_nested_arrays_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_requests, "ELEMENTS_MAX", 1000)
    with pytest.raises(MalformedMessage, match="more than 1000 elements in all arrays"):
        decode_large(DECODER, request(10, 100), 0)
    assert decode_large(DECODER, request(10, 99), 0)[0].topics[9]


def test_a_length_is_compared_with_the_bytes_too() -> None:
    with pytest.raises(MalformedMessage, match="array of 9 elements in"):
        decode_large(DECODER, struct.pack(">ii", -1, 9) + bytes(20), 0)
