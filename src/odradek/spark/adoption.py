"""Makes a checkpoint of Spark's own Kafka connector one of this source.

A checkpoint has a file for each micro-batch that was planned (`offsets/N`), and one for each that is
complete (`commits/N`). The file of offsets has a line for each source. Both connectors write the same
JSON, `{"topic": {"0": 17}}`. So a copy needs little: the ids of the topics are added to the last
offsets, so that a topic that is created again is noticed, and the start offsets that only Kafka's
connector keeps (`sources/N`) are left out. State and watermarks stay as they are.

A micro-batch that was planned and is not complete may have been written, in part or wholly, by the other
connector's sink, which writes at least once. Nobody can know. So such a checkpoint is refused.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.offsets import EARLIEST, LATEST, offsets_at
from odradek.spark.offsets import IDS, Offsets, from_json, to_json

VERSION_LINE = "v1"
SOURCES_BEGIN = 2
"""The lines before the sources: the version, and the metadata of the micro-batch."""


class AdoptionError(ValueError):
    """A checkpoint cannot be adopted. The message is the reason, and says what to do."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """A checkpoint that was adopted."""

    query_id: str
    batch: int
    """The number of the last complete micro-batch."""
    offsets: list[Offsets]
    """Of each source that reads topics."""


def adopt(cluster: Cluster, old: Path, new: Path, *, may_repeat: bool = False) -> Adopted:
    """Copy a checkpoint to a directory that does not exist. The old one is not changed.

    With `may_repeat` a checkpoint with an incomplete micro-batch is accepted: the query repeats it.

    Raises:
        AdoptionError: it is no checkpoint of the other connector, its query is in the middle of a
            micro-batch, or the topics do not have its offsets.
        ClientError: the cluster cannot be reached.
        OSError: a file cannot be read or written.
    """
    query_id = _query_id(old)
    if new.exists():
        raise AdoptionError(f"{new} exists: name a directory that does not")
    planned, complete = _last(old / "offsets"), _last(old / "commits")
    if planned is None:
        raise AdoptionError(f"{old} has no micro-batch yet: start with a new checkpoint")
    if planned != complete and not may_repeat:
        raise AdoptionError(
            f"micro-batch {planned} was begun and is not complete: its rows may be in the target "
            "already. Let the query with the old connector complete it (start it with "
            "Trigger.AvailableNow), or accept that it is written again: --may-repeat"
        )
    lines = (old / "offsets" / str(planned)).read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != VERSION_LINE:
        raise AdoptionError(
            f"{old / 'offsets' / str(planned)} begins with {(lines or [''])[0]!r}: this version of "
            "checkpoints is unknown"
        )
    found = {number: _topics(line) for number, line in enumerate(lines[SOURCES_BEGIN:])}
    sources = {number: each for number, each in found.items() if each is not None}
    if not sources:
        raise AdoptionError(f"{old} is not the checkpoint of a query that reads topics")
    offsets = [from_json(each) for each in sources.values()]
    ids = _checked(cluster, offsets)
    for number, each in zip(sources, offsets, strict=True):
        lines[SOURCES_BEGIN + number] = json.dumps(to_json(each, ids), separators=(",", ":"))
    _copy(old, new, planned, "\n".join(lines), list(sources))
    return Adopted(query_id, planned if planned == complete else planned - 1, offsets)


def _query_id(directory: Path) -> str:
    try:
        return str(json.loads((directory / "metadata").read_text(encoding="utf-8"))["id"])
    except FileNotFoundError:
        raise AdoptionError(
            f"{directory} is no checkpoint of a streaming query: it has no file metadata. Give the "
            "directory that is the checkpointLocation of the query, on this machine"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise AdoptionError(f"{directory / 'metadata'} cannot be read: {error}") from None


def _last(directory: Path) -> int | None:
    """Return the last number that is the name of a file."""
    if not directory.is_dir():
        return None
    return max(
        (int(each.name) for each in directory.iterdir() if each.name.isdigit()), default=None
    )


def _topics(line: str) -> dict[str, Any] | None:
    """Return the offsets of a source; None if it reads no topics."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not found:
        return None
    for topic, partitions in found.items():
        if topic == IDS:
            raise AdoptionError(
                "this is already a checkpoint of the source odradek: use it as it is"
            )
        if not isinstance(partitions, dict) or not all(
            key.isdigit() and type(at) is int for key, at in partitions.items()
        ):
            return None
    return found


def _checked(cluster: Cluster, sources: list[Offsets]) -> dict[str, str]:
    """Check that the topics have the records after some offsets; return the ids of the topics."""
    wanted = {each: at for offsets in sources for each, at in offsets.items()}
    ids = {}
    for name in sorted({each.topic for each in wanted}):
        topic = cluster.topic(name)
        missing = [
            each for each in wanted if each.topic == name and each.partition not in topic.partitions
        ]
        if missing:
            raise AdoptionError(
                f"{', '.join(map(str, sorted(missing)))} is in the checkpoint, and not in this cluster"
            )
        if any(topic.id):
            ids[name] = topic.id.hex()
    first = offsets_at(cluster, wanted, EARLIEST)
    end = offsets_at(cluster, wanted, LATEST)
    for each, at in sorted(wanted.items()):
        if not first[each] <= at <= end[each]:
            raise AdoptionError(
                f"the checkpoint has offset {at} of {each}, which has {first[each]} to {end[each]}: "
                "is this the cluster of the query?"
            )
    return ids


def _copy(old: Path, new: Path, batch: int, offsets: str, sources: list[int]) -> None:
    """Copy a checkpoint with other offsets of a micro-batch. The name `new` appears at the end."""
    draft = new.with_name(f"{new.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(old, draft)
    for number in sources:
        shutil.rmtree(draft / "sources" / str(number), ignore_errors=True)
    (draft / "offsets" / str(batch)).write_text(offsets, encoding="utf-8")
    (draft / "offsets" / f".{batch}.crc").unlink(missing_ok=True)  # the checksum of the old content
    draft.rename(new)
