"""A data source like `odradek` whose writes stop at named steps.

The option `faults` names a directory. If it has a file `armed-STEP`, the first process that reaches
the step renames the file to `reached-STEP` and does what the file says. A number after the action
is how many processes pass the step before.

- `error`: raise an exception.
- `worker`: kill this Python process.
- `wait`: write the process id to the file, and wait until the file is removed. Meanwhile another
  process kills the driver, the executor or the broker.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from odradek.client.connection import Connection
from odradek.spark import sharing, transactional, writers
from odradek.spark.options import write_options
from odradek.spark.producing import Sender
from odradek.spark.source import OdradekDataSource
from odradek.spark.transactional import ForDriver
from odradek.spark.writers import StreamWriter

END_TRANSACTION = 26
ERROR, KILL_WORKER, WAIT = "error", "worker", "wait"


class Fault(Exception):
    """The error that a step raises."""


def at(directory: Path, step: str) -> None:
    taken = directory / f"taken-{step}-{os.getpid()}"
    try:
        (directory / f"armed-{step}").rename(taken)
    except FileNotFoundError:
        return
    action, _, skips = taken.read_text().partition(" ")
    if int(skips or 0) > 0:
        taken.write_text(f"{action} {int(skips) - 1}")
        taken.rename(directory / f"armed-{step}")
        return
    if action == WAIT:
        taken.write_text(str(os.getpid()))
    reached = directory / f"reached-{step}"
    taken.rename(reached)
    if action == KILL_WORKER:
        os.kill(os.getpid(), signal.SIGKILL)
    if action == ERROR:
        raise Fault(step)
    while reached.exists():
        time.sleep(0.01)


def with_steps(directory: Path):
    """Return a function for `mapInArrow` that stops at the steps of tasks, before any sink."""

    def steps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at(directory, "task-start")
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            at(directory, "task-middle")
            yield batch.slice(half)
        at(directory, "task-end")

    return steps


class FaultyWriter(StreamWriter):
    def __init__(self, options, schema, directory: Path) -> None:
        super().__init__(options, schema)
        self._directory = directory

    def __getstate__(self):
        is_first = self._producer is None
        state = super().__getstate__()
        if is_first:
            at(self._directory, "begun")
        return state

    def write(self, iterator):
        at(self._directory, "task-start")
        directory = self._directory

        def after(destination):
            class Faulty(destination):
                def send(self, records, timestamp_ms):
                    super().send(records, timestamp_ms)
                    at(directory, "task-middle")

            return Faulty

        writers.Sender, writers.ForDriver = after(Sender), after(ForDriver)
        sharing.Sender = after(Sender)
        try:
            written = super().write(iterator)
        finally:
            writers.Sender, writers.ForDriver = Sender, ForDriver
            sharing.Sender = Sender
        at(self._directory, "task-end")
        return written

    def commit(self, messages, batchId):  # noqa: N803
        at(self._directory, "commit-start")
        write, receive = transactional._write, Connection.receive
        directory = self._directory

        def faulty_write(*arguments):
            at(directory, "before-rows")
            write(*arguments)
            at(directory, "before-end")

        def faulty_receive(connection, pending, timeout_ms):
            if pending.api.key == END_TRANSACTION:
                at(directory, "end-sent")
            return receive(connection, pending, timeout_ms)

        transactional._write, Connection.receive = faulty_write, faulty_receive
        try:
            super().commit(messages, batchId)
        finally:
            transactional._write, Connection.receive = write, receive
        at(self._directory, "after-end")


class FaultySource(OdradekDataSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema, overwrite):
        options = dict(self.options)
        directory = Path(options.pop("faults"))
        return FaultyWriter(write_options(options), schema, directory)
