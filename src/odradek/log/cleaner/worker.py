"""The process that cleans: `python -m odradek.log.cleaner.worker`, started by the node on demand.

It takes work from its standard input and tells of it on its standard output (`work`), runs with
low priority, and ends when its input does: so it does not survive the node. It never removes or
renames anything but `.cleaned` files, and after the end of its input not even these, because
another node may be at work by then.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
from collections import deque
from typing import Any

from odradek.env.file_system import OsFileSystem
from odradek.log.cleaner.round import Round
from odradek.log.cleaner.work import (
    Done,
    Failed,
    Message,
    Replaced,
    WorkItem,
    decode_item,
    encode,
)
from odradek.log.errors import DamagedFile, is_for_room
from odradek.records.errors import RecordsError

NICENESS = 19
_INPUT, _OUTPUT = 0, 1
_POLL_BYTES = 1 << 20
"""Commands are looked for after so many bytes."""


class StoppedByNode(Exception):
    """The item was taken back."""


class Worker:
    """See the module."""

    def __init__(self) -> None:
        self._received = b""
        self._items: deque[WorkItem] = deque()
        self._stopped: set[int] = set()
        self._current = -1
        self._rate = float("inf")
        self._free_at = 0.0
        """When the bytes so far will have been paid for, at the rate."""
        self._unpolled = 0

    def run(self) -> None:
        """Work until the input ends."""
        while True:
            while not self._items:
                self._receive()
            item = self._items.popleft()
            if item.number in self._stopped:
                self._stopped.discard(item.number)
                self._send(Failed(item.number, "taken back", False, was_stopped=True))
            else:
                self._clean(item)

    def _clean(self, item: WorkItem) -> None:
        self._current = item.number
        self._rate = item.rate
        self._free_at = started = time.monotonic()
        try:
            round_ = Round(OsFileSystem(), item, self._pause)
            next_offset = round_.run(self._replaced)
        except StoppedByNode:
            self._stopped.discard(item.number)
            self._send(Failed(item.number, "taken back", False, was_stopped=True))
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
                    int((time.monotonic() - started) * 1000),
                )
            )
        self._current = -1

    def _replaced(self, message: Replaced) -> None:
        self._send(message)

    def _pause(self, count: int) -> None:
        """So many bytes were read or written: wait if that was too fast."""
        self._unpolled += count
        if self._rate < 1e300:
            self._free_at = max(self._free_at, time.monotonic() - 0.3) + count / self._rate
            while (wait := self._free_at - time.monotonic()) > 0:
                self._poll(min(wait, 1.0))
        if self._unpolled >= _POLL_BYTES:
            self._poll(0)

    # -- the node -----------------------------------------------------------------------------

    def _poll(self, wait_seconds: float) -> None:
        self._unpolled = 0
        while select.select([_INPUT], [], [], wait_seconds)[0]:
            self._receive()
            wait_seconds = 0
        if self._current in self._stopped:
            raise StoppedByNode

    def _receive(self) -> None:
        """Wait for commands."""
        data = os.read(_INPUT, 1 << 16)
        if not data:
            os._exit(0)  # the node has gone: touch nothing any more
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, command: dict[str, Any]) -> None:
        if "clean" in command:
            self._items.append(decode_item(command["clean"]))
        elif "rate" in command:
            self._rate = command["rate"]
            self._free_at = time.monotonic()
        elif "stop" in command:
            number = command["stop"]
            if number == self._current or any(item.number == number for item in self._items):
                self._stopped.add(number)

    def _send(self, message: Message) -> None:
        data = encode(message)
        while data:
            data = data[os.write(_OUTPUT, data) :]


def give_way() -> None:
    """Take only processor time that nobody else wants.

    Niceness alone (all that there is outside Linux) is about shares: who has the lowest still goes
    on for its slice of milliseconds while the node, woken by a request, waits.
    """
    os.nice(NICENESS)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may not let anybody choose
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> None:
    """Run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the node decides
    give_way()
    gc.disable()  # no cycles here, and a million keys to look through in vain
    try:
        Worker().run()
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
