"""The topics of the demo and their settings."""

from __future__ import annotations

from dataclasses import dataclass

PARTITIONS = 4
KEEP = {"retention.ms": "-1"}
"""Retention is off, because the events have timestamps of 2013 and would be deleted at once."""
COMPACT = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Topics:
    """Topic names, with a prefix that distinguishes runs on a shared cluster."""

    prefix: str = "nyc."

    @property
    def flights(self) -> str:
        """One event per flight, when it lands or is cancelled."""
        return f"{self.prefix}flights"

    @property
    def weather(self) -> str:
        """The hourly weather at the three airports."""
        return f"{self.prefix}weather"

    @property
    def planes(self) -> str:
        """The planes by tail number, compacted."""
        return f"{self.prefix}planes"

    @property
    def airports(self) -> str:
        """The airports by their code, compacted."""
        return f"{self.prefix}airports"

    @property
    def airlines(self) -> str:
        """The airlines by their code, compacted."""
        return f"{self.prefix}airlines"

    @property
    def delays(self) -> str:
        """The results: delays by hour, airport and weather, compacted."""
        return f"{self.prefix}delays"

    def settings(self) -> dict[str, tuple[int, dict[str, str]]]:
        """Return the number of partitions and the settings of each topic by name."""
        return {
            self.flights: (PARTITIONS, KEEP),
            self.weather: (3, KEEP),
            self.planes: (1, COMPACT),
            self.airports: (1, COMPACT),
            self.airlines: (1, COMPACT),
            self.delays: (2, COMPACT),
        }
