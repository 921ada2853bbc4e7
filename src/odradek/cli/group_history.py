"""`odradek group history`: how the members of a group have changed."""

from __future__ import annotations

import click

from odradek.cli.arguments import group_argument
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, number, print_json, print_table
from odradek.model.topic_name import OFFSETS_TOPIC
from odradek.operations.group_history import History, Rebalance, read_log
from odradek.operations.texts import time_text


@click.command()
@group_argument()
@json_option
@cluster_options
def history(group_id: str, as_json: bool) -> None:
    """Show a group's rebalances: which members joined, left, returned or changed topics.

    The data comes from the topic __consumer_offsets. Compaction of this topic removes older
    rebalances. Only the broker's log says whether a member left or its session expired.

    \b
    Example:
      odradek group history reports
    """
    with connected() as cluster:
        found = list(History(group_id).rebalances(read_log(cluster, group_id)))
    if as_json:
        print_json([_as_json(each) for each in found])
    elif found:
        columns = [
            Column("Time", wrap=False),
            Column("Type"),
            number("Generation"),
            number("Members"),
            Column("Reason"),
        ]
        rows = (
            [
                time_text(each.time_ms),
                each.type or None,
                each.generation if each.type else None,
                len(each.members),
                "; ".join(each.reasons),
            ]
            for each in found
        )
        print_table(columns, rows)
    else:
        message = f"The topic {OFFSETS_TOPIC} has no records about members of {group_id}."
        raise click.ClickException(message)


def _as_json(found: Rebalance) -> dict[str, object]:
    return {
        "time_ms": found.time_ms,
        "type": found.type or None,
        "generation": found.generation if found.type else None,
        "members": [
            {
                "id": each.id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "host": each.host,
            }
            for each in found.members
        ],
        "reasons": list(found.reasons),
    }
