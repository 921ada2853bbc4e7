"""`odradek consume`: prints records of topics."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from odradek.cli.arguments import (
    complete_groups,
    count_option,
    parse_numbers,
    select_partitions,
    topic_argument,
)
from odradek.cli.meter import Meter
from odradek.cli.options import cluster_options, connected
from odradek.cli.output import note
from odradek.cli.reading import AssignedSource, GroupSource, Source, reset_time
from odradek.cli.record_options import (
    format_options,
    headers_option,
    keys_option,
    offsets_option,
)
from odradek.cli.rendering import Renderer, TextColumns, make_renderer
from odradek.cli.values import POSITION, POSITION_HELP
from odradek.client.cluster import Cluster
from odradek.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from odradek.model.topic_partition import TopicPartition
from odradek.operations.positions import resolve_position
from odradek.operations.texts import Position
from odradek.records.record import Record

_POLL_MS = 500
_BEGINNING = Position("earliest")
_END = Position("latest")


@click.command()
@topic_argument(nargs=-1, required=True)
@click.option(
    "--from", "start", type=POSITION, metavar="POSITION", help=f"Start at {POSITION_HELP}."
)
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Read the last N records of each partition."
)
@click.option(
    "--until", type=POSITION, metavar="POSITION", help="Where to stop. By default the current end."
)
@count_option("Stop after N records.")
@click.option("--follow", "-f", is_flag=True, help="Wait for new records at the end.")
@click.option("--partition", "-p", "numbers", metavar="0,2-4", help="Only these partitions.")
@click.option(
    "--group",
    "-g",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Read as a member of the group from its committed offsets, and commit printed records.",
)
@click.option("--no-commit", is_flag=True, help="With --group, commit no offsets.")
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
)
@format_options
@keys_option
@headers_option
@offsets_option
@click.option("--timestamps", "-t", is_flag=True, help="Print times too.")
@click.option(
    "--separator",
    "-s",
    metavar="TEXT",
    default=r"\t",
    show_default=True,
    help="The text between the parts of a line.",
)
@click.option(
    "--null", metavar="TEXT", default="null", show_default=True, help="The text printed for null."
)
@cluster_options
def consume(
    topics: tuple[str, ...],
    start: Position | None,
    last: int | None,
    until: Position | None,
    count: int | None,
    follow: bool,
    numbers: str | None,
    group: str | None,
    no_commit: bool,
    isolation: str,
    form: str,
    keys: bool,
    headers: bool,
    offsets: bool,
    timestamps: bool,
    separator: str,
    null: str,
) -> None:
    """Read records of topics, from the beginning to the current end.

    TOPIC may name partitions: flights:0,2-4. In templates {topic}, {partition}, {offset},
    {timestamp}, {timestamp_ms}, {key}, {value}, {headers}, {key_size} and {value_size} are replaced
    by parts of the record.

    \b
    Examples:
      odradek consume flights --keys --timestamps --last 10
      odradek consume flights --follow --from end
      odradek consume flights --from 15m --format json | jq -r .value
      odradek consume flights --group reports --count 100
    """
    if last is not None and start is not None:
        raise click.UsageError("--last and --from exclude each other")
    if last is not None:
        start = Position("before-end", last)
    level = READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED
    columns = TextColumns(timestamps, offsets, keys, headers)
    printer = _Printer(make_renderer(form, columns, separator, null), count)
    only = parse_numbers(numbers) if numbers else None
    with connected() as cluster:
        source: Source
        if group is not None:
            if only or any(":" in topic for topic in topics):
                raise click.UsageError("a group shares out the partitions; do not name partitions")
            for topic in topics:
                cluster.topic(topic)
            source = GroupSource(
                cluster, group, topics, level, reset_time(start or _BEGINNING), not no_commit
            )
        else:
            source = _assigned(cluster, topics, only, start or _BEGINNING, level)
        with source:
            ends = None
            if until is not None or not follow:
                ends = _Ends(cluster, until or _END, level, clamped=not follow)
            _copy(source, printer, ends)
    if not printer.records and sys.stderr.isatty():
        note("There are no records. Add --follow to wait for new records.")


def _assigned(
    cluster: Cluster,
    topics: tuple[str, ...],
    only: list[int] | None,
    start: Position,
    isolation: int,
) -> Source:
    partitions = select_partitions(cluster, topics, only)
    starts = resolve_position(cluster, partitions, start, isolation=isolation, clamped=True)
    return AssignedSource(cluster, starts, isolation)


class _Ends:
    """The end offset of each partition, looked up when the partition is first seen.

    With `clamped` the offset is at most the end of the partition at that time.
    """

    def __init__(self, cluster: Cluster, until: Position, isolation: int, *, clamped: bool) -> None:
        self._cluster = cluster
        self._until = until
        self._isolation = isolation
        self._clamped = clamped
        self._ends: dict[TopicPartition, int] = {}

    def of(self, partitions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the end offsets of some partitions."""
        new = [each for each in partitions if each not in self._ends]
        if new:
            self._ends |= resolve_position(
                self._cluster, new, self._until, isolation=self._isolation, clamped=self._clamped
            )
        return {each: self._ends[each] for each in partitions}


class _Printer:
    """Writes records to stdout, up to a count."""

    def __init__(self, render: Renderer, count: int | None) -> None:
        self._render = render
        self._count = count
        self._stdout = sys.stdout.buffer
        self.records = 0

    def is_full(self) -> bool:
        """Whether the requested count has been written."""
        return self._count is not None and self.records >= self._count

    def write(self, key: TopicPartition, records: list[Record]) -> tuple[list[Record], int]:
        """Write records up to the count. Return the written records and their size in bytes."""
        if self._count is not None:
            records = records[: self._count - self.records]
        render = self._render
        data = b"".join([render(key, record) for record in records])
        self._stdout.write(data)
        self._stdout.flush()
        self.records += len(records)
        return records, len(data)


def _copy(source: Source, printer: _Printer, ends: _Ends | None) -> None:
    """Copy records from the source to the printer until the ends are reached, or forever."""
    with Meter(shown=not sys.stdout.isatty()) as meter:
        while not printer.is_full():
            if ends is not None and source.is_assigned:
                limits = ends.of(source.positions)
                source.drop([k for k, at in source.positions.items() if at >= limits[k]])
                if not source.positions:
                    return
            for key, records in source.poll(_POLL_MS).items():
                if ends is not None:
                    limit = ends.of({key: 0})[key]
                    records = [r for r in records if r.offset < limit]
                written, size = printer.write(key, records)
                meter.add(len(written), size)
                if written:
                    source.printed(key, written[-1].offset + 1)
                if printer.is_full():
                    return
