"""How far a long test is: one line in the file that ODRADEK_PROGRESS names.

`python -m bench.proofs` shows it. Without the variable, nothing is written.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ODRADEK_PROGRESS"


def report(done: int, total: int, what: str) -> None:
    """Say that `done` of `total` are done, of `what`."""
    path = os.environ.get(VARIABLE)
    if path:
        Path(path).write_text(f"{done} of {total} {what}", encoding="utf-8")
