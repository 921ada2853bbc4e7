"""Reads a topic as a member of a share group, and tells what it has got and acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compat.verifiable.events import (
    Stop,
    complain,
    emit,
    parser,
    settings_in,
    text_of,
)
from odradek.client import Admin
from odradek.client.admin.configs import Change, Resource
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.client.share.consumer import ShareConsumer, ShareRecord
from odradek.model.config_resource import ResourceType

POLL_MS = 200


def main(words: Sequence[str]) -> int:
    """Run until enough records are acknowledged, or SIGTERM."""
    options = parser("share-consumer", "--topic", "--group-id", "--bootstrap-server")
    options.add_argument("--verbose", action="store_true")
    options.add_argument(
        "--acknowledgement-mode", default="auto", choices=("auto", "sync", "async")
    )
    options.add_argument("--offset-reset-strategy", default="")
    options.add_argument("--command-config")
    given = options.parse_args(words)
    settings = {name: str(value) for name, value in settings_in(given.command_config).items()}
    stop = Stop()
    emit("startup_complete")
    try:
        with Cluster(given.bootstrap_server, security=parse_security(settings)) as cluster:
            if given.offset_reset_strategy:
                _set_reset(cluster, given.group_id, given.offset_reset_strategy)
            with ShareConsumer(cluster, given.group_id, [given.topic], mode="implicit") as consumer:
                left = given.max_messages
                while left != 0 and not stop.is_set:
                    records = consumer.poll(POLL_MS)
                    if records:
                        _tell(records, verbose=given.verbose)
                        acknowledged = _acknowledge(consumer)
                        left = left if left < 0 else max(0, left - acknowledged)
    except ClientError as error:
        complain(error)
    emit("shutdown_complete")
    return 0


def _set_reset(cluster: Cluster, group: str, strategy: str) -> None:
    change = Change("share.auto.offset.reset", strategy)
    Admin(cluster).incremental_alter_configs({Resource(ResourceType.GROUP, group): [change]})
    emit("offset_reset_strategy_set", offsetResetStrategy=strategy)


def _tell(records: Sequence[ShareRecord], *, verbose: bool) -> None:
    if verbose:
        for each in records:
            emit(
                "record_data",
                key=text_of(each.key),
                value=text_of(each.value),
                topic=each.topic,
                partition=each.partition,
                offset=each.offset,
            )
    emit("records_consumed", count=len(records), partitions=_summaries(records))


def _acknowledge(consumer: ShareConsumer) -> int:
    """Commit what was delivered. Return how many records are acknowledged."""
    count = 0
    for each in consumer.commit():
        offsets = sorted(each.types)
        where = {"topic": each.topic, "partition": each.partition}
        fields = {} if each.error is None else {"error": str(each.error)}
        emit(
            "offsets_acknowledged",
            count=len(offsets),
            partitions=[{**where, "count": len(offsets), "offsets": offsets}],
            **fields,
            success=each.error is None,
        )
        count += len(offsets) if each.error is None else 0
    return count


def _summaries(records: Iterable[ShareRecord]) -> list[dict[str, object]]:
    offsets: dict[tuple[str, int], set[int]] = {}
    for each in records:
        offsets.setdefault((each.topic, each.partition), set()).add(each.offset)
    return [
        {"topic": topic, "partition": index, "count": len(found), "offsets": sorted(found)}
        for (topic, index), found in offsets.items()
    ]
