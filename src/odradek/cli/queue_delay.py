"""`odradek queue delay`: sends records that share groups deliver later, and shows what waits."""

from __future__ import annotations

import os

import click

from odradek.cli.arguments import count_option, group_argument, topic_argument, topics_option
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import (
    Column,
    end_with_errors,
    note,
    note_none,
    number,
    print_json,
    print_table,
    warn,
)
from odradek.cli.rendering import json_bytes
from odradek.cli.values import DURATION, now_ms
from odradek.client.admin.share_groups import describe_share_groups, describe_start_offsets
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.producer import Producer
from odradek.core.share.schedule import HEADER
from odradek.model.topic_partition import TopicPartition
from odradek.operations.delays import SETTING, is_enabled, read_waiting
from odradek.operations.texts import parse_time, plural, time_text
from odradek.records.record import Record

_TEXT_MAX = 60


@click.group()
def delay() -> None:
    """Send records that share groups deliver later, and show what waits.

    The header odradek.deliver.at of a record says when share groups may deliver it, if the group
    has the setting odradek.share.delay.enable. Other consumers ignore the header.

    \b
    Examples:
      odradek config set group workers odradek.share.delay.enable=true
      odradek queue delay send orders 'remind me' --in 15m
      odradek queue delay list workers
    """


@delay.command()
@topic_argument()
@click.argument("values", metavar="VALUE…", nargs=-1, required=True)
@click.option("--in", "delay_ms", type=DURATION, metavar="DURATION", help="Deliver it after 15m.")
@click.option("--at", metavar="TIME", help="Deliver it at an ISO time, or @milliseconds.")
@click.option("--key", "-k", metavar="KEY", help="The key of the records.")
@cluster_options
def send(
    topic: str, values: tuple[str, ...], delay_ms: int | None, at: str | None, key: str | None
) -> None:
    """Write records that share groups deliver later. Each VALUE is a record.

    \b
    Examples:
      odradek queue delay send orders 'remind me' --in 15m
      odradek queue delay send orders 'happy new year' --at 2027-01-01T00:00
    """
    if (delay_ms is None) == (at is None):
        raise click.UsageError("say when to deliver: --in DURATION, or --at TIME")
    due_ms = _due_ms(delay_ms, at)
    headers = [(HEADER, b"%d" % due_ms)]
    with connected() as cluster, Producer(cluster) as producer:
        for value in values:
            producer.send(
                topic,
                os.fsencode(value),
                key=None if key is None else os.fsencode(key),
                headers=headers,
            )
        producer.flush()
    note(f"Wrote {plural(len(values), 'record')} to {topic}, to be delivered {time_text(due_ms)}")


def _due_ms(delay_ms: int | None, at: str | None) -> int:
    if at is None:
        assert delay_ms is not None
        return now_ms() + delay_ms
    try:
        return max(0, parse_time(at, now_ms()))
    except ValueError as error:
        raise click.UsageError(f"--at: {error}") from None


@delay.command("list")
@group_argument()
@topics_option()
@count_option("Show the N records that are due first.", 20)
@json_option
@cluster_options
def list_command(group_id: str, topics: tuple[str, ...], count: int, as_json: bool) -> None:
    """Show the records that wait for a share group, those that are due first at the top.

    The command reads the topics from the start offsets of the group to their ends.

    \b
    Examples:
      odradek queue delay list workers
      odradek queue delay list workers --topic orders --count 5 --json
    """
    errors: list[ClientError] = []
    with connected() as cluster:
        if not is_enabled(cluster, group_id):
            warn(f"group {group_id} delivers records at once: {SETTING} is false")
        waiting = read_waiting(cluster, _starts(cluster, group_id, topics, errors), now_ms)
    shown = waiting[:count]
    if as_json:
        print_json([_as_json(*each) for each in shown])
    elif shown:
        columns = [Column("Due"), number("Seconds"), Column("Record"), Column("Key")]
        columns.append(Column("Value"))
        now = now_ms()
        rows: list[list[object]] = [
            [
                time_text(due_ms),
                f"{max(0, due_ms - now) / 1000:.1f}",
                f"{key.topic}-{key.partition}@{record.offset}",
                _text(record.key),
                _text(record.value),
            ]
            for due_ms, key, record in shown
        ]
        print_table(columns, rows)
        if len(waiting) > len(shown):
            note(f"{len(waiting)} records wait; --count shows more.")
    elif not errors:
        note_none("waiting records", 0)
    end_with_errors(errors)


def _starts(
    cluster: Cluster, group_id: str, topics: tuple[str, ...], errors: list[ClientError]
) -> dict[TopicPartition, int]:
    """Return the start offsets of the group's partitions."""
    found = describe_share_groups(cluster, [group_id])[group_id]
    if isinstance(found, ClientError):
        raise found
    starts: dict[TopicPartition, int] = {}
    for key, each in describe_start_offsets(cluster, group_id).items():
        if isinstance(each, ClientError):
            errors.append(each)
        elif each.offset >= 0 and (not topics or key.topic in topics):
            starts[key] = each.offset
    return starts


def _as_json(due_ms: int, key: TopicPartition, record: Record) -> dict[str, object]:
    return {
        **key._asdict(),
        "offset": record.offset,
        "due_ms": due_ms,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
    }


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = data.decode(errors="replace")
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"
