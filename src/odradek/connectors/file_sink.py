"""Writes the values of records as lines of a file, or to standard output (`FileStreamSink`)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar, TextIO

from odradek.core.connect.api import Config, SinkConnector, SinkTask
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.java_text import java_text
from odradek.core.connect.records import SinkRecord
from odradek.model.topic_partition import TopicPartition

CONFIG = ConfigDef().define(
    "file",
    ConfigType.STRING,
    None,
    Importance.HIGH,
    "The file to append to; without it, standard output is written to.",
)


class FileStreamSinkTask(SinkTask):
    """Writes one file."""

    def __init__(self) -> None:
        self._out: TextIO | None = None
        self._is_file = False

    def start(self, config: Config) -> None:
        """See `Task`."""
        name = CONFIG.parse(config)["file"]
        if name is None:
            self._out = sys.stdout
            return
        try:
            self._out = open(name, "a", encoding="utf-8", newline="")  # noqa: SIM115 - closed in `stop`
        except OSError as error:
            raise ConnectError(
                f"Couldn't find or create file '{name}' for FileStreamSinkTask: {error.strerror}"
            ) from error
        self._is_file = True

    def put(self, records: Sequence[SinkRecord]) -> None:
        """See `SinkTask`."""
        assert self._out is not None, "the task was started"
        if records:
            self._out.write("".join(f"{java_text(each.value)}\n" for each in records))
            self._out.flush()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `SinkTask`."""
        assert self._out is not None, "the task was started"
        self._out.flush()

    def stop(self) -> None:
        """See `Task`."""
        if self._out is not None and self._is_file:
            self._out.close()


class FileStreamSinkConnector(SinkConnector):
    """See the module."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    task_class = FileStreamSinkTask

    def __init__(self) -> None:
        self._config: Config = {}

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Connector`."""
        return CONFIG

    def start(self, config: Config) -> None:
        """See `Connector`."""
        self._config = config

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """See `Connector`."""
        return [self._config] * max_tasks

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """See `SinkConnector`: the offsets are those of the group."""
        return True
