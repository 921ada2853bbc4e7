"""`odradek produce`: writes records from arguments, a pipe or the keyboard to a topic."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial as bound

import click

from odradek.cli.arguments import topic_argument
from odradek.cli.meter import Meter
from odradek.cli.options import cluster_options, connected, json_lines_option
from odradek.cli.output import note
from odradek.cli.record_input import (
    Headers,
    InputError,
    InputRecord,
    Parser,
    json_parser,
    read_lines,
    text_parser,
)
from odradek.cli.rendering import unescape
from odradek.cli.values import now_ms
from odradek.client.errors import NoSuchTopicError
from odradek.client.producer import Delivery, Producer
from odradek.operations.texts import parse_time, plural
from odradek.records.compression import Codec

_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}


@click.command()
@topic_argument()
@click.argument("values", metavar="[VALUE]…", nargs=-1)
@click.option("--key", "-k", metavar="KEY", help="The key of all records.")
@click.option(
    "--key-separator",
    "-K",
    metavar="TEXT",
    help=r"The text between key and value in each line, such as -K '\t'.",
)
@click.option(
    "--header",
    "-H",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of all records; repeatable.",
)
@click.option(
    "--partition",
    "-p",
    metavar="N",
    type=click.IntRange(0),
    help="The partition of all records. By default the key determines the partition.",
)
@click.option(
    "--timestamp",
    metavar="TIME",
    help="The time of all records: an ISO time, @milliseconds, or how long ago (15m).",
)
@click.option(
    "--format",
    "-F",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the input. json is one object per line, as `consume --format json` prints.",
)
@click.option("--repartition", is_flag=True, help="With json, ignore the partitions in the input.")
@click.option("--null", metavar="TEXT", help="A key or value of this text is null (a tombstone).")
@click.option(
    "--compression",
    "-z",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
)
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Replicas that must have a record before it is acknowledged.",
)
@click.option(
    "--no-idempotence", is_flag=True, help="Turn off idempotence, so that retries may write twice."
)
@click.option(
    "--batch-size",
    metavar="BYTES",
    type=click.IntRange(1),
    default=65_536,
    show_default=True,
)
@click.option("--no-create", is_flag=True, help="Fail if the topic does not exist.")
@click.option(
    "--verbose", "-v", is_flag=True, help="Print the partition and offset of each record."
)
@json_lines_option
@cluster_options
def produce(
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    timestamp: str | None,
    form: str,
    repartition: bool,
    null: str | None,
    compression: str,
    acks: str,
    no_idempotence: bool,
    batch_size: int,
    no_create: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Write records to a topic. Each VALUE is a record. Without VALUE, each line of the input is a
    record.

    A topic that does not exist is created, if the cluster allows it.

    \b
    Examples:
      odradek produce greetings hello 'good morning'
      odradek produce flights --key-separator : < flights.txt
      odradek produce users --key 42 --null NULL NULL   # a tombstone
      odradek consume a --format json | odradek produce b --format json
    """
    if form == "json" and (key is not None or key_separator is not None or headers or null):
        raise click.UsageError("with --format json, keys, headers and nulls are in the JSON")
    if repartition and form != "json":
        raise click.UsageError("--repartition needs --format json")
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other")
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty")
    options: dict[str, object] = {
        "acks": acks,
        "enable.idempotence": not no_idempotence and acks == "all",
        "compression.type": compression,
        "batch.size": batch_size,
        "allow.auto.create.topics": not no_create,
    }
    parser: Parser = bound(json_parser, repartition=repartition)
    if form == "text":
        parser = text_parser(
            None if key is None else os.fsencode(key),
            None if key_separator is None else os.fsencode(unescape(key_separator)),
            _parse_headers(headers),
            None if null is None else os.fsencode(null),
        )
    report = "json" if as_json else "text" if verbose else ""
    with (
        connected() as cluster,
        Meter(shown=not report and not values) as meter,
        Producer(cluster, options) as producer,
    ):
        writer = _Writer(producer, topic, partition, _parse_timestamp(timestamp), report, meter)
        if values:
            writer.write_all(parser, map(os.fsencode, values))
        else:
            if sys.stdin.isatty():
                note(f"Type records for {topic}, one per line; Ctrl-D ends.")
            writer.write_all(parser, _input_lines(writer))
    if sys.stderr.isatty() and not report:
        where = f" ({writer.last.topic_partition})" if meter.records == 1 and writer.last else ""
        note(f"Wrote {plural(meter.records, 'record')} to {topic}{where}")


def _input_lines(writer: _Writer) -> Iterator[bytes]:
    return read_lines(sys.stdin.fileno(), writer.flush)


def _parse_headers(words: Iterable[str]) -> Headers:
    headers = []
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise click.UsageError(f"--header {word!r}: write NAME=VALUE")
        headers.append((name, os.fsencode(value) if equals else None))
    return tuple(headers)


def _parse_timestamp(text: str | None) -> int | None:
    try:
        return None if text is None else parse_time(text, now_ms())
    except ValueError as error:
        raise click.UsageError(f"--timestamp: {error}") from None


class _Writer:
    """Sends records and reports their offsets, in order."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partition: int | None,
        timestamp_ms: int | None,
        report: str,
        meter: Meter,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self._report = report
        self._meter = meter
        self._unreported: deque[Delivery] = deque()
        self.last: Delivery | None = None

    def write_all(self, parser: Parser, lines: Iterable[bytes]) -> None:
        """Send the records of all lines, and wait until they are written.

        Raises:
            ClickException: a line is invalid. The records before this line have been written.
            ClientError: records could not be written.
        """
        for place, line in enumerate(lines, 1):
            try:
                record = parser(line)
            except InputError as error:
                self.flush()
                written = f"{plural(place - 1, 'record')} written before it, nothing after"
                raise click.ClickException(f"line {place}: {error} ({written})") from None
            try:
                self._send(record)
            except NoSuchTopicError as error:
                advice = ""
                if error.partition is None:
                    advice = f"Create it first: odradek topic create {error.topic}"
                elif record.partition is not None and self._partition is None:
                    advice = "Choose partitions by key with --repartition, or add partitions first."
                self.flush()
                raise NoSuchTopicError(error.topic, error.partition, advice) from error
        self.flush()

    def _send(self, record: InputRecord) -> None:
        self.last = self._producer.send(
            self._topic,
            record.value,
            key=record.key,
            headers=record.headers,
            partition=record.partition if self._partition is None else self._partition,
            timestamp=(record.timestamp_ms if self._timestamp_ms is None else self._timestamp_ms),
        )
        self._meter.add(1, len(record.key or b"") + len(record.value or b""))
        if self._report:
            self._unreported.append(self.last)
            self._report_done()

    def flush(self) -> None:
        """Wait until all records are written, and report them."""
        try:
            self._producer.flush()
        finally:
            self._report_done()

    def _report_done(self) -> None:
        while self._unreported and self._unreported[0].done:
            delivery = self._unreported.popleft()
            if delivery.error is not None:
                continue
            where = delivery.topic_partition
            if self._report == "json":
                click.echo(json.dumps({**where._asdict(), "offset": delivery.offset}))
            else:
                click.echo(f"{where}@{delivery.offset}")
