"""The results: one outcome per client and scenario, as a table and as JSON."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
MARKS = {PASSED: "ok", FAILED: "FAILED", SKIPPED: "-"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one scenario with one client."""

    client: str
    scenario: str
    status: str
    seconds: float = 0.0
    reason: str = ""
    """Why it failed or was skipped."""


class Results:
    """All outcomes of a run; several threads add to it."""

    def __init__(self, against: str, versions: dict[str, str] | None = None) -> None:
        self.against = against
        self.versions = versions or {}
        self.outcomes: list[Outcome] = []
        self._lock = threading.Lock()

    def add(self, outcome: Outcome) -> None:
        """Store and print an outcome."""
        with self._lock:
            self.outcomes.append(outcome)
            mark = MARKS[outcome.status] if outcome.status != SKIPPED else SKIPPED
            reason = f": {outcome.reason}" if outcome.reason else ""
            line = (
                f"{mark:>7}  {outcome.client}: {outcome.scenario} ({outcome.seconds:.1f} s){reason}"
            )
            print(line, flush=True)

    def count(self, status: str) -> int:
        """How many outcomes have this status."""
        return sum(outcome.status == status for outcome in self.outcomes)

    @property
    def succeeded(self) -> bool:
        """Nothing failed, and something passed."""
        return self.count(FAILED) == 0 and self.count(PASSED) > 0

    def table(self) -> str:
        """Scenarios down, clients across; then what was skipped and why."""
        clients = list(dict.fromkeys(outcome.client for outcome in self.outcomes))
        scenarios = list(dict.fromkeys(outcome.scenario for outcome in self.outcomes))
        cells = {(o.scenario, o.client): MARKS[o.status] for o in self.outcomes}
        rows = [
            [name, *(cells.get((name, client), "") for client in clients)] for name in scenarios
        ]
        return "\n".join(_aligned([["", *clients], *rows])) + "\n\n" + "\n".join(self._remarks())

    def as_json(self) -> str:
        """The result as JSON."""
        whole = {
            "against": self.against,
            "clients": self.versions,
            "passed": self.count(PASSED),
            "failed": self.count(FAILED),
            "skipped": self.count(SKIPPED),
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }
        return json.dumps(whole, indent=2)

    def summary(self) -> str:
        """One line with the counts."""
        counts = ", ".join(f"{self.count(each)} {each}" for each in (PASSED, FAILED, SKIPPED))
        return f"{counts} against {self.against}"

    def _remarks(self) -> Iterable[str]:
        reasons = Counter(
            (outcome.client, outcome.reason)
            for outcome in self.outcomes
            if outcome.status == SKIPPED
        )
        for (client, reason), times in reasons.items():
            yield f"skipped: {client}: {reason}" + (f" ({times} scenarios)" if times > 1 else "")
        for outcome in self.outcomes:
            if outcome.status == FAILED:
                yield f"FAILED: {outcome.client}: {outcome.scenario}: {outcome.reason}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
