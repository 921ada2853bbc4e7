"""Processes: this one, its child processes, and a child's connection to its parent.

A child process reads its standard input and replies on its standard output. It ends at the end of
its input, so that it does not outlive its parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import resource
import select
import signal
import subprocess
import sys
from typing import NoReturn, Protocol

log = logging.getLogger("odradek.env")

NICENESS = 19
DESCRIPTORS_PREPARED = 16_384
"""Initial size of the process's descriptor table, in descriptors: 128 KB of memory."""
_READ_BYTES = 1 << 16
_INPUT, _OUTPUT = 0, 1


class ChildProcess(Protocol):
    """The parent's end of a child process. All calls return at once."""

    @property
    def is_alive(self) -> bool:
        """False after the end of its output was received, or after it was killed."""
        ...

    def send(self, data: bytes) -> None:
        """Write to its input; bytes that the pipe does not accept now are sent later."""
        ...

    def receive(self) -> bytes:
        """Return what it has written since the last call."""
        ...

    def kill(self) -> None:
        """Kill it at once."""
        ...


class PipedProcess:
    """A `ChildProcess` that runs `python -m MODULE`.

    Raises:
        OSError: it could not be started.
    """

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603  (a module of ours)
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C in a terminal must reach the node only. A separate session is no alternative:
            # Linux would give it as much processor time as the whole session of the node, whatever
            # its niceness.
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)
        self._unsent = bytearray()
        self._has_ended = False

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """See `ChildProcess`."""
        return not self._has_ended

    def send(self, data: bytes) -> None:
        """See `ChildProcess`."""
        if not self._has_ended:
            self._unsent += data
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

    def receive(self) -> bytes:
        """See `ChildProcess`."""
        received = b""
        if self._has_ended:
            return received
        self._flush()
        while True:
            try:
                data = os.read(self._output.fileno(), _READ_BYTES)
            except BlockingIOError:
                return received
            if not data:
                self._end()
                return received
            received += data

    def kill(self) -> None:
        """See `ChildProcess`."""
        if not self._has_ended:
            self._process.kill()
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._input.close()
        self._output.close()
        self._process.wait()


class Parent(Protocol):
    """A child's connection to the process that started it."""

    def receive(self, wait_ms: float | None) -> bytes:
        """Return what the parent has sent; wait up to the timeout, or with None without limit.

        Ends this process when the parent has ended.
        """
        ...

    def send(self, data: bytes) -> None:
        """Write all of it to the parent."""
        ...


class PipeParent:
    """A `Parent` on the standard input and output of this process."""

    def receive(self, wait_ms: float | None) -> bytes:
        """See `Parent`."""
        if wait_ms is not None and not select.select([_INPUT], [], [], wait_ms / 1000)[0]:
            return b""
        data = os.read(_INPUT, _READ_BYTES)
        if not data:
            _end_now()
        return data

    def send(self, data: bytes) -> None:
        """See `Parent`."""
        try:
            while data:
                data = data[os.write(_OUTPUT, data) :]
        except BrokenPipeError:
            _end_now()


def _end_now() -> NoReturn:
    """Exit without cleaning up: another node may already use the same files."""
    os._exit(0)


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def lower_priority() -> None:
    """Use only processor time that no other process wants.

    Niceness, the only means outside Linux, only changes shares: a process of the lowest priority
    still finishes its time slice of milliseconds while the node, woken by a request, waits.
    """
    os.nice(NICENESS)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def raise_descriptor_limit() -> None:
    """Let this process open as many files as the system allows: each connection is one.

    Linux doubles a process's table of descriptors when it is full. If there are threads, the call
    that opens a file then waits until all processors have released the old table: up to tens of
    milliseconds, in the middle of a burst of connections. Therefore this function makes the table
    large at once.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError) as error:  # some systems report a limit that they do not grant
        log.debug("cannot change the limit of open files: %s", error)
    with open(os.devnull, "rb") as file, contextlib.suppress(OSError):  # the limit is lower
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, DESCRIPTORS_PREPARED - 1))
