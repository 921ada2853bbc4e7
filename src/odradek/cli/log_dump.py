"""Describes the content of files as JSON documents or lines of text, for `odradek log dump`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odradek.cli.log_records import Describe, Document, control_document, describer
from odradek.env.file_system import FileSystem, read_file
from odradek.log import names
from odradek.log.checkpoints import read_leader_epochs, read_offsets, read_partition_metadata
from odradek.log.errors import DamagedFile
from odradek.log.inspect import Kind, Place, kind_of, offset_entries, places, time_entries
from odradek.log.producer_snapshot import read_snapshot
from odradek.log.transaction_index import read_aborted
from odradek.model import uuids
from odradek.operations.texts import time_text
from odradek.records.batch import CODEC_MASK, RecordBatch
from odradek.records.compression import Codec
from odradek.records.errors import RecordsError
from odradek.records.record import Record, iterate_records


def documents(file_system: FileSystem, path: str, *, with_records: bool) -> Iterator[Document]:
    """Yield one document for each item in a file.

    Raises:
        DamagedFile: the content does not match the file's name, or the name is unknown.
        OSError: the file cannot be read.
    """
    match kind_of(path):
        case Kind.SEGMENT | Kind.METADATA_SNAPSHOT:
            yield from _batches(file_system, path, with_records)
        case Kind.OFFSET_INDEX:
            base = _base_offset(path)
            for relative, position in offset_entries(file_system, path)[0]:
                yield {"entry": "offset", "offset": base + relative, "position": position}
        case Kind.TIME_INDEX:
            base = _base_offset(path)
            for timestamp, relative in time_entries(file_system, path)[0]:
                yield {
                    "entry": "time",
                    "timestamp": time_text(timestamp, utc=True),
                    "timestamp_ms": timestamp,
                    "offset": base + relative,
                }
        case Kind.TRANSACTION_INDEX:
            for aborted in read_aborted(file_system, path, _base_offset(path)):
                yield {"entry": "aborted transaction", **aborted._asdict()}
        case Kind.PRODUCER_SNAPSHOT:
            yield from _producers(file_system, path)
        case None:
            raise DamagedFile(f"{path} does not have the name of a log file")
        case kind:
            yield from _small_file(file_system, path, kind)


def _small_file(file_system: FileSystem, path: str, kind: Kind) -> Iterator[Document]:
    match kind:
        case Kind.LEADER_EPOCHS:
            for epoch, start_offset in read_leader_epochs(file_system, path):
                yield {"entry": "leader epoch", "epoch": epoch, "start_offset": start_offset}
        case Kind.OFFSETS:
            for (topic, partition), offset in read_offsets(file_system, path).items():
                entry = {"topic": topic, "partition": partition, "offset": offset}
                yield {"entry": "partition", **entry}
        case Kind.PARTITION_METADATA:
            topic_id = read_partition_metadata(file_system, path)
            yield {"entry": "topic", "topic_id": uuids.to_text(topic_id or uuids.ZERO)}
        case Kind.PROPERTIES:
            for line in _text(file_system, path).splitlines():
                name, _, value = line.partition("=")
                if name.strip() and not line.startswith("#"):
                    yield {"entry": "property", "name": name.strip(), "value": value.strip()}
        case _:
            text = _text(file_system, path)
            try:
                content = json.loads(text) if text.strip() else {}
            except ValueError as error:
                raise DamagedFile(f"{path} is not JSON: {error}") from None
            yield {"entry": "document", "content": content}


def _text(file_system: FileSystem, path: str) -> str:
    try:
        return read_file(file_system, path).decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{path}: {error}") from None


def _base_offset(path: str) -> int:
    offset = names.offset_of(Path(path).name)
    assert offset is not None
    return offset


def topic_of(path: str) -> str | None:
    """Return the topic of a file's records, which the directory or the kind of file determines."""
    if kind_of(path) is Kind.METADATA_SNAPSHOT:
        return names.METADATA_TOPIC
    parsed = names.parse_directory(Path(path).resolve().parent.name)
    return None if parsed is None else parsed[0].topic


# -- batches --------------------------------------------------------------------------------------


