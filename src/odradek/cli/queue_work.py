"""`odradek queue work`: a consumer of a share group, which prints records or runs a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from odradek.cli.arguments import count_option, group_argument, topic_argument
from odradek.cli.options import cluster_options, connected
from odradek.cli.output import note, warn
from odradek.cli.record_options import format_options, keys_option, offsets_option
from odradek.cli.rendering import Renderer, TextColumns, make_renderer
from odradek.cli.values import DURATION
from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.cluster import Cluster
from odradek.client.deadline import Deadline
from odradek.client.share.consumer import (
    AcknowledgementResult,
    AcknowledgeType,
    ShareConsumer,
    ShareLimits,
    ShareRecord,
)
from odradek.model.config_resource import ResourceType
from odradek.operations.texts import plural
from odradek.records.record import Record

_POLL_MS = 500
_NOT_RUN = {126: "cannot be executed", 127: "is not found"}
"""Exit codes with which the shell says that it could not run the command."""


@click.command()
@group_argument()
@topic_argument(nargs=-1, required=True)
@click.option(
    "--run",
    "command",
    metavar="COMMAND",
    help="Run a shell command for each record. Exit code 0 accepts the record; any other code "
    "releases it. By default each record is printed and then accepted.",
)
@click.option(
    "--reject-on",
    "reject_codes",
    metavar="CODE",
    multiple=True,
    type=click.IntRange(1, 255),
    help="With --run, an exit code that rejects the record; repeatable.",
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "latest"]),
    help="Where a new group starts: sets share.auto.offset.reset of the group.",
)
@count_option("Stop after N records.")
@click.option(
    "--idle",
    "idle_ms",
    type=DURATION,
    metavar="DURATION",
    help="Stop if no record arrives for this time, such as 10s.",
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    metavar="N",
    help="Acquire up to N records at a time.  [default: 1 with --run, otherwise 500]",
)
@format_options
@keys_option
@offsets_option
@cluster_options
def work(
    group_id: str,
    topics: tuple[str, ...],
    command: str | None,
    reject_codes: tuple[int, ...],
    start: str | None,
    count: int | None,
    idle_ms: int | None,
    batch: int | None,
    form: str,
    keys: bool,
    offsets: bool,
) -> None:
    """Process records as a consumer of the share group GROUP.

    Several consumers may run at the same time: each record is delivered to one of them. With --run,
    the command gets the value on its standard input, and these variables in its environment:
    ODRADEK_TOPIC, ODRADEK_PARTITION, ODRADEK_OFFSET, ODRADEK_TIMESTAMP_MS, ODRADEK_KEY,
    ODRADEK_DELIVERY_COUNT. While the command runs, the record stays locked. If the shell cannot run
    the command (exit codes 126 and 127), the record is released and the consumer ends with an
    error. SIGTERM ends the consumer after the current record.

    \b
    Examples:
      odradek queue work workers orders --from earliest
      odradek queue work workers orders --run ./handle-order --reject-on 65
      odradek queue work workers orders --run 'jq -e .id' --idle 10s
    """
    if reject_codes and command is None:
        raise click.UsageError("--reject-on needs --run")
    render = make_renderer(form, TextColumns(offsets=offsets, keys=keys), r"\t", "null")
    limits = ShareLimits(
        records_max=batch or (1 if command else 500), is_record_limit=command is not None
    )
    with connected() as cluster:
        for topic in topics:
            cluster.topic(topic)
        if start is not None:
            _begin_at(cluster, group_id, start)
        with ShareConsumer(
            cluster,
            group_id,
            topics,
            limits=limits,
            renews=command is not None,
            on_acknowledged=_warn,
        ) as consumer:
            worker: _Worker
            if command is None:
                worker = _Printer(consumer, render)
            else:
                worker = _Runner(consumer, command, reject_codes)
            with _stopped_by_sigterm() as is_stopped:
                _work(consumer, worker, count, idle_ms, is_stopped)


def _begin_at(cluster: Cluster, group_id: str, start: str) -> None:
    group = Resource(ResourceType.GROUP, group_id)
    (error,) = alter_configs(cluster, {group: [Change("share.auto.offset.reset", start)]}).values()
    if error is not None:
        raise error


def _warn(results: Sequence[AcknowledgementResult]) -> None:
    """Warn about records that come again although they were processed."""
    for result in results:
        types = [each for each in result.types.values() if each is not AcknowledgeType.RENEW]
        if result.error is not None and types:
            many = plural(len(types), "record")
            warn(
                f"{many} of {result.topic}-{result.partition} may be delivered again, because "
                f"the acknowledgement failed: {result.error}"
            )


@contextmanager
def _stopped_by_sigterm() -> Iterator[Callable[[], bool]]:
    """Return a function that says whether SIGTERM has come. The signal has no other effect."""
    signals: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    try:
        yield lambda: bool(signals)
    finally:
        signal.signal(signal.SIGTERM, before)


def _work(
    consumer: ShareConsumer,
    worker: _Worker,
    count: int | None,
    idle_ms: int | None,
    is_stopped: Callable[[], bool],
) -> None:
    """Process records until `is_stopped`, or `count`, or until none has arrived for `idle_ms`.

    The time begins when the member has partitions.
    """
    idle: Deadline | None = None
    done = 0
    while not is_stopped() and (count is None or done < count):
        if idle is None and idle_ms and consumer.assignment:
            idle = Deadline(idle_ms)
        records = consumer.poll(_POLL_MS if idle is None else min(_POLL_MS, idle.remaining_ms))
        for record in records:
            if is_stopped() or (count is not None and done >= count):
                return  # close releases the others
            worker.process(record)
            done += 1
        if records:
            idle = None
        elif idle is not None and idle.expired:
            return


class _Worker:
    """Processes and acknowledges one record after another."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self._consumer = consumer

    def process(self, record: ShareRecord) -> None:
        """Process and acknowledge a record."""
        raise NotImplementedError


