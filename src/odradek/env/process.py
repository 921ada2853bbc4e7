"""Child processes, a child's connection to its parent, and settings of this process.

A child process reads its standard input and replies on its standard output. A child process exits
at the end of its input, so that it does not outlive its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
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
"""Initial size of the process's descriptor table, in descriptors. It takes 128 KB of memory."""
FREED_BYTES_KEPT = 16 << 20
"""See `keep_freed_memory`."""
MAPPED_BYTES_MIN = 8 << 20
"""Allocations of at least this size are mapped, and returned to the system when they are freed."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_READ_BYTES = 1 << 16
_INPUT, _OUTPUT = 0, 1


_IO = "/proc/self/io"


def input_and_output() -> dict[str, int]:
    """Return what this process has read and written, by the names of Linux: `read_bytes` and others.

    Return nothing if the system does not say it (it is not Linux, or hides the file).
    """
    try:
        with open(_IO, encoding="ascii") as file:
            return {name: int(count) for name, count in (line.split(": ") for line in file)}
    except (OSError, ValueError):
        return {}


class ChildProcess(Protocol):
    """A child process as its parent uses it. No method blocks."""

    @property
    def is_alive(self) -> bool:
        """False after `receive` has reached the end of the child's output, or after `kill`."""
        ...

    def send(self, data: bytes) -> None:
        """Write to the child's input.

        Bytes that the pipe does not accept now are sent by later calls of `send` and `receive`.
        """
        ...

    def receive(self) -> bytes:
        """Return the bytes that the child has written since the last call."""
        ...

    def kill(self) -> None:
        """Kill the child at once."""
        ...


class PipedProcess:
    """A `ChildProcess` that runs `python -m MODULE`.

    Raises:
        OSError: the child process cannot be started.
    """

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603  (a module of ours)
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # In its own process group, the child does not get the SIGINT of Ctrl-C in a terminal.
            # The child does not get its own session: Linux would give that session as much
            # processor time as the session of the node, whatever the child's niceness.
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
        """Return bytes that the parent has sent; none if none arrive within `wait_ms`.

        None waits without limit. If the parent has exited, this process exits.
        """
        ...

    def send(self, data: bytes) -> None:
        """Send all of `data` to the parent."""
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
    """Exit without cleanup, because another node may already use the same files."""
    os._exit(0)


def ignore_interrupts() -> None:
    """Ignore SIGINT. The parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def lower_priority() -> None:
    """Use only processor time that no other process wants.

    Niceness alone is not enough. A process of the lowest priority still finishes its time slice of
    several milliseconds, even if the node could process a request now. Therefore Linux also gets
    the scheduling policy SCHED_IDLE. Other systems have only niceness.
    """
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def keep_freed_memory() -> None:
    """Keep up to `FREED_BYTES_KEPT` of freed memory in this process, for the next allocations.

    By default the allocator of glibc returns freed memory at the end of the heap to the system as
    soon as it exceeds 128 KB. Each decompressed batch then costs a system call, and a page fault
    for every 4 KB: 40 % of a broker's processor time with lz4. Other C libraries are not changed.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # the C library has no such function
            set_option = ctypes.CDLL(None).mallopt
            set_option(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
            set_option(_M_TRIM_THRESHOLD, FREED_BYTES_KEPT)


def raise_descriptor_limit() -> None:
    """Let this process open as many files as the system allows. Each connection is an open file.

    Linux doubles the descriptor table of a process when the table is full. In a process with
    threads, the call that opens a file then waits until all processors have released the old table.
    This takes up to tens of milliseconds while many clients connect. Therefore this function makes
    the table large in advance.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError) as error:  # some systems report a limit that they do not grant
        log.debug("cannot change the limit of open files: %s", error)
    with open(os.devnull, "rb") as file, contextlib.suppress(OSError):  # the limit is lower
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, DESCRIPTORS_PREPARED - 1))
