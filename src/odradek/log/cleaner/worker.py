"""The worker process, which compacts logs (`python -m odradek.log.cleaner.worker`).

The node starts the process when there is work. The worker receives commands from the node and sends
messages back (`work`). It has a low priority. It creates and removes only `.cleaned` files. If the
node has exited, the worker exits, too. Then it does not even remove `.cleaned` files, because
another node may use the directory.
"""

from __future__ import annotations

import gc
import json
from collections import deque
from typing import Any

from odradek.env.clock import Clock, SystemClock
from odradek.env.file_system import FileSystem, OsFileSystem
from odradek.env.process import (
    Parent,
    PipeParent,
    ignore_interrupts,
    keep_freed_memory,
    lower_priority,
)
from odradek.log.cleaner.round import Round
from odradek.log.cleaner.work import (
    Done,
    Failed,
    Message,
    WorkItem,
    decode_item,
    encode,
)
from odradek.log.errors import DamagedFile, is_for_room
from odradek.records.errors import RecordsError

_POLL_BYTES = 1 << 20
"""The worker reads commands after it has read or written this many bytes."""
_POLL_MS = 1000.0
"""While the worker waits because of its rate, it reads commands at least once in this time."""
_BURST_MS = 300
"""After a pause, the worker may exceed its rate by the bytes of at most this time."""


class StoppedByNode(Exception):
    """The node has cancelled the work item."""


class Worker:
    """The worker. `take` reads commands of the node, and `work` processes the work items."""

    def __init__(self, file_system: FileSystem, clock: Clock, parent: Parent) -> None:
        self._file_system = file_system
        self._clock = clock
        self._parent = parent
        self._received = b""
        self._items: deque[WorkItem] = deque()
        self._stopped: set[int] = set()
        self._current = -1
        self._rate = float("inf")
        self._free_at_ms = 0.0
        """The time at which the bytes that were read and written so far comply with the rate."""
        self._unpolled = 0

    def take(self, data: bytes) -> None:
        """Process commands of the node. Keep an incomplete command until the rest arrives."""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def work(self) -> None:
        """Process all work items, also work items that arrive during the work."""
        while self._items:
            item = self._items.popleft()
            if item.number in self._stopped:
                self._was_stopped(item)
            else:
                self._clean(item)

    def _was_stopped(self, item: WorkItem) -> None:
        self._stopped.discard(item.number)
        self._send(Failed(item.number, "stopped by the node", False, was_stopped=True))

    def _clean(self, item: WorkItem) -> None:
        self._current = item.number
        self._rate = item.rate
        started_ms = self._clock.monotonic_ms()
        self._free_at_ms = started_ms
        try:
            round_ = Round(self._file_system, item, self._pause)
            next_offset = round_.run(self._send)
        except StoppedByNode:
            self._was_stopped(item)
        except OSError as error:
            lacks_room = is_for_room(error)
            self._send(Failed(item.number, str(error), not lacks_room, lacks_room=lacks_room))
        except (DamagedFile, RecordsError, MemoryError) as error:
            self._send(Failed(item.number, str(error) or type(error).__name__, False))
        else:
            tally = round_.tally
            self._send(
                Done(
                    item.number,
                    next_offset,
                    tally.bytes_read,
                    tally.bytes_written,
                    tally.records_read,
                    tally.records_kept,
                    round_.map.utilization,
                    self._clock.monotonic_ms() - started_ms,
                )
            )
        self._current = -1

    def _pause(self, count: int) -> None:
        """Count bytes that were read or written. Wait if the rate was exceeded."""
        self._unpolled += count
        if self._rate < 1e300:
            earliest_ms = self._clock.monotonic_ms() - _BURST_MS
            self._free_at_ms = max(self._free_at_ms, earliest_ms) + count / self._rate * 1000
            while (wait_ms := self._free_at_ms - self._clock.monotonic_ms()) > 0:
                self._poll(min(wait_ms, _POLL_MS))
        if self._unpolled >= _POLL_BYTES:
            self._poll(0)

    def _poll(self, wait_ms: float) -> None:
        """Process commands that are available or arrive within `wait_ms`.

        Raises:
            StoppedByNode: the node has cancelled the current work item.
        """
        self._unpolled = 0
        while data := self._parent.receive(wait_ms):
            self.take(data)
            wait_ms = 0
        if self._current in self._stopped:
            raise StoppedByNode

    def _obey(self, command: dict[str, Any]) -> None:
        if "clean" in command:
            self._items.append(decode_item(command["clean"]))
        elif "rate" in command:
            self._rate = command["rate"]
            self._free_at_ms = self._clock.monotonic_ms()
        elif "stop" in command:
            number = command["stop"]
            if number == self._current or any(item.number == number for item in self._items):
                self._stopped.add(number)

    def _send(self, message: Message) -> None:
        self._parent.send(encode(message))


def main() -> None:
    """Work until the node exits."""
    keep_freed_memory()
    ignore_interrupts()
    lower_priority()
    gc.disable()  # there are no cycles, and a collection would scan a million keys
    parent = PipeParent()
    worker = Worker(OsFileSystem(), SystemClock(), parent)
    while True:
        worker.take(parent.receive(None))
        worker.work()


if __name__ == "__main__":
    main()
