"""Facts about the machine and the code, for the record: no names of hosts, users or paths."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess

import psutil
from compat.lab.toolchain import ROOT


def facts() -> dict[str, object]:
    """What a reader needs to judge figures."""
    return {
        "kind": "machine",
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def commit() -> str:
    """The commit that is measured, with a `+` when files differ from it."""
    told = _git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{told}+" if _git("status", "--porcelain", "--untracked-files=no") else told


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
