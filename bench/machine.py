"""Facts about the machine and the code for stored results, without names of hosts or users."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import psutil
from compat.lab.toolchain import ROOT

PATH_OPTIONS = ("--output", "--keep", "--directory")
_BUT_RESULTS = (":!bench/results", ":!bench/proofs/results")
"""The stored results of earlier runs. A change of them does not change the measured code."""


def facts() -> dict[str, object]:
    """Return the facts that a reader needs to judge figures."""
    return {
        "kind": "machine",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "command": command(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def command() -> str:
    """Return the running command."""
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    name = "" if specification is None else specification.name.removesuffix(".__main__")
    return " ".join(["python", "-m", name, *without_paths(sys.argv[1:])])


def without_paths(words: Sequence[str]) -> list[str]:
    """Return the words of a command without options that name a path of this machine."""
    kept = []
    rest = iter(words)
    for word in rest:
        if word in PATH_OPTIONS:
            next(rest, None)
        elif word.partition("=")[0] not in PATH_OPTIONS:
            kept.append(word)
    return kept


def commit() -> str:
    """Return the measured commit, with a `+` if files differ from the commit."""
    name = _git("rev-parse", "--short", "HEAD") or "unknown"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *_BUT_RESULTS)
    return f"{name}+" if changed else name


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def touch_memory(amount: int) -> None:
    """Ensure that the machine has free pages for `amount` bytes that will be written soon.

    A virtual machine returns memory that has been free for some seconds to its host. To get a
    page back takes longer than to fill the page. This time counts as processor time of the
    process that writes. The pieces are small, because a write cannot be interrupted, and the
    brokers are running.
    """
    piece = bytes(1 << 16)
    with tempfile.TemporaryFile() as scratch:
        for _ in range(amount // len(piece)):
            scratch.write(piece)
