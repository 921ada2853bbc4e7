"""Plans of new committed offsets of a group."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from odradek.client.admin.groups import describe_groups
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.offsets import EARLIEST, LATEST, offsets_at
from odradek.model.topic_partition import TopicPartition
from odradek.operations.texts import plural

Offsets = dict[TopicPartition, int]


def check_is_empty(cluster: Cluster, group_id: str) -> None:
    """Check that a group has no members, which would overwrite offsets that are set.

    Raises:
        ClientError: it has members, or no broker responds.
    """
    found = describe_groups(cluster, [group_id])[group_id]
    if not isinstance(found, ClientError) and found.members:
        raise ClientError(
            f"group {group_id} has {plural(len(found.members), 'active member')}; stop them first"
        )


def shifted(
    partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int], shift: int
) -> Offsets:
    """Return the committed offsets of partitions, each plus `shift`.

    Raises:
        ClientError: nothing is committed for one of the partitions.
    """
    order = list(partitions)
    missing = [str(key) for key in order if key not in committed]
    if missing:
        raise ClientError(f"nothing is committed to shift from: {', '.join(missing)}")
    return {key: committed[key] + shift for key in order}


def clamped(cluster: Cluster, offsets: Offsets) -> Offsets:
    """Replace each offset that its partition does not hold by the nearest that it holds.

    Raises:
        ClientError: the ends of a partition cannot be fetched.
    """
    starts = offsets_at(cluster, offsets, EARLIEST)
    ends = offsets_at(cluster, offsets, LATEST)
    return {key: min(max(offset, starts[key]), ends[key]) for key, offset in offsets.items()}


def parse_offsets(text: str) -> Offsets:
    """Parse lines of `topic,partition,offset`, or a JSON array of objects with these names.

    In an object, `new` may stand for `offset`, as `odradek queue reset --json` prints.

    Raises:
        ValueError: the text has neither form, or no offsets.
    """
    try:
        if text.lstrip().startswith("["):
            rows = [
                (each["topic"], each["partition"], each.get("offset", each.get("new")))
                for each in json.loads(text)
            ]
        else:
            rows = [_csv_row(line) for line in text.splitlines() if line.strip()]
        offsets = {TopicPartition(str(topic), int(p)): int(offset) for topic, p, offset in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not a list of offsets: {error}") from None
    if not offsets:
        raise ValueError("it contains no offsets")
    return offsets


def _csv_row(line: str) -> tuple[str, str, str]:
    parts = line.split(",")
    if len(parts) != 3:
        raise ValueError(f"{line!r} is not topic,partition,offset")
    return parts[0].strip(' "'), parts[1], parts[2]
