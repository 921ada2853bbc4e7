"""`odradek queue dead`: the dead letters of share groups (KIP-1191)."""

from __future__ import annotations

import click

from odradek.cli.arguments import complete_topics, count_option, group_argument, topics_option
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
from odradek.client.admin.groups import list_groups
from odradek.client.cluster import Cluster
from odradek.operations import dead_letter_replay
from odradek.operations.dead_letter_replay import Counts, Replay, newest, replay_starts
from odradek.operations.dead_letters import (
    TOPIC_SETTING,
    DeadLetter,
    Place,
    read_letters,
    read_originals,
    topics_of,
)
from odradek.operations.texts import plural, time_text
from odradek.records.record import Record

_TEXT_MAX = 60


@click.group()
def dead() -> None:
    """List, show and replay dead letters.

    Dead letters are about records that were rejected, or delivered as often as allowed. The broker
    writes them to the topic that the group's setting errors.deadletterqueue.topic.name names, if
    share.version is 2.

    \b
    Examples:
      odradek queue dead list
      odradek queue dead show workers
      odradek queue dead replay workers --execute
    """


def _topic(cluster: Cluster, group_id: str) -> str:
    topic = topics_of(cluster, [group_id]).get(group_id)
    if topic is None:
        raise click.ClickException(
            f"group {group_id} has no dead letter topic; set one: odradek config set group "
            f"{group_id} {TOPIC_SETTING}=dlq.{group_id}"
        )
    return topic


# -- list ---------------------------------------------------------------------------------------


@dead.command("list")
@group_argument(nargs=-1)
@json_option
@cluster_options
def list_command(groups: tuple[str, ...], as_json: bool) -> None:
    """Count the dead letters of share groups, by default of all that have a dead letter topic.

    Waiting are the letters that were not replayed. The topics are read completely.

    \b
    Examples:
      odradek queue dead list
      odradek queue dead list workers --json
    """
    with connected() as cluster:
        names = groups or [each.id for each in list_groups(cluster, types=["share"])]
        topics = topics_of(cluster, names)
        found = [
            _counts_json(dead_letter_replay.count(cluster, group, topic))
            for group, topic in topics.items()
        ]
    for group in groups:
        if group not in topics:
            warn(f"group {group} has no dead letter topic ({TOPIC_SETTING})")
    if as_json:
        print_json(found)
    elif found:
        columns = [Column("Group"), Column("Topic"), number("Letters"), number("Waiting")]
        columns += [number("Rejected"), number("Deliveries"), Column("Newest")]
        print_table(columns, [list(each.values()) for each in found])
    elif not groups:
        note_none("share groups with a dead letter topic", 0)


def _counts_json(found: Counts) -> dict[str, object]:
    return {
        "group": found.group,
        "topic": found.topic,
        "letters": found.letters,
        "waiting": found.waiting,
        "rejected": found.rejected,
        "deliveries": found.deliveries,
        "newest": None if found.newest_ms is None else time_text(found.newest_ms),
    }


# -- show ---------------------------------------------------------------------------------------


@dead.command()
@group_argument()
@topics_option("Only letters about records of this topic; repeatable.")
@count_option("Show the newest N letters of each partition.", 20)
@json_option
@cluster_options
def show(group_id: str, topics: tuple[str, ...], count: int, as_json: bool) -> None:
    """Show dead letters of a share group, with the records that they are about.

    If a letter does not contain its record, the record is read from its own topic.

    \b
    Examples:
      odradek queue dead show workers
      odradek queue dead show workers --topic orders --count 5 --json
    """
    with connected() as cluster:
        shown = newest(cluster, group_id, _topic(cluster, group_id), topics, count)
        originals = read_originals(cluster, shown)
    if as_json:
        print_json([_as_json(each, originals.get(each.of)) for each in shown])
    elif shown:
        columns = [Column("Letter", wrap=False), Column("Record", wrap=False), number("Deliveries")]
        columns += [Column("Cause"), Column("Time"), Column("Key"), Column("Value")]
        print_table(columns, [_row(each, originals.get(each.of)) for each in shown])
    else:
        note(f"Group {group_id} has no dead letters.")


def _place(place: Place) -> str:
    return f"{place[0]}@{place[1]}"


def _row(letter: DeadLetter, original: Record | None) -> list[object]:
    return [
        _place(letter.place),
        _place(letter.of),
        letter.deliveries,
        letter.reason,
        time_text(letter.record.timestamp),
        None if original is None else _text(original.key),
        "(gone)" if original is None else _text(original.value),
    ]


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = " ".join(data.decode(errors="replace").split())
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def _as_json(letter: DeadLetter, original: Record | None) -> dict[str, object]:
    (key, offset), (source, source_offset) = letter.place, letter.of
    return {
        **key._asdict(),
        "offset": offset,
        "time": time_text(letter.record.timestamp, utc=True),
        "cause": letter.cause,
        "deliveries": letter.deliveries,
        "is_copied": letter.has_copy,
        "record": {
            **source._asdict(),
            "offset": source_offset,
            "is_found": original is not None,
            **json_bytes("key", None if original is None else original.key),
            **json_bytes("value", None if original is None else original.value),
            "headers": [
                {"name": name, **json_bytes("value", content)}
                for name, content in (() if original is None else original.headers)
            ],
        },
    }


# -- replay -------------------------------------------------------------------------------------


@dead.command()
@group_argument()
@click.option(
    "--to",
    "target",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Write the records to this topic.  [default: the topic of each record]",
)
@count_option("Replay N records at most.")
@click.option("--again", is_flag=True, help="Replay also what was replayed before.")
@click.option("--execute", is_flag=True, help="Write the records. By default they are counted.")
@json_option
@cluster_options
def replay(
    group_id: str, target: str | None, count: int | None, again: bool, execute: bool, as_json: bool
) -> None:
    """Write the records of dead letters to their topics again, so that they are delivered again.

    All readers of the topics get the records a second time, at the end of the partition from which
    they came. Replay goes on where the last one has ended: it commits offsets of the consumer group
    GROUP.replay in the dead letter topic. A record with two letters is replayed once. If the
    command is killed, it may write records again that it has not committed.

    \b
    Examples:
      odradek queue dead replay workers
      odradek queue dead replay workers --execute
      odradek queue dead replay workers --to orders --count 10 --execute
    """
    with connected() as cluster:
        if target is not None:
            cluster.topic(target)
        starts = replay_starts(cluster, group_id, _topic(cluster, group_id), again=again)
        run = Replay(cluster, group_id, target, execute=execute)
        for each in read_letters(cluster, starts):
            if run.errors or (count is not None and run.letters >= count):
                break
            run.add(each)
        run.flush()
    if as_json:
        print_json(
            [
                {**key._asdict(), "records": records, "gone": run.gone[key]}
                for key, records in sorted(run.counts.items())
            ]
        )
    elif run.counts:
        columns = [Column("Topic"), number("Partition"), number("Records"), number("Gone")]
        print_table(columns, [[*k, n, run.gone[k]] for k, n in sorted(run.counts.items())])
    else:
        note(f"No dead letters of group {group_id} wait for a replay.")
    if run.gone and not as_json:
        many = plural(run.gone.total(), "record")
        warn(f"{many} cannot be replayed: the topic does not have them any more")
    if run.counts and not execute:
        note("This was a dry run. Add --execute to write the records.")
    end_with_errors(run.errors)
