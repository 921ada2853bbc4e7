"""Stores the state of an unfinished run, so that the next run can continue it."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE_NAME = "run.json"
OWN_PATHS = ("broker", "checkpoints", "delays.parquet", "progress.json", FILE_NAME)
"""Files that a run creates in its output directory, except the picture. A new run removes them."""


@dataclass(slots=True)
class RunState:
    """The state of a run. `servers` is None if the demo starts its own broker."""

    servers: str | None
    flights: int | None
    prefix: str
    finished: bool = False
    dropped_late: dict[str, int] = field(default_factory=dict)
    """The number of rows that Spark dropped as too late, by micro-batch."""

    def save(self, output: Path) -> None:
        """Write the state atomically."""
        output.mkdir(parents=True, exist_ok=True)
        draft = output / f".{FILE_NAME}"
        draft.write_text(json.dumps(asdict(self)), encoding="utf-8")
        draft.replace(output / FILE_NAME)

    def finish(self, output: Path) -> None:
        """Write that the run is finished."""
        self.finished = True
        self.save(output)


def load(output: Path) -> RunState | None:
    """Load the state of the last run; None if there is no readable file."""
    try:
        return RunState(**json.loads((output / FILE_NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def begin(output: Path, servers: str | None, flights: int | None) -> RunState:
    """Remove the files of an earlier run, and save the state of a new run."""
    for name in OWN_PATHS:
        path = output / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    prefix = "nyc." if servers is None else f"nyc-{time.strftime('%Y%m%d-%H%M%S')}."
    state = RunState(servers, flights, prefix)
    state.save(output)
    return state
