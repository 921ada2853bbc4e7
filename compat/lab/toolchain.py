"""The toolchains of this machine: Java, Go, Node.

Tests that need a missing toolchain are skipped with a reason. `ODRADEK_REQUIRE=java,go,node` names
required toolchains: if one of them is missing, the tests fail.
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
"""Everything fetched or compiled goes here; the directory may be deleted at any time."""

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
REQUIRABLE = (JAVA, GO, NODE, "compiled")
"""What it may name; "compiled" is the compiled wheel, which `make test-compiled` installs."""


class Missing(Exception):
    """A required program is not installed; the message names it."""


class RequiredMissing(RuntimeError):
    """A missing program of a toolchain in ODRADEK_REQUIRE: a failure, not a skip."""


def absent(toolchain: str, reason: str) -> Missing | RequiredMissing:
    """The error to raise when something of a toolchain is missing or fails."""
    required = os.environ.get(REQUIRE_VARIABLE, "").split(",")
    if toolchain in required:
        return RequiredMissing(f"{reason}; {REQUIRE_VARIABLE} has {toolchain}")
    return Missing(reason)


def check_required() -> None:
    """Check that all programs of the toolchains in ODRADEK_REQUIRE are installed.

    Raises:
        RequiredMissing: one is not, or a toolchain of this name does not exist.
    """
    required = [name for name in os.environ.get(REQUIRE_VARIABLE, "").split(",") if name]
    for name in required:
        if name not in REQUIRABLE:
            raise RequiredMissing(f"{REQUIRE_VARIABLE} has {name}: only {', '.join(REQUIRABLE)}")
    for program, (toolchain, _) in PROGRAMS.items():
        if toolchain in required:
            require(program)


def require(program: str) -> Path:
    """The path of a program.

    Raises:
        Missing: it is not here.
        RequiredMissing: it is not here, and ODRADEK_REQUIRE names its toolchain.
    """
    found = shutil.which(program)
    if found is None:
        toolchain, described = PROGRAMS[program]
        raise absent(toolchain, f"no `{program}` here ({described})")
    return Path(found)


PORTS = range(20_000, 30_000)
"""Below the ports that systems give to outgoing connections."""


class PortLocks:
    """Reservations of ports among all processes of a user.

    Each port is a byte of one file, and the process that has locked it may use the port. The system
    releases the locks of a process that ends.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: set[int] = set()  # a process may lock the same byte again
        self._descriptor: int | None = None
        self._next = itertools.cycle(PORTS)

    def reserve(self) -> int:
        """Lock a port that no process is bound to.

        Raises:
            RuntimeError: all are in use.
        """
        with self._guard:
            descriptor = self._opened()
            for port in itertools.islice(self._next, len(PORTS)):
                if port not in self._held and self._lock(descriptor, port):
                    self._held.add(port)
                    return port
        raise RuntimeError(f"no free port from {PORTS.start} to {PORTS.stop}")

    def _opened(self) -> int:
        """The file. It stays open: closing any descriptor of it would release all locks."""
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
    """A port of loopback that nobody uses, reserved for this process until it ends.

    No other process of this user gets it from this function, although the socket is not bound yet.
    """
    return _port_locks.reserve()


@contextlib.contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold the machine-wide lock `name` of the cache: two runs do not fetch the same thing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
