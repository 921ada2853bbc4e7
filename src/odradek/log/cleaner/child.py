"""The connection from the node to a worker. It sends commands and receives messages as lines."""

from __future__ import annotations

from typing import Protocol

from odradek.env.process import ChildProcess
from odradek.log.cleaner.work import Message, decode

WORKER = "odradek.log.cleaner.worker"
"""The module that the child process runs."""


class Child(Protocol):
    """A worker process, or a replacement in tests."""

    @property
    def is_alive(self) -> bool:
        """Whether the process accepts work."""
        ...

    def send(self, line: bytes) -> None:
        """Send a command to the worker."""
        ...

    def receive(self) -> list[Message]:
        """Return the messages that have arrived since the last call."""
        ...

    def kill(self) -> None:
        """Kill the process."""
        ...


class ProcessChild:
    """A `Child` that is a separate process. No method blocks."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._received = b""

    @property
    def is_alive(self) -> bool:
        """See `Child`."""
        return self._process.is_alive

    def send(self, line: bytes) -> None:
        """See `Child`."""
        self._process.send(line)

    def receive(self) -> list[Message]:
        """See `Child`."""
        *lines, self._received = (self._received + self._process.receive()).split(b"\n")
        return [decode(line) for line in lines]

    def kill(self) -> None:
        """See `Child`."""
        self._process.kill()
