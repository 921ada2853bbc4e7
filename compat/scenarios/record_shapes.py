"""Records of unusual shape."""

from __future__ import annotations

from compat.driver import Header, Record
from compat.lab.dialogue import Refused
from compat.scenarios.stage import Stage, equal, holds, same_contents, scenario

HEADERS: tuple[Header, ...] = (
    ("trace", b"one"),
    ("trace", b"two"),
    ("Köpfe", "Füße".encode()),
    ("bytes", bytes(range(256))),
    ("empty", b""),
)


def _round_trip(stage: Stage, records: list[Record]) -> None:
    topic = stage.topic()
    stage.driver.produce(topic, records)
    same_contents(stage.driver.read(topic, len(records)), records, "records")


@scenario("headers")
def headers(stage: Stage) -> None:
    """Headers come back: repeated, not ASCII, binary, empty, and a hundred on one record."""
    many = tuple((f"header-{n}", str(n).encode()) for n in range(100))
    _round_trip(stage, [Record(b"v", headers=HEADERS), Record(b"w"), Record(b"x", headers=many)])


@scenario("null header value")
def null_header_value(stage: Stage) -> None:
    """A header without a value is not one with an empty value."""
    _round_trip(stage, [Record(b"v", headers=(("null", None), ("empty", b"")))])


@scenario("null keys and values")
def null_keys_and_values(stage: Stage) -> None:
    """A tombstone, a value without a key, and both."""
    _round_trip(stage, [Record(None, b"key"), Record(b"value"), Record(b"value", b"key")])


@scenario("null key and value")
def null_key_and_value(stage: Stage) -> None:
    """A record with neither key nor value."""
    _round_trip(stage, [Record(None), Record(b"between"), Record(None)])


@scenario("empty keys and values")
def empty_keys_and_values(stage: Stage) -> None:
    """Empty is not null."""
    _round_trip(stage, [Record(b"", b""), Record(b"", None), Record(None, b""), Record(b"v", b"")])


@scenario("empty batch")
def empty_batch(stage: Stage) -> None:
    """A batch without a record is refused or leaves nothing, and what follows is unharmed."""
    topic = stage.topic()
    try:
        stage.driver.produce_empty(topic)
    except Refused as refusal:
        known = {"INVALID_RECORD", "InvalidRecord", "UnknownError", "CORRUPT_MESSAGE"}
        holds(refusal.name in known, f"refused with {refusal}")
    record = Record(b"after")
    equal(stage.driver.produce(topic, [record]), [0], "offset of the next record")
    same_contents(stage.driver.read(topic, 1), [record], "the next record")
