"""The five codecs."""

from __future__ import annotations

from compat.driver import Record
from compat.lab.wire_client import CODECS
from compat.scenarios.stage import Stage, equal, holds, same_contents, scenario

RECORDS = [
    Record(value=(f"{n} says the same thing again and again. " * 8).encode(), key=str(n).encode())
    for n in range(300)
]


def _with_codec(codec: str) -> None:
    def play(stage: Stage) -> None:
        topic = stage.topic()
        stage.driver.produce(topic, RECORDS, codec=codec)
        same_contents(stage.driver.read(topic, len(RECORDS)), RECORDS, "records")
        stored = stage.batches(topic)
        equal({batch.codec for batch in stored}, {codec}, "codec of the stored batches")
        plain = sum(len(record.value) for record in RECORDS if isinstance(record.value, bytes))
        size = sum(batch.size for batch in stored)
        holds(
            (size > plain) == (codec == "none"),
            f"{size} bytes are stored for {plain} bytes of values with {codec}",
        )

    play.__doc__ = f"300 records written with {codec} are stored so and come back."
    scenario(f"codec {codec}")(play)


for each in CODECS:
    _with_codec(each)


@scenario("codec of the topic")
def codec_of_the_topic(stage: Stage) -> None:
    """With compression.type=zstd the broker recompresses what comes as gzip."""
    topic = stage.topic(compression_type="zstd")
    stage.driver.produce(topic, RECORDS, codec="gzip")
    same_contents(stage.driver.read(topic, len(RECORDS)), RECORDS, "records")
    codecs = {batch.codec for batch in stage.batches(topic)}
    equal(codecs, {"zstd"}, "codec of the stored batches")
