"""The toolchains of this machine: Java, Go, Node.

Where one is missing, what needs it is skipped and says why. `ODRADEK_REQUIRE=java,go,node` names
toolchains that have to be there: then it fails instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

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
"""The toolchain that each program belongs to, and how to name it to people."""

REQUIRE_VARIABLE = "ODRADEK_REQUIRE"


class Missing(Exception):
    """Something that is needed is not on this machine; the text names it."""


class RequiredMissing(RuntimeError):
    """The same, but ODRADEK_REQUIRE names the toolchain: this is a failure, not a skip."""


def absent(toolchain: str, reason: str) -> Missing | RequiredMissing:
    """The error to raise when something of a toolchain is missing or fails."""
    required = os.environ.get(REQUIRE_VARIABLE, "").split(",")
    if toolchain in required:
        return RequiredMissing(f"{reason}; {REQUIRE_VARIABLE} has {toolchain}")
    return Missing(reason)


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
_reserved: dict[int, IO[str]] = {}
"""Ports of this process, with their locks. They are released when the process ends."""
_next_port = itertools.cycle(PORTS)


def free_port() -> int:
    """A port of loopback that nobody uses, reserved for this process.

    No other process of this user gets it from this function, although the socket is not bound yet.
    """
    directory = Path(tempfile.gettempdir()) / f"odradek-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    if not _reserved:  # processes begin at different places, so that most locks are free
        for _ in range(os.getpid() * 97 % len(PORTS)):
            next(_next_port)
    for port in itertools.islice(_next_port, len(PORTS)):
        lock = (directory / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _reserved[port] = lock
        return port
    raise RuntimeError(f"no free port from {PORTS.start} to {PORTS.stop}")


@contextlib.contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold the machine-wide lock `name` of the cache: two runs do not fetch the same thing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
