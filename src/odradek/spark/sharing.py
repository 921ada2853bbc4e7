"""Lets several tasks of one machine write to the same partitions in one transaction.

A broker checks the sequence numbers of a producer in each partition. So tasks with the same
producer id must continue each other's numbers, and one task at a time may send. A file of the
write has the next sequence number of each partition. A task keeps batches until it has
`TURN_BYTES`. Then it locks the file, sends the batches from these numbers on, waits until all of
them are acknowledged, writes the new numbers, and releases the lock. Other tasks encode meanwhile.

A task that fails while it has the lock leaves a file without numbers, because nobody knows what the
broker has accepted. Then all other tasks fail, and with them the write, which is aborted.

The driver compares the numbers in the file with the number of records that the tasks report
(`check`). They differ if a task was repeated, or if the tasks did not have the same file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from odradek.arrow.encoding import EncodedRecords
from odradek.client.cluster import Cluster
from odradek.client.producer.transactions import TransactionalProducer
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import add_to_sequence
from odradek.spark.options import WriteOptions
from odradek.spark.producing import Sender

DIRECTORIES_VARIABLE = "SPARK_LOCAL_DIRS"
"""Spark sets this variable for Python workers."""
TURN_BYTES = 4 << 20
"""The size of the batches that a task sends in a turn."""

Sequences = dict[TopicPartition, int]
"""The next sequence number of each partition."""


class SharingError(RuntimeError):
    """The tasks of a write cannot continue each other's sequence numbers."""


class SharedSequences:
    """The file with the sequence numbers of a write. It is created when it is first used."""

    def __init__(self, write_id: str) -> None:
        """Find the file of a write. This is called in a task.

        Raises:
            KeyError: Spark has not named its directories.
        """
        directory = os.environ[DIRECTORIES_VARIABLE].split(",")[0]
        self.path = os.path.join(directory, f"odradek-sequences-{write_id}")

    @contextlib.contextmanager
    def turn(self) -> Iterator[Sequences]:
        """Wait for the lock, and yield the numbers, which the caller changes.

        Raises:
            SharingError: a task has failed in its turn.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            is_new = os.fstat(descriptor).st_size == 0
            sequences = {} if is_new else _read(descriptor)
            os.ftruncate(descriptor, 1)  # until the end of the turn the file has no numbers
            yield sequences
            entries = [[*each, number] for each, number in sequences.items()]
            os.pwrite(descriptor, json.dumps(entries).encode(), 0)
        finally:
            os.close(descriptor)


def _read(descriptor: int) -> Sequences:
    try:
        entries = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    except ValueError:
        raise SharingError(
            "another task of this exactly-once write has failed while it wrote (Spark's log has "
            "the reason), so the write is aborted"
        ) from None
    return {TopicPartition(topic, index): number for topic, index, number in entries}


class SharedSender:
    """Writes the batches of one task in turns. Call `flush` at the end."""

    def __init__(
        self,
        cluster: Cluster,
        options: WriteOptions,
        producer: TransactionalProducer,
        write_id: str,
    ) -> None:
        """All tasks of a write, and no others, have the same `write_id`. A producer id is no such
        id, because other clusters have the same ones.

        Raises:
            KeyError: Spark has not named its directories.
        """
        self.record_counts: Counter[TopicPartition] = Counter()
        """The number of records that were acknowledged, by partition."""
        self._options = options
        self._sender = Sender(cluster, options, producer)
        self._shared = SharedSequences(write_id)
        self._waiting: list[tuple[dict[TopicPartition, EncodedRecords], int]] = []
        self._waiting_bytes = 0

    @property
    def files(self) -> frozenset[str]:
        """The file with the sequence numbers, if it was used."""
        return frozenset([self._shared.path] if self.record_counts else ())

    def send(self, records: dict[TopicPartition, EncodedRecords], timestamp_ms: int) -> None:
        """Take one batch for each partition. They are sent when enough of them wait.

        Raises:
            ClientError: a batch was rejected, or not written in time.
            SharingError: another task has failed in its turn.
        """
        compressed = {
            partition: each.compressed(self._options.codec) for partition, each in records.items()
        }
        self._waiting.append((compressed, timestamp_ms))
        self._waiting_bytes += sum(len(each.data) for each in compressed.values())
        if self._waiting_bytes >= TURN_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what waits, and wait until it is written.

        Raises:
            ClientError: a batch was rejected, or not written in time.
            SharingError: another task has failed in its turn.
        """
        if not self._waiting:
            return
        with self._shared.turn() as sequences:
            self._sender.resume(sequences)
            for round_, timestamp_ms in self._waiting:
                self._sender.send(round_, timestamp_ms)
            self._sender.flush()
            sequences.update(self._sender.sequences)
        for round_, _ in self._waiting:
            self.record_counts.update({each: x.record_count for each, x in round_.items()})
        self._waiting, self._waiting_bytes = [], 0


def check(files: Iterable[str], record_counts: Iterable[Mapping[TopicPartition, int]]) -> None:
    """Check that the tasks of a write have written all records that the sequence numbers count.

    Raises:
        SharingError: they have not.
    """
    expected: Sequences = {}
    for each in record_counts:
        for partition, count in each.items():
            expected[partition] = add_to_sequence(expected.get(partition, 0), count)
    paths = set(files)
    if not paths and not expected:
        return
    if len(paths) == 1:
        with contextlib.suppress(FileNotFoundError), open(paths.pop(), "rb") as file:
            if _read(file.fileno()) == expected:
                return
    raise SharingError(
        "the tasks of this exactly-once write have not shared their sequence numbers, or one was "
        "repeated, so nothing is committed. The frame of odradek.spark.by_partition must be "
        "written in the session that made it"
    )


def remove(files: Iterable[str]) -> None:
    """Remove the files of a write that has ended."""
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
