"""Makes a SPARK_HOME with which Python workers start in half the processor time.

Spark puts `python/lib/pyspark.zip` of SPARK_HOME first on the path of the Python processes that it
starts. The archive in PySpark's wheel has no bytecode, so each process compiles PySpark again: half
a second of processor time (measured), for each streaming query and each new worker. The SPARK_HOME
of this module has links to PySpark's scripts and jars, but no such archive. So processes import the
installed PySpark, with its bytecode.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from odradek.spark import java

LEFT_OUT = ("python", "__pycache__")
"""`python` is the directory of PySpark with the archive."""
SCRIPT = "bin/spark-submit"
WHERE = (
    "from importlib.util import find_spec; import py4j; print(find_spec('pyspark').origin, end='')"
)
SECONDS_MAX = 60.0


def linked() -> Path | None:
    """Return the SPARK_HOME. Make it if needed.

    Return None if the user has set SPARK_HOME, if the Python of the workers would not import the same
    PySpark without the archive, or if the directory cannot be made.
    """
    home = Path(pyspark.__file__).parent
    if "SPARK_HOME" in os.environ or not (home / SCRIPT).exists() or not _is_installed(home):
        return None
    key = hashlib.sha256(f"{home} {pyspark.__version__}".encode()).hexdigest()[:16]
    made = java.cache_directory() / "spark" / key
    with contextlib.suppress(OSError):
        if not (made / SCRIPT).exists():
            _make(made, home)
    return made if (made / SCRIPT).exists() else None


def _is_installed(home: Path) -> bool:
    """Return whether the Python of the workers imports PySpark from this directory."""
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    try:
        done = subprocess.run(  # noqa: S603  (the workers' Python)
            [python, "-c", WHERE],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout == str(home / "__init__.py")


def _make(made: Path, home: Path) -> None:
    """Link what PySpark's directory has, except its Python code. Another process may do the same."""
    made.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=made.parent))
    try:
        for each in home.iterdir():
            is_package = (each / "__init__.py").exists()
            if each.is_dir() and not is_package and each.name not in LEFT_OUT:
                (part / each.name).symlink_to(each)
        part.rename(made)
    except OSError:  # Another process was faster, or links cannot be made.
        shutil.rmtree(part)