def _batches(file_system: FileSystem, path: str, with_records: bool) -> Iterator[Document]:
    describe = describer(topic_of(path))
    for place in places(file_system, path):
        yield _batch(place)
        if with_records and isinstance(place.batch, RecordBatch) and place.problem is None:
            yield from _records(place.batch, describe)


def _batch(place: Place) -> Document:
    batch = place.batch
    document: Document = {"entry": "batch", "position": place.position}
    if batch is not None:
        document |= {
            "base_offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "size": batch.size,
            "format": batch.magic,
            "codec": Codec(batch.attributes & CODEC_MASK).name.lower()
            if batch.attributes & CODEC_MASK in set(Codec)
            else str(batch.attributes & CODEC_MASK),
            "leader_epoch": batch.leader_epoch,
            "max_timestamp": time_text(batch.max_timestamp, utc=True),
            "max_timestamp_ms": batch.max_timestamp,
            "crc": f"{batch.crc:#010x}",
        }
    if isinstance(batch, RecordBatch):
        document |= {
            "count": batch.count,
            "log_append_time": batch.is_log_append_time,
            "transactional": batch.is_transactional,
            "control": batch.is_control,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "delete_horizon_ms": batch.delete_horizon_ms,
        }
    if place.problem is not None:
        document["problem"] = place.problem
    return document


def _records(batch: RecordBatch, describe: Describe) -> Iterator[Document]:
    try:
        for record in iterate_records(batch):
            yield _record(batch, record, describe)
    except RecordsError as error:
        yield {"entry": "record", "problem": str(error)}


def _record(batch: RecordBatch, record: Record, describe: Describe) -> Document:
    content = control_document(batch, record) if batch.is_control else describe(record)
    document: Document = {
        "entry": "control record" if batch.is_control else "record",
        "offset": record.offset,
        "timestamp": time_text(record.timestamp, utc=True),
        "timestamp_ms": record.timestamp,
        **content,
    }
    if record.headers:
        document["headers"] = [
            {"name": name, "value": None if value is None else value.decode(errors="replace")}
            for name, value in record.headers
        ]
    return document


def _producers(file_system: FileSystem, path: str) -> Iterator[Document]:
    for entry in read_snapshot(path, read_file(file_system, path)):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "entry": "producer",
            "producer_id": entry.producer_id,
            "epoch": entry.epoch,
            "last_sequence": -1 if last is None else last.last_sequence,
            "last_offset": -1 if last is None else last.last_offset,
            "last_timestamp_ms": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }


# -- as text --------------------------------------------------------------------------------------


def line_of(document: Document) -> str:
    """Return a document as a line of text."""
    kind = str(document["entry"])
    if kind == "batch":
        return _batch_line(document)
    if kind in ("record", "control record"):
        return _record_line(document)
    rest = {name: value for name, value in document.items() if name != "entry"}
    return "  " + kind + "  " + _pairs(rest)


def _batch_line(document: Document) -> str:
    if "base_offset" not in document:
        return f"  byte {document['position']}: {document['problem']}"
    words = [
        f"  {document['base_offset']}..{document['last_offset']}",
        f"byte {document['position']}",
        f"{document['size']} bytes",
        f"{document.get('count', '?')} records",
        str(document["codec"]),
        f"epoch {document['leader_epoch']}",
        str(document["max_timestamp"]),
    ]
    if document.get("producer_id", -1) >= 0:
        words.append(
            f"producer {document['producer_id']}:{document['producer_epoch']}"
            f"@{document['base_sequence']}"
        )
    words += [name for name in ("transactional", "control") if document.get(name)]
    if document.get("delete_horizon_ms") is not None:
        words.append(f"kept until {time_text(document['delete_horizon_ms'], utc=True)}")
    if "problem" in document:
        words.append(f"PROBLEM: {document['problem']}")
    return "  ".join(words)


def _record_line(document: Document) -> str:
    hidden = {"entry", "offset", "timestamp", "timestamp_ms"}
    rest = {name: value for name, value in document.items() if name not in hidden}
    return f"    {document.get('offset', '?')}  {document.get('timestamp', '')}  {_pairs(rest)}"


def _pairs(values: dict[str, Any]) -> str:
    return "  ".join(
        f"{name}={value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    )
