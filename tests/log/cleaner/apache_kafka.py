"""Runs the cleaner of Apache Kafka 4.4 in a process, which cleans the given directories."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from compat.lab.maven import next_jars
from compat.lab.toolchain import Missing, require
from tests.support.child import Child

PROGRAM = Path(__file__).parent / "java" / "Clean.java"
BYTES_A_KEY = 24
"""Size of an entry in Apache Kafka's map."""


class Cleaned(NamedTuple):
    """The result of a round."""

    next_offset: int
    end_offset: int
    dirty_ratio: float
    elapsed_ms: int
    bytes_read: int
    bytes_written: int


class Kafka:
    """A running process."""

    def __init__(self) -> None:
        """Start the process. Skip the test if Java is not installed."""
        try:
            java, paths = require("java"), next_jars()
        except Missing as reason:
            pytest.skip(str(reason))
        classpath = os.pathsep.join(map(str, paths))
        self._process = Child(
            [
                str(java),
                "-Xmx1g",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
                classpath,
                str(PROGRAM),
            ],
            talks=True,
            hears=True,
        )

    def close(self) -> None:
        """End the process."""
        self._process.finish(30)
        self._process.close()

    def clean(
        self,
        directory: str,
        now_ms: int,
        first_dirty_offset: int,
        uncleanable_offset: int,
        entries: int,
        settings: Mapping[str, object],
    ) -> Cleaned:
        """Run one round."""
        item = [directory, now_ms, first_dirty_offset, uncleanable_offset]
        item += [entries * BYTES_A_KEY, 1.0]
        item += [f"{name}={value}" for name, value in settings.items()]
        self._process.tell("\t".join(map(str, item)))
        fields: list[str] = []
        while len(fields) != len(Cleaned._fields):  # other lines are its log
            fields = self._process.line().split()
        return Cleaned(*map(int, fields[:2]), float(fields[2]), *map(int, fields[3:]))
