"""From one byte to the largest message, and one byte more."""

from __future__ import annotations

from compat.driver import Fill, Record
from compat.scenarios.stage import Stage, equal, refused, same_contents, scenario

BATCH_HEADER_SIZE = 61
MESSAGE_BYTES_MAX_DEFAULT = 1_048_588
TOO_LARGE = ("MESSAGE_TOO_LARGE", "RECORD_TOO_LARGE", "RecordTooLargeException")


def value_size_for(batch_size: int) -> int:
    """The value of a record without key and headers whose batch of one has `batch_size` bytes.

    A record is: length, attributes, timestamp delta, offset delta, key length -1, value length,
    value, header count. Its numbers are zigzag varints; the four small ones and the attributes
    take one byte each.
    """
    body = batch_size - BATCH_HEADER_SIZE
    for value_size in range(body - 16, body):
        record = 5 + _varint_size(value_size) + value_size
        if _varint_size(record) + record == body:
            return value_size
    raise ValueError(f"no value makes a batch of {batch_size} bytes")


def _varint_size(number: int) -> int:
    return max(1, ((number << 1).bit_length() + 6) // 7)


@scenario("sizes")
def sizes(stage: Stage) -> None:
    """Values of 1 byte to 1 000 000 bytes come back."""
    topic = stage.topic()
    counts = (1, 2, 63, 64, 127, 128, 1000, 8191, 8192, 65_535, 65_536, 500_000, 1_000_000)
    records = [Record(Fill(size)) for size in counts]
    for record in records:
        stage.driver.produce(topic, [record])
    same_contents(stage.driver.read(topic, len(records)), records, "records")


@scenario("largest message")
def largest_message(stage: Stage) -> None:
    """A batch of exactly the default max.message.bytes is taken, one byte more is refused."""
    topic = stage.topic()
    size = value_size_for(MESSAGE_BYTES_MAX_DEFAULT)
    largest = Record(Fill(size))
    equal(stage.driver.produce(topic, [largest]), [0], "offset of the largest")
    refused(lambda: stage.driver.produce(topic, [Record(Fill(size + 1))]), *TOO_LARGE)
    same_contents(stage.driver.read(topic, 1), [largest], "the largest")
    equal(stage.driver.offset(topic, 0, "latest"), 1, "end of the log")


@scenario("max.message.bytes")
def max_message_bytes(stage: Stage) -> None:
    """A topic's own limit of 20 000 bytes is exact, and 10 MB work where it allows them."""
    small = stage.topic("small", max_message_bytes="20000")
    size = value_size_for(20_000)
    equal(stage.driver.produce(small, [Record(Fill(size))]), [0], "offset at the limit")
    refused(lambda: stage.driver.produce(small, [Record(Fill(size + 1))]), *TOO_LARGE)
    large = stage.topic("large", max_message_bytes="12000000")
    record = Record(Fill(10_000_000))
    equal(stage.driver.produce(large, [record]), [0], "offset of 10 MB")
    same_contents(stage.driver.read(large, 1), [record], "10 MB")
