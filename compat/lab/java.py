"""Compiles the Java sources of this project, and returns commands that run Java classes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from compat.lab.toolchain import CACHE, JAVA, absent, only_one, require

LAB_SOURCES = Path(__file__).parent / "java"


def classpath(jars: Iterable[Path], *directories: Path) -> str:
    """Return the jars and directories in the form of Java's option `-cp`."""
    return os.pathsep.join(map(str, [*directories, *jars]))


def command(
    main_class: str, jars: Sequence[Path], *directories: Path, options: Sequence[str] = ()
) -> list[str]:
    """Return the command that runs `main_class`.

    Raises:
        Missing: there is no Java.
    """
    return [str(require("java")), *options, "-cp", classpath(jars, *directories), main_class]


def compiled(jars: Sequence[Path], *source_directories: Path) -> Path:
    """Return the directory with the classes of all sources in `LAB_SOURCES` and in the directories.

    The sources are compiled if needed.

    Raises:
        Missing: there is no Java compiler, or it is older than version 17.
        RuntimeError: the compilation failed. The message has the compiler's output.
    """
    sources = sorted(
        source
        for directory in (LAB_SOURCES, *source_directories)
        for source in directory.glob("*.java")
    )
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    for jar in jars:
        digest.update(jar.name.encode() + b"\0")
    home = CACHE / "classes" / digest.hexdigest()[:16]
    with only_one("classes"):
        if not (home / "DONE").exists():
            _compile(home, sources, jars)
            (home / "DONE").touch()
    return home


def _compile(home: Path, sources: Sequence[Path], jars: Sequence[Path]) -> None:
    compiler = require("javac")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    words = [compiler, "--release", "17", "-nowarn", "-proc:none", "-cp", classpath(jars)]
    finished = subprocess.run(
        [*map(str, words), "-d", str(home), *map(str, sources)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "release version 17 not supported" in finished.stderr:
        raise absent(JAVA, "the Java compiler here is older than version 17")
    if finished.returncode != 0:
        raise RuntimeError(f"javac refused our sources:\n{finished.stderr}")
