"""`odradek group reset-offsets`: changes the committed offsets of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from odradek.cli.arguments import group_argument, partitions_option, select_partitions
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, end_with_errors, note, number, print_json, print_table
from odradek.cli.values import POSITION, POSITION_HELP
from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets, fetch_offsets
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.group_offsets import (
    Offsets,
    check_is_empty,
    clamped,
    parse_offsets,
    shifted,
)
from odradek.operations.positions import resolve_position
from odradek.operations.texts import Position


@click.command("reset-offsets")
@group_argument()
@partitions_option("all with committed offsets")
@click.option(
    "--to", "target", type=POSITION, metavar="POSITION", help=f"Reset to {POSITION_HELP}."
)
@click.option(
    "--shift", type=int, metavar="N", help="Shift committed offsets by N; may be negative."
)
@click.option(
    "--file",
    "-f",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Reset to offsets in a file: lines of topic,partition,offset, or the output of --json.",
)
@click.option("--execute", is_flag=True, help="Commit the offsets. By default they are only shown.")
@json_option
@cluster_options
def reset_offsets(
    group_id: str,
    topics: tuple[str, ...],
    target: Position | None,
    shift: int | None,
    path: Path | None,
    execute: bool,
    as_json: bool,
) -> None:
    """Set the committed offsets of a group without members.

    An offset outside of its partition is replaced by the nearest offset of the partition.

    \b
    Examples:
      odradek group reset-offsets reports --to beginning
      odradek group reset-offsets reports --topic flights:0 --to 1200 --execute
      odradek group reset-offsets reports --shift -100 --execute
      odradek group reset-offsets reports --to 2026-11-20T10:00 --json > plan.json
      odradek group reset-offsets reports --file plan.json --execute
    """
    if sum(each is not None for each in (target, shift, path)) != 1:
        raise click.UsageError("say where to reset offsets: use one of --to, --shift and --file")
    with connected() as cluster:
        check_is_empty(cluster, group_id)
        committed = {k: c.offset for k, c in fetch_offsets(cluster, group_id).items()}
        if path is not None:
            plan = clamped(cluster, read_plan(path, topics))
        else:
            partitions = select_partitions(cluster, topics) if topics else list(committed)
            if not partitions:
                raise click.ClickException(
                    f"group {group_id} has committed nothing; choose topics with --topic"
                )
            plan = _plan(cluster, partitions, committed, target, shift)
        errors: Sequence[ClientError] = ()
        if execute:
            wanted = {key: CommittedOffset(offset) for key, offset in plan.items()}
            results = commit_offsets(cluster, group_id, wanted)
            errors = [error for error in results.values() if error is not None]
    _print_plan(plan, committed, as_json)
    if not execute:
        note("This was a dry run. Add --execute to commit the offsets.")
    end_with_errors(errors)


def _plan(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
    target: Position | None,
    shift: int | None,
) -> Offsets:
    if target is not None:
        return resolve_position(cluster, partitions, target, clamped=True)
    assert shift is not None
    return clamped(cluster, shifted(partitions, committed, shift))


def read_plan(path: Path, topics: Sequence[str]) -> Offsets:
    """Read the offsets in a file. `topics` are those of `--topic`.

    Raises:
        ClickException: the file has neither of the two forms, or there are topics.
    """
    if topics:
        raise click.UsageError("the offsets in the file say which partitions: omit --topic")
    try:
        return parse_offsets(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.ClickException(f"{path}: {error}") from None


def _print_plan(plan: Offsets, committed: Mapping[TopicPartition, int], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {**key._asdict(), "committed": committed.get(key), "offset": offset}
                for key, offset in sorted(plan.items())
            ]
        )
        return
    columns = [
        Column("Topic"),
        number("Partition"),
        number("Committed"),
        number("New"),
        number("Change"),
    ]
    rows = []
    for key, offset in sorted(plan.items()):
        before = committed.get(key)
        rows.append([*key, before, offset, None if before is None else f"{offset - before:+d}"])
    print_table(columns, rows)
