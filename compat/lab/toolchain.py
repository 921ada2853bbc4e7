"""What this machine has: Java, Maven, Go, Node. What is missing is said, never guessed around."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
"""Everything fetched or compiled goes here; the directory may be deleted at any time."""

PACKAGES = {
    "java": "a Java runtime of version 17 or newer",
    "javac": "a Java compiler of version 17 or newer (a JDK)",
    "mvn": "Apache Maven",
    "go": "Go",
    "node": "Node.js",
    "npm": "npm, which comes with Node.js",
}


class Missing(Exception):
    """Something that is needed is not on this machine; the text names it."""


def require(program: str) -> Path:
    """The path of a program, or `Missing`."""
    found = shutil.which(program)
    if found is None:
        raise Missing(f"no `{program}` here ({PACKAGES.get(program, program)})")
    return Path(found)


def missing(*programs: str) -> str | None:
    """Why these programs cannot be run, or None when all are here."""
    try:
        for program in programs:
            require(program)
    except Missing as reason:
        return str(reason)
    return None


def free_port() -> int:
    """A port of loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold the machine-wide lock `name` of the cache: two runs do not fetch the same thing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
