"""A checkpoint file of a log directory. It has offsets of the logs in this directory.

Several threads may write the file. This module guarantees:

- Older offsets never overwrite newer offsets.
- When a log is created, the file has no entry with its name. Such an entry belongs to a deleted log
  with the same name. After a crash, the entry would be applied to the new log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.env.executor import Done, Lock
from odradek.log.checkpoints import read_offsets, write_offsets
from odradek.log.directory import LogDirectory
from odradek.log.errors import DamagedFile
from odradek.log.storage import Storage
from odradek.model.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


class CheckpointFile:
    """One checkpoint file. Call its methods on the event loop's thread."""

    def __init__(self, storage: Storage, directory: LogDirectory, name: str) -> None:
        self._storage = storage
        self._directory = directory
        self._path = directory.file(name)
        self._lock = Lock()
        """Held while the file is written."""
        self._number = 0
        """Writes have numbers. This is the number of the newest write."""
        self._stored = 0
        """The number of the newest completed write."""
        self._waiting: list[Done] = []
        """Callbacks that are called when the newest offsets are in the file."""
        self._offsets: Offsets | None = None
        """The content of the file after all pending writes; None if it is unknown."""

    def write_later(self, offsets: Offsets, written: Done = lambda _: None) -> None:
        """Write offsets in the background, if they have changed.

        `written` is called with None when these or newer offsets are in the file. If the write
        fails, `written` is called with the error.
        """
        if self._offsets == offsets:
            if self._stored == self._number:
                written(None)
            else:
                self._waiting.append(written)
            return
        self._offsets = offsets
        self._number += 1
        self._waiting.append(written)
        number = self._number

        def work() -> None:
            with self._lock:
                if self._number == number:
                    write_offsets(self._storage.file_system, self._path, offsets)

        def done(error: BaseException | None) -> None:
            self._stored = max(self._stored, number)
            if error is not None:
                self._directory.refuse("could not write a checkpoint", error)
                self._offsets = None
            if error is not None or self._stored == self._number:
                waiting, self._waiting = self._waiting, []
                for each in waiting:
                    each(error)

        self._storage.background(work, done)

    def write(self, offsets: Offsets) -> None:
        """Write offsets on this thread.

        Raises:
            OSError: the device failed or is full.
        """
        self._number += 1
        self._offsets = None
        with self._lock:
            write_offsets(self._storage.file_system, self._path, offsets)
        self._offsets = offsets
        self._stored = self._number

    def forget(self, partition: TopicPartition, others: Callable[[], Offsets]) -> None:
        """Remove the entry of `partition` before a log for it is created.

        If the file may have such an entry, write the offsets that `others` returns.

        Raises:
            OSError: the device failed or is full.
        """
        if self._offsets is None:
            self._offsets = self._read()
        is_stored = self._stored == self._number
        if self._offsets is None or not is_stored or partition in self._offsets:
            self.write(others())

    def _read(self) -> Offsets | None:
        with self._lock:
            try:
                return read_offsets(self._storage.file_system, self._path)
            except DamagedFile:
                return None
