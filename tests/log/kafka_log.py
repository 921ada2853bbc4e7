"""Runs Apache Kafka's own `UnifiedLog` for comparison with our log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compat.lab.dialogue import Dialogue
from compat.lab.java import command, compiled
from compat.lab.maven import kafka_jars
from compat.lab.toolchain import Missing
from tests.log.support import TOPIC_ID, StillClock

from odradek.log import AppendOrigin, PartitionLog
from odradek.model import uuids

OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
SOURCES = Path(__file__).parent / "java"


@contextmanager
def kafka_log(log_file: Path) -> Iterator[KafkaLog]:
    """Yield a running Java program. Skip the test if Java is not installed."""
    try:
        jars = kafka_jars()
        classes = compiled(jars, SOURCES)
        dialogue = Dialogue(command("Logs", jars, classes, options=OPTIONS), log=log_file)
    except Missing as reason:
        pytest.skip(str(reason))
    try:
        yield KafkaLog(dialogue)
    finally:
        dialogue.close()


class KafkaLog:
    """Apache Kafka's `UnifiedLog`, with one open log."""

    def __init__(self, dialogue: Dialogue) -> None:
        self.ask = dialogue.ask

    def open(
        self,
        path: str,
        clock: StillClock,
        settings: dict[str, object],
        *,
        was_clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        verify: bool = False,
    ) -> dict:
        """Open the log in a directory. Return the same as `describe`."""
        return self.ask(
            "open",
            path=path,
            settings=kafka_settings(settings),
            now=clock.ms,
            was_clean=was_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            verify=verify,
            topic_id=uuids.to_text(TOPIC_ID),
        )

    def append(
        self,
        records: bytes,
        clock: StillClock,
        *,
        epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        replicated: bool = True,
    ) -> dict:
        return self.ask(
            "append",
            records=bytes(records).hex(),
            now=clock.ms,
            epoch=epoch,
            origin=origin.name,
            transaction_version=transaction_version,
            replicated=replicated,
        )

    def describe(self) -> dict:
        return self.ask("describe")

    def close(self) -> None:
        self.ask("close")


def kafka_settings(settings: dict[str, object]) -> dict[str, str]:
    """Convert settings such as `segment_bytes=1000` to Kafka's names."""
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    if "segment.bytes" in named:
        named["internal.segment.bytes"] = named.pop("segment.bytes")
    return named


def describe(log: PartitionLog) -> dict:
    """Return the same as `KafkaLog.describe` for an Odradek log."""
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "recovery_point": log.recovery_point,
        "segments": [
            [segment.base_offset, segment.size, segment.load_max_timestamp()]
            for segment in log.segments
        ],
        "epochs": [list(entry) for entry in log.leader_epochs.entries],
        "producers": [list(producer) for producer in log.active_producers()],
    }


def assert_same(ours: dict, kafkas: dict, *, without: tuple[str, ...] = ()) -> None:
    """Check that two descriptions are equal."""
    for each in (ours, kafkas):
        each["producers"] = sorted(each["producers"])
        # In Kafka it may be the base offset of the batch that contains the log start offset.
        each["last_stable_offset"] = max(each["last_stable_offset"], each["log_start_offset"])
        for name in without:
            each.pop(name)
    for name, value in ours.items():
        assert value == kafkas[name], f"{name}: ours {value}, Kafka's {kafkas[name]}"
    assert ours.keys() == kafkas.keys()
