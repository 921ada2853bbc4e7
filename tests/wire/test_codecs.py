"""Every message in every version: encoded messages decode to the same values, and invalid bytes
are rejected."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.run_seed import seeds
from tests.wire.sampling import ALL_VERSIONS, BY_NAME, Seeded, sample, samples

from odradek.wire.api import message_class
from odradek.wire.primitives import MalformedMessage, write_uvarint

NAMES = sorted(BY_NAME)
QUICK = settings(max_examples=6, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.parametrize(("name", "version"), ALL_VERSIONS)
def test_round_trip(name: str, version: int) -> None:
    cls = message_class(name)
    for seed in seeds(4):
        message = sample(name, version, Seeded(seed))
        encoded = message.encode(version)
        assert cls.decode(encoded, version) == message
        assert cls.decode(memoryview(encoded), version).encode(version) == encoded
        assert cls.decode(b"before" + encoded, version, 6) == message


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(data=st.data())
def test_round_trip_of_what_hypothesis_makes(name: str, data: st.DataObject) -> None:
    message, version = data.draw(samples(name))
    assert message_class(name).decode(message.encode(version), version) == message


@pytest.mark.parametrize(("name", "version"), ALL_VERSIONS)
def test_every_truncation_is_malformed(name: str, version: int) -> None:
    cls = message_class(name)
    encoded = sample(name, version, Seeded(1)).encode(version)
    for length in range(len(encoded)):
        with pytest.raises(MalformedMessage):
            cls.decode(encoded[:length], version)
    with pytest.raises(MalformedMessage):
        cls.decode(encoded + b"\0", version)


@pytest.mark.parametrize("name", [name for name in NAMES if BY_NAME[name].flexible])
def test_unknown_tags_are_skipped(name: str) -> None:
    message = BY_NAME[name]
    version = message.versions.high
    plain = sample(name, version, Seeded(2))
    for field in message.fields:
        if version in field.tagged:
            setattr(plain, field.name, getattr(type(plain)(), field.name))
    encoded = plain.encode(version)
    assert encoded.endswith(b"\0")
    unknown = b"\x02" + write_uvarint(77) + b"\x03abc" + write_uvarint(100_000) + b"\0"
    assert type(plain).decode(encoded[:-1] + unknown, version) == plain
    with pytest.raises(MalformedMessage):
        type(plain).decode(encoded[:-1] + unknown[:-1], version)
    with pytest.raises(MalformedMessage):
        type(plain).decode(encoded[:-1] + b"\x01\x4d\xff\xff\xff\xff\x0f", version)


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(data=st.binary(max_size=300), version=st.data())
def test_random_bytes_are_read_or_refused(name: str, data: bytes, version: st.DataObject) -> None:
    versions = BY_NAME[name].versions
    chosen = version.draw(st.integers(versions.low, versions.high))
    try:
        message_class(name).decode(data, chosen)
    except MalformedMessage:
        pass


LIES = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xfe", b"\xff\xff\xff\xff\x0f")
"""Great lengths as int32 and as varint, and a negative one."""


@pytest.mark.parametrize("name", NAMES)
def test_lying_lengths_cost_nothing(name: str) -> None:
    version = BY_NAME[name].versions.high
    cls = message_class(name)
    encoded = sample(name, version, Seeded(3)).encode(version)[:150]
    tracemalloc.start()
    try:
        for position in range(len(encoded)):
            for lie in LIES:
                frame = encoded[:position] + lie + encoded[position + len(lie) :]
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                try:
                    cls.decode(frame, version)
                except MalformedMessage:
                    pass
                assert tracemalloc.get_traced_memory()[1] - before < 200_000
    finally:
        tracemalloc.stop()


def test_versions_that_do_not_exist() -> None:
    cls = message_class("ProduceRequest")
    with pytest.raises(MalformedMessage, match="has no version 2"):
        cls.decode(b"", 2)
    with pytest.raises(KeyError):
        cls().encode(99)
