"""What the user asks of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the user.

    `bootstrap_servers` is the address of a running broker. If it is None, the demo starts a broker.
    `output` is the directory for the picture, results, checkpoints and the broker's data. With
    `fresh` the demo starts again even if an earlier run did not finish. `flights` is the number of
    flights to use, from the first of January on. None means all flights.
    """

    bootstrap_servers: str | None = None
    output: Path = Path("demo-output")
    fresh: bool = False
    flights: int | None = None
