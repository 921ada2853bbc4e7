"""Writes the progress of a long test as one line to the file that ODRADEK_PROGRESS names.

`python -m bench.proofs` shows this line. Without the variable, nothing is written.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ODRADEK_PROGRESS"


def report(done: int, total: int, what: str) -> None:
    """Report that `done` of `total` items are done. `what` names the items."""
    path = os.environ.get(VARIABLE)
    if path:
        Path(path).write_text(f"{done} of {total} {what}", encoding="utf-8")
