"""Client libraries other than Java's, each as a program that loads a broker.

Each program reads commands and answers with lines of JSON (`compat/lab/dialogue.py`):

| verb | arguments | answer |
| --- | --- | --- |
| `about` | – | `client`, `version` |
| `produce` | `bootstrap`, `topic`, `payloads`, `records` | `bytes`, `seconds`; all are acknowledged by then |
| `consume` | `bootstrap`, `topic`, `partitions`, `records` | `bytes`, `seconds` |

All three clients produce with acks=all, `linger.ms` 5 and no compression, and otherwise with the
defaults of their library, as their users do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.lab.toolchain import CACHE, Missing, only_one, require

GO_SOURCES = Path(__file__).parents[1] / "go"


def librdkafka() -> Sequence[str | Path]:
    """The command of the program that uses librdkafka by way of confluent-kafka."""
    return [sys.executable, "-m", "bench.clients.librdkafka"]


def franz_go() -> Sequence[str | Path]:
    """The command of the program that uses franz-go; it is built if need be.

    Raises:
        Missing: there is no Go here, or the program cannot be built.
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
