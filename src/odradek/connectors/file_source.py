"""Reads the lines of a file, or of standard input, into a topic (`FileStreamSource`).

Only complete lines are read. The offset of a record is the number of bytes up to the end of its line, so
that reading goes on there after a restart.
"""

from __future__ import annotations

import codecs
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import BinaryIO, ClassVar

from odradek.core.connect.api import Config, Offset, Partition, SourceConnector, SourceTask
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance, non_empty
from odradek.core.connect.data import STRING
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.records import SourceRecord

_CHUNK = 64 * 1024
_IDLE_SECONDS = 1.0

CONFIG = (
    ConfigDef()
    .define(
        "file",
        ConfigType.STRING,
        None,
        Importance.HIGH,
        "The file to read; without it, standard input is read.",
    )
    .define(
        "topic",
        ConfigType.STRING,
        importance=Importance.HIGH,
        documentation="The topic to write to.",
        validator=non_empty,
    )
    .define(
        "batch.size",
        ConfigType.INT,
        2000,
        Importance.LOW,
        "The most records that are read at once.",
    )
)


class FileStreamSourceTask(SourceTask):
    """Reads one file."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._topic = ""
        self._most = 0
        self._file: BinaryIO | None = None
        self._position: int | None = None
        self._rest = b""
        self._stopping = threading.Event()
        self._decode = codecs.getdecoder("utf-8")

    def start(self, config: Config) -> None:
        """See `Task`."""
        parsed = CONFIG.parse(config)
        self._name = parsed["file"] or None
        self._topic = parsed["topic"]
        self._most = parsed["batch.size"]

    def poll(self) -> list[SourceRecord] | None:
        """See `SourceTask`."""
        if self._file is None and not self._open():
            self._stopping.wait(_IDLE_SECONDS)
            return None
        assert self._file is not None, "it was opened"
        records = self._take_lines()
        if not records:
            chunk = os.read(self._file.fileno(), _CHUNK)
            if not chunk:
                self._stopping.wait(_IDLE_SECONDS)
                return None
            self._rest += chunk
            records = self._take_lines()
        return records or None

    def _open(self) -> bool:
        if self._name is None:
            self._file = sys.stdin.buffer
            return True
        try:
            self._file = open(self._name, "rb", buffering=0)  # noqa: SIM115 - closed in `stop`
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConnectError(f"{self._name} cannot be read: {error.strerror}") from error
        offset = self.context.offset({"filename": self._name})
        position = 0 if offset is None else offset.get("position") or 0
        if not isinstance(position, int):
            raise ConnectError("Offset position is the incorrect type")
        self._file.seek(position)
        self._position = position
        return True

    def _take_lines(self) -> list[SourceRecord]:
        records: list[SourceRecord] = []
        start = 0
        now_ms = round(time.time() * 1000)
        while len(records) < self._most:
            end, after = _line_end(self._rest, start)
            if end < 0:
                break
            text = self._decode(self._rest[start:end], "replace")[0]
            if self._position is not None:
                self._position += after - start
            start = after
            records.append(
                SourceRecord(
                    topic=self._topic,
                    value_schema=STRING,
                    value=text,
                    timestamp=now_ms,
                    source_partition=None if self._name is None else {"filename": self._name},
                    source_offset=None if self._position is None else {"position": self._position},
                )
            )
        self._rest = self._rest[start:]
        return records

    def stop(self) -> None:
        """See `Task`."""
        self._stopping.set()
        file, self._file = self._file, None
        if file is not None and self._name is not None:
            file.close()


def _line_end(data: bytes, start: int) -> tuple[int, int]:
    r"""Return the end of a line and the start of the next; -1 if the line is not complete.

    A line ends with \n, \r or \r\n. A \r at the end of the data may be followed by a \n.
    """
    newline = data.find(b"\n", start)
    carriage = data.find(b"\r", start, newline if newline >= 0 else len(data))
    if carriage < 0:
        return newline, newline + 1
    if carriage + 1 == len(data):
        return -1, 0
    return carriage, carriage + 2 if data[carriage + 1 : carriage + 2] == b"\n" else carriage + 1


class FileStreamSourceConnector(SourceConnector):
    """See the module."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    task_class = FileStreamSourceTask

    def __init__(self) -> None:
        self._config: Config = {}

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Connector`."""
        return CONFIG

    def start(self, config: Config) -> None:
        """See `Connector`."""
        CONFIG.parse(config)
        self._config = config

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """See `Connector`."""
        return [self._config]

    def exactly_once_support(self, config: Config) -> bool | None:
        """A file has offsets, standard input has not."""
        return bool(CONFIG.parse(config)["file"])

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        """See `SourceConnector`."""
        if not CONFIG.parse(config)["file"]:
            raise ConnectError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. This is because "
                "stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is None:
                continue
            if "position" not in offset:
                raise ConnectError(
                    "Offset objects should either be null or contain the key 'position'"
                )
            position = offset["position"]
            if not isinstance(position, int) or isinstance(position, bool):
                raise ConnectError(
                    "The value for the 'position' key in the offset is expected to be a Long value"
                )
            if position < 0:
                raise ConnectError(
                    "The value for the 'position' key in the offset should be a non-negative value"
                )
            if "filename" not in partition:
                raise ConnectError("Partition objects should contain the key 'filename'")
        return True
