"""Stores the state of an unfinished run, so that the next run can continue it."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

NOTE = "run.json"
OWN_PATHS = ("broker", "checkpoints", "delays.parquet", "progress.json", NOTE)
"""Files that a run creates in its output directory, except the picture. A new run removes them."""


@dataclass(slots=True)
class RunNote:
    """The state of a run. `servers` is None if the demo starts its own broker."""

    servers: str | None
    flights: int | None
    prefix: str
    finished: bool = False
    dropped_late: dict[str, int] = field(default_factory=dict)
    """The number of rows that Spark dropped as too late, by micro-batch."""

    def save(self, output: Path) -> None:
        """Write the note atomically."""
        output.mkdir(parents=True, exist_ok=True)
        draft = output / f".{NOTE}"
        draft.write_text(json.dumps(asdict(self)), encoding="utf-8")
        draft.replace(output / NOTE)

    def finish(self, output: Path) -> None:
        """Write that the run is finished."""
        self.finished = True
        self.save(output)


def load(output: Path) -> RunNote | None:
    """Load the note of the last run; None if there is no readable note."""
    try:
        return RunNote(**json.loads((output / NOTE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def begin(output: Path, servers: str | None, flights: int | None) -> RunNote:
    """Remove the files of an earlier run, and save the note of a new run."""
    for name in OWN_PATHS:
        path = output / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    prefix = "nyc." if servers is None else f"nyc-{time.strftime('%Y%m%d-%H%M%S')}."
    note = RunNote(servers, flights, prefix)
    note.save(output)
    return note
