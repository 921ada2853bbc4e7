"""Moves encoded batches from the tasks that encode rows to the tasks that write them.

A row of `write_schema.ENCODED_SCHEMA` stands for one batch. It has the records of the batch, and
Spark's shuffle moves them. Or, if all tasks run on one machine, it has their place in a file: then
Spark moves only places, and records do not go through the JVM. The files are in a directory of
Spark's own temporary files, which Spark removes when it ends. When a write has ended, the driver
removes its files.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa

from odradek.records.compression import Buffer, Codec
from odradek.spark.encoding import EncodedRecords
from odradek.spark.write_schema import FILE, PARTITION, POSITION, RECORD_COUNT, RECORDS, SIZE

PREFIX = "odradek-batches-"
DIRECTORIES_VARIABLE = "SPARK_LOCAL_DIRS"
"""Spark sets this variable for Python workers."""

Placed = list[tuple[int, EncodedRecords]]
"""Batches, each with the number of its partition."""


class RowsWrittenError(RuntimeError):
    """The files of a frame were removed, because it was written before."""


def local_directory() -> str:
    """Return a directory for temporary files. It is called in a task.

    Raises:
        KeyError: Spark has not named its directories.
    """
    return os.environ[DIRECTORIES_VARIABLE].split(",")[0]


class InRows:
    """Returns rows that have the records."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def rows(self, batches: Placed) -> pa.RecordBatch:
        """Return a row for each batch."""
        return _rows(batches, {RECORDS: _binaries([records.data for _, records in batches])})


class InFile:
    """Returns rows that have places in a file. The file is created for the first row."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file: BinaryIO | None = None
        self._path = ""
        self._position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def rows(self, batches: Placed) -> pa.RecordBatch:
        """Write batches to the file, and return a row for each."""
        if self._file is None:
            descriptor, self._path = tempfile.mkstemp(prefix=PREFIX, dir=self._directory)
            self._file = os.fdopen(descriptor, "wb")
        for _, records in batches:
            self._file.write(records.data)
        self._file.flush()
        sizes = [len(records.data) for _, records in batches]
        ends = self._position + np.cumsum(sizes, dtype=np.int64)
        self._position += sum(sizes)
        places = {
            FILE: pa.array([self._path] * len(batches), pa.string()),
            POSITION: pa.array(ends - sizes, pa.int64()),
            SIZE: pa.array(sizes, pa.int32()),
        }
        return _rows(batches, places)


def _rows(batches: Placed, places: dict[str, pa.Array]) -> pa.RecordBatch:
    count = len(batches)
    columns = {
        PARTITION: pa.array([partition for partition, _ in batches], pa.int32()),
        RECORD_COUNT: pa.array([records.record_count for _, records in batches], pa.int32()),
        RECORDS: pa.nulls(count, pa.binary()),
        FILE: pa.nulls(count, pa.string()),
        POSITION: pa.nulls(count, pa.int64()),
        SIZE: pa.nulls(count, pa.int32()),
    }
    return pa.record_batch(columns | places)


def _binaries(items: list[Buffer]) -> pa.BinaryArray:
    """Return a column of the items, with one copy of their bytes."""
    bounds = np.zeros(len(items) + 1, np.int32)
    np.cumsum([len(each) for each in items], out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(items))]
    return pa.Array.from_buffers(pa.binary(), len(items), buffers)


class Reader:
    """Reads the batches of rows. Use it in a `with` statement."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._descriptors: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    @property
    def files(self) -> frozenset[str]:
        """The files that were read."""
        return frozenset(self._descriptors)

    def batches(self, rows: pa.RecordBatch) -> Iterator[tuple[int, EncodedRecords]]:
        """Yield the batches of rows, each with the number of its partition.

        Raises:
            RowsWrittenError: the file of a row was removed.
        """
        names = (PARTITION, RECORD_COUNT, FILE, POSITION, SIZE)
        columns = (rows.column(name).to_pylist() for name in names)
        records = rows.column(RECORDS)
        for number, (partition, count, path, position, size) in enumerate(
            zip(*columns, strict=True)
        ):
            data: Buffer
            if path is None:
                data = memoryview(records[number].as_buffer())
            else:
                data = self._read(path, position, size)
            yield partition, EncodedRecords(data, count, self._codec)

    def _read(self, path: str, position: int, size: int) -> bytes:
        if path not in self._descriptors:
            try:
                self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise RowsWrittenError(
                    "the rows of by_partition were written before. Call by_partition again for "
                    "each write, and do not cache its result"
                ) from None
        data = os.pread(self._descriptors[path], size, position)
        assert len(data) == size, "rows are returned when their records are in the file"
        return data


def remove(files: Iterable[str]) -> None:
    """Remove the files of a write."""
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
