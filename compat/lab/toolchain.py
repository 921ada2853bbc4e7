"""Finds the toolchains of this machine: Java, Go and Node.js. It also reserves ports.

Tests that need a missing toolchain are skipped with a reason. `ODRADEK_REQUIRE=java,go,node` names
required toolchains. If a required toolchain is missing, the tests fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
"""The directory of all fetched and compiled files. It may be deleted at any time."""

JAVA, GO, NODE = "java", "go", "node"
PROGRAMS = {
    "java": (JAVA, "a Java runtime of version 17 or newer"),
    "javac": (JAVA, "a Java compiler of version 17 or newer (a JDK)"),
    "mvn": (JAVA, "Apache Maven"),
    "go": (GO, "Go"),
    "node": (NODE, "Node.js"),
    "npm": (NODE, "npm, which comes with Node.js"),
}
"""The toolchain of each program, and its name in messages."""

REQUIRE_VARIABLE = "ODRADEK_REQUIRE"
COMPILED, HISTORY = "compiled", "history"
REQUIRABLE = (JAVA, GO, NODE, COMPILED, HISTORY)
"""The names that ODRADEK_REQUIRE may have. The tests run on the compiled wheel ("compiled") in `make
test`. The commits of the repository ("history") say which long tests are due."""


class Missing(Exception):
    """A program is not installed. The message names the program."""


class RequiredMissing(RuntimeError):
    """A program of a toolchain in ODRADEK_REQUIRE is missing. The test fails instead of a skip."""


def absent(toolchain: str, reason: str) -> Missing | RequiredMissing:
    """Return the error to raise when a part of a toolchain is missing or fails."""
    required = os.environ.get(REQUIRE_VARIABLE, "").split(",")
    if toolchain in required:
        return RequiredMissing(f"{reason}; {REQUIRE_VARIABLE} has {toolchain}")
    return Missing(reason)


def check_required() -> None:
    """Check that all programs of the toolchains in ODRADEK_REQUIRE are installed.

    Raises:
        RequiredMissing: a program is not installed, or ODRADEK_REQUIRE has an unknown name.
    """
    required = [name for name in os.environ.get(REQUIRE_VARIABLE, "").split(",") if name]
    for name in required:
        if name not in REQUIRABLE:
            raise RequiredMissing(f"{REQUIRE_VARIABLE} has {name}: only {', '.join(REQUIRABLE)}")
    for program, (toolchain, _) in PROGRAMS.items():
        if toolchain in required:
            require(program)


def require(program: str) -> Path:
    """Return the path of a program.

    Raises:
        Missing: the program is not installed.
        RequiredMissing: the program is not installed, and ODRADEK_REQUIRE names its toolchain.
    """
    found = shutil.which(program)
    if found is None:
        toolchain, described = PROGRAMS[program]
        raise absent(toolchain, f"no `{program}` here ({described})")
    return Path(found)


PORTS = range(20_000, 30_000)
"""These ports are below the ports that operating systems choose for outgoing connections."""


class PortLocks:
    """Reserves ports, so that no two processes of a user get the same port.

    Each port has a byte in one file. The process that has locked this byte may use the port. When a
    process ends, the operating system releases its locks.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: set[int] = set()  # needed because a process can lock the same byte twice
        self._descriptor: int | None = None
        self._next = itertools.cycle(PORTS)

    def reserve(self) -> int:
        """Lock a port that no process is bound to, and return the port.

        Raises:
            RuntimeError: all ports are in use.
        """
        with self._guard:
            descriptor = self._opened()
            for port in itertools.islice(self._next, len(PORTS)):
                if port not in self._held and self._lock(descriptor, port):
                    self._held.add(port)
                    return port
        raise RuntimeError(f"no free port from {PORTS.start} to {PORTS.stop}")

    def _opened(self) -> int:
        """Return the lock file. It stays open, because a close would release all locks."""
        if self._descriptor is None:
            path = Path(tempfile.gettempdir()) / f"odradek-ports-{os.getuid()}.lock"
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            for _ in range(os.getpid() * 97 % len(PORTS)):  # other processes begin elsewhere
                next(self._next)
        return self._descriptor

    @staticmethod
    def _lock(descriptor: int, port: int) -> bool:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, port)
                return False
        return True


_port_locks = PortLocks()


def free_port() -> int:
    """Return a free port of the loopback address, reserved until this process ends.

    In other processes of this user, this function does not return the port, although no socket is
    bound to the port yet.
    """
    return _port_locks.reserve()


@contextlib.contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold the lock `name` of the cache, so that two processes do not fetch the same files."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
