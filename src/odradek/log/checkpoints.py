"""Reads and writes small text files with offsets, leader epochs, a topic id or a broker epoch.

A file of offsets or leader epochs has the version (0) in the first line and the number of entries
in the second line. Then there is one line for each entry. A file is replaced atomically
(`replace_file`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from odradek.env.file_system import FileSystem, read_file, replace_file
from odradek.log.errors import DamagedFile
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition

_VERSION = "0"


def read_offsets(file_system: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Read a file with lines `topic partition offset`. Return an empty dict if there is no file.

    Raises:
        DamagedFile: the file has another format.
        OSError: the device failed.
    """
    offsets = {}
    for fields in _read_entries(file_system, path, 3):
        offsets[TopicPartition(fields[0], _number(path, fields[1]))] = _number(path, fields[2])
    return offsets


def write_offsets(
    file_system: FileSystem, path: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Replace a file with lines `topic partition offset`.

    Raises:
        OSError: the device failed or is full.
    """
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    replace_file(file_system, path, _entries(lines))


def read_leader_epochs(file_system: FileSystem, path: str) -> list[tuple[int, int]]:
    """Read a file with lines `epoch start_offset`. Return an empty list if there is no file.

    Raises:
        DamagedFile: the file has another format.
        OSError: the device failed.
    """
    return [
        (_number(path, fields[0]), _number(path, fields[1]))
        for fields in _read_entries(file_system, path, 2)
    ]


def leader_epochs_text(entries: Sequence[tuple[int, int]]) -> bytes:
    """Return the content of a `leader-epoch-checkpoint` file."""
    return _entries([f"{epoch} {offset}" for epoch, offset in entries])


def read_partition_metadata(file_system: FileSystem, path: str) -> bytes | None:
    """Return the topic id in a `partition.metadata` file; None if there is no file.

    Raises:
        DamagedFile: the file has another format.
        OSError: the device failed.
    """
    try:
        text = read_file(file_system, path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{path}: {error}") from None
    fields = dict(line.partition(":")[::2] for line in text.splitlines())
    try:
        if fields["version"].strip() != _VERSION:
            raise DamagedFile(f"{path} has version {fields['version'].strip()}, not {_VERSION}")
        return uuids.from_text(fields["topic_id"].strip())
    except (KeyError, ValueError) as error:
        raise DamagedFile(f"{path} does not name a topic id: {error}") from None


def write_partition_metadata(
    file_system: FileSystem, path: str, topic_id: bytes, sync: bool = True
) -> None:
    """Replace a `partition.metadata` file.

    Raises:
        OSError: the device failed.
    """
    text = f"version: {_VERSION}\ntopic_id: {uuids.to_text(topic_id)}"
    replace_file(file_system, path, text.encode(), sync)


def clean_shutdown_text(broker_epoch: int) -> bytes:
    """Return the content of `.kafka_cleanshutdown`. The broker epoch -1 means "unknown"."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def read_clean_shutdown(file_system: FileSystem, path: str) -> int | None:
    """Return the broker epoch in `.kafka_cleanshutdown`, or -1 if the file has none.

    Return None if there is no file.

    Raises:
        OSError: the device failed.
    """
    try:
        content = json.loads(read_file(file_system, path))
        return int(content["brokerEpoch"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return -1  # older versions leave the file empty


def _entries(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def _read_entries(file_system: FileSystem, path: str, width: int) -> list[list[str]]:
    try:
        lines = read_file(file_system, path).decode().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{path}: {error}") from None
    if len(lines) < 2:
        return []  # the file was created, but nothing was written
    if lines[0] != _VERSION:
        raise DamagedFile(f"{path} has version {lines[0]!r}, not {_VERSION}")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != _number(path, lines[1]):
        raise DamagedFile(f"{path} says {lines[1]} entries and has {len(entries)}")
    for entry in entries:
        if len(entry) != width:
            raise DamagedFile(f"{path}: {' '.join(entry)!r} is no entry")
    return entries


def _number(path: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DamagedFile(f"{path}: {text!r} is not a number") from None