class _Printer(_Worker):
    """Prints records. A record is accepted when it is written to standard output."""

    def __init__(self, consumer: ShareConsumer, render: Renderer) -> None:
        super().__init__(consumer)
        self._render = render
        self._stdout = sys.stdout.buffer

    def process(self, record: ShareRecord) -> None:
        """See `_Worker`."""
        plain = Record(record.offset, record.timestamp, record.key, record.value, record.headers)
        self._stdout.write(self._render(record.topic_partition, plain))
        self._stdout.flush()
        self._consumer.accept(record)


class _Runner(_Worker):
    """Runs a command for each record. Its exit code decides what happens to the record."""

    def __init__(
        self, consumer: ShareConsumer, command: str, reject_codes: tuple[int, ...]
    ) -> None:
        super().__init__(consumer)
        self._command = command
        self._reject_codes = reject_codes

    def process(self, record: ShareRecord) -> None:
        """See `_Worker`."""
        code = self._run(record)
        if code == 0:
            self._consumer.accept(record)
            return
        if code in _NOT_RUN and code not in self._reject_codes:
            self._consumer.release(record)
            raise click.ClickException(
                f"the command {_NOT_RUN[code]} (exit code {code}): {self._command}"
            )
        where = f"{record.topic_partition}@{record.offset}"
        if code in self._reject_codes:
            self._consumer.reject(record)
            note(f"{where}: rejected, because the command exited with code {code}")
        else:
            self._consumer.release(record)
            note(
                f"{where}: released after delivery {record.delivery_count}, because the command "
                f"exited with code {code}"
            )

    def _run(self, record: ShareRecord) -> int:
        """Run the command and return its exit code. Meanwhile, a thread keeps the record locked."""
        with subprocess.Popen(  # noqa: S603  (the user has given the command)
            ["/bin/sh", "-c", self._command],
            stdin=subprocess.PIPE,
            env={**os.environ, **_variables(record)},
        ) as process:
            process.communicate(record.value)
            return process.returncode


def _variables(record: ShareRecord) -> dict[str, str]:
    """Return the environment variables that describe a record. A key may be any bytes."""
    variables = {
        "ODRADEK_TOPIC": record.topic,
        "ODRADEK_PARTITION": str(record.partition),
        "ODRADEK_OFFSET": str(record.offset),
        "ODRADEK_TIMESTAMP_MS": str(record.timestamp),
        "ODRADEK_DELIVERY_COUNT": str(record.delivery_count),
    }
    if record.key is not None and b"\0" not in record.key:
        variables["ODRADEK_KEY"] = os.fsdecode(record.key)
    return variables
