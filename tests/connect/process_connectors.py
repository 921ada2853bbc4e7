"""Connectors whose tasks run in processes of their own: this module imports little, so that they start soon."""

from __future__ import annotations

import os
import signal
import sys
import time

from odradek.connect import (
    RetriableError,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
)


class Writer(SourceTask):
    """Writes its process id and what it was told, then does what its configuration says."""

    def start(self, config):
        self.mode = config["mode"]
        self.count = (self.context.offset({"p": 1}) or {"n": 0})["n"]
        self.told = []

    def poll(self):
        if self.count:
            time.sleep(0.02)
        if self.mode == "die" and self.count == 3:
            sys.stderr.write("the last words\n")
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mode == "hang" and self.count == 3:
            time.sleep(600)
        self.count += 1
        value = f"{self.count} {os.getpid()} {len(self.told)}"
        where = {"source_partition": {"p": 1}, "source_offset": {"n": self.count}}
        return [SourceRecord(topic=f"process-{self.mode}", value=value, **where)]

    def commit_record(self, record, offset):
        self.told.append(offset)


class WriterSource(SourceConnector):
    task_class = Writer

    def start(self, config):
        self._config = config

    def task_configs(self, max_tasks):
        return [self._config]


class Keeper(SinkTask):
    """Writes values to a file; some come again or are reported."""

    def start(self, config):
        self.file = open(config["file"], "a")  # noqa: SIM115 - closed in `stop`
        self.failed = False

    def put(self, records):
        for each in records:
            if each.offset == 2 and not self.failed:
                self.failed = True
                raise RetriableError("again")
            if each.offset == 3:
                reporter = self.context.errant_record_reporter
                reporter.report(each, ValueError("not this one")).result()
        self.file.writelines(f"{each.offset} {each.value}\n" for each in records)

    def flush(self, offsets):
        self.file.flush()

    def stop(self):
        self.file.close()


class KeeperSink(SinkConnector):
    task_class = Keeper

    def start(self, config):
        self._config = config

    def task_configs(self, max_tasks):
        return [self._config]
