"""Reads a topic as a member of a group, and tells what it has got."""

from __future__ import annotations

from collections.abc import Sequence

from compat.verifiable.events import (
    Stop,
    complain,
    emit,
    parser,
    partitions_of,
    settings_in,
    text_of,
)
from odradek.client import Batch, Consumer
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition

POLL_SECONDS = 0.2
ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""The assignors by the names of Java's classes."""


def main(words: Sequence[str]) -> int:
    """Run until there are enough records, or SIGTERM."""
    options = parser("consumer", "--topic", "--group-id")
    servers = options.add_mutually_exclusive_group(required=True)
    servers.add_argument("--bootstrap-server", "--broker-list", dest="bootstrap_server")
    options.add_argument("--group-protocol", default="classic")
    options.add_argument("--group-remote-assignor")
    options.add_argument("--group-instance-id")
    options.add_argument("--session-timeout", type=int, default=30_000)
    options.add_argument("--verbose", action="store_true")
    options.add_argument("--enable-autocommit", action="store_true")
    options.add_argument("--reset-policy", default="earliest")
    options.add_argument("--assignment-strategy", default="range")
    files = options.add_mutually_exclusive_group()
    files.add_argument("--consumer.config", dest="consumer_config")
    files.add_argument("--command-config")
    given = options.parse_args(words)
    settings = {
        **settings_in(given.consumer_config, given.command_config),
        "bootstrap.servers": given.bootstrap_server,
        "group.id": given.group_id,
        "group.protocol": given.group_protocol.lower(),
        "group.instance.id": given.group_instance_id,
        "auto.offset.reset": given.reset_policy,
        "enable.auto.commit": given.enable_autocommit,
    }
    if settings["group.protocol"] == "classic":
        names = [each.rpartition(".")[2] for each in given.assignment_strategy.split(",")]
        settings["partition.assignment.strategy"] = ",".join(
            ASSIGNORS.get(each, each) for each in names
        )
        settings["session.timeout.ms"] = given.session_timeout
    elif given.group_remote_assignor:
        settings["group.remote.assignor"] = given.group_remote_assignor
    stop = Stop()
    emit("startup_complete")
    try:
        with Consumer(settings) as consumer:
            consumer.subscribe(given.topic, on_assigned=_assigned, on_revoked=_revoked)
            left = given.max_messages
            while left and not stop.is_set:
                batch = consumer.poll(POLL_SECONDS)
                if batch is not None:
                    taken = _tell(batch, left, verbose=given.verbose)
                    left -= taken if left > 0 else 0
                    if not given.enable_autocommit:
                        _commit(consumer, batch)
    except ClientError as error:
        complain(error)
    emit("shutdown_complete")
    return 0


def _assigned(partitions: Sequence[TopicPartition]) -> None:
    emit("partitions_assigned", partitions=partitions_of(partitions))


def _revoked(partitions: Sequence[TopicPartition]) -> None:
    emit("partitions_revoked", partitions=partitions_of(partitions))


def _tell(batch: Batch, left: int, *, verbose: bool) -> int:
    """Tell of the records of a batch, at most `left` of them if it is positive. Return how many."""
    records = batch.records()[: left if left > 0 else None]
    where = {"topic": batch.topic, "partition": batch.partition}
    if not records:
        return 0
    if verbose:
        for each in records:
            emit(
                "record_data",
                key=text_of(each.key),
                value=text_of(each.value),
                **where,
                offset=each.offset,
            )
    first, last = records[0].offset, records[-1].offset
    summary = {**where, "count": len(records), "minOffset": first, "maxOffset": last}
    emit("records_consumed", count=len(records), partitions=[summary])
    return len(records)


def _commit(consumer: Consumer, batch: Batch) -> None:
    """Commit behind a batch, and tell whether that has succeeded."""
    fields: dict[str, object] = {}
    try:
        consumer.commit(batch)
    except ClientError as error:
        fields["error"] = str(error)
    offsets = [{"topic": batch.topic, "partition": batch.partition, "offset": batch.next_offset}]
    emit("offsets_committed", offsets=offsets, **fields, success=not fields)
