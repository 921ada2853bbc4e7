"""Client libraries other than Java's. Each is a program that loads a broker.

Each program reads commands and writes responses, as lines of JSON (`compat/lab/dialogue.py`):

| command | arguments | response |
| --- | --- | --- |
| `about` | – | `client`, `version` |
| `produce` | `bootstrap`, `topic`, `payloads`, `records` | `bytes`, `seconds`, after all records are acknowledged |
| `consume` | `bootstrap`, `topic`, `partitions`, `records` | `bytes`, `seconds` |

All three clients produce with acks=all, `linger.ms` 5 and no compression, and otherwise with the
defaults of their library.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.lab.toolchain import CACHE, Missing, only_one, require

GO_SOURCES = Path(__file__).parents[1] / "go"


def librdkafka() -> Sequence[str | Path]:
    """Return the command of the program for librdkafka (confluent-kafka)."""
    return [sys.executable, "-m", "bench.clients.librdkafka"]


def franz_go() -> Sequence[str | Path]:
    """Return the command of the program for franz-go. Build the program if needed.

    Raises:
        Missing: Go is not installed, or the program cannot be built.
    """
    program = CACHE / "go" / "franz-go-load"
    with only_one("go"):
        program.parent.mkdir(parents=True, exist_ok=True)
        words = [str(require("go")), "build", "-trimpath", "-o", str(program), "."]
        built = subprocess.run(words, cwd=GO_SOURCES, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        said = (built.stderr or built.stdout).strip().splitlines()[-3:]
        raise Missing(f"Go could not build the load: {' '.join(said)}")
    return [program]


PROGRAMS = {"librdkafka": librdkafka, "franz-go": franz_go}
