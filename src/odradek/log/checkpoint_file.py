"""One checkpoint file of a log directory: offsets of its logs, written in several threads.

Two guarantees: older offsets never overwrite newer ones, and the file has no entry for a log that
is created. Entries have only the name of a log: after a crash, the entry of a deleted log would be
applied to a new one of the same name.
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
    """See the module. Called on the loop's thread."""

    def __init__(self, storage: Storage, directory: LogDirectory, name: str) -> None:
        self._storage = storage
        self._directory = directory
        self._path = directory.file(name)
        self._lock = Lock()
        """Held while the file is written."""
        self._number = 0
        """Number of the newest offsets."""
        self._stored = 0
        """Number of the offsets that are in the file."""
        self._waiting: list[Done] = []
        """Called when the newest offsets are in the file."""
        self._offsets: Offsets | None = None
        """The content of the file after the pending writes; None if unknown."""

    def write_later(self, offsets: Offsets, written: Done = lambda _: None) -> None:
        """Write in the background, if something has changed.

        `written` is called when these offsets, or later ones, are in the file; or with the error.
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
        """Write now.

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
        """Prepare for a new log: if the file may have an entry of its name, write only those of
        `others`.

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
