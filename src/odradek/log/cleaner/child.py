"""The node's end of a cleaning process: starts it when there is work, and never waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Protocol

from odradek.log.cleaner.work import Message, decode


class Child(Protocol):
    """A cleaning process, or what stands in for one in a test."""

    @property
    def is_alive(self) -> bool:
        """Whether it can be given work."""
        ...

    def send(self, line: bytes) -> None:
        """Give it a line."""
        ...

    def receive(self) -> list[Message]:
        """What it has said since the last call."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class ProcessChild:
    """A process of its own. All calls return at once.

    Raises:
        OSError: it could not be started.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "odradek.log.cleaner.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C in a terminal is for the node. Not a session of its own: Linux would give it
            # as much processor as the whole session of the node, whatever its niceness.
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)
        self._unsent = bytearray()
        self._received = b""
        self._has_ended = False

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """See `Child`."""
        return not self._has_ended

    def send(self, line: bytes) -> None:
        """See `Child`. What the pipe does not take is sent later."""
        self._unsent += line
        self._flush()

    def _flush(self) -> None:
        while self._unsent:
            try:
                sent = os.write(self._input.fileno(), self._unsent)
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._unsent.clear()
                return
            del self._unsent[:sent]

    def receive(self) -> list[Message]:
        """See `Child`."""
        if self._has_ended:
            return []
        self._flush()
        while True:
            try:
                data = os.read(self._output.fileno(), 1 << 16)
            except BlockingIOError:
                break
            if not data:
                self._end()
                break
            self._received += data
        *lines, self._received = self._received.split(b"\n")
        return [decode(line) for line in lines]

    def kill(self) -> None:
        """See `Child`."""
        if not self._has_ended:
            self._process.kill()
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._input.close()
        self._output.close()
        self._process.wait()
