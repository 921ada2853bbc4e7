"""Makes actions from flights: the visitors are aircraft, and the pages are airports."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

STAGES = ("scheduled", "departed", "landed", "punctual")
"""The stages of the funnel. An action of a stage follows an action of the stage before it."""


def actions(flights: pd.DataFrame) -> pd.DataFrame:
    """Return the actions of flights in the order of their times.

    The columns are `visitor`, `section` (the airline), `page`, `action` and `time` in ms. An
    aircraft without a tail number is named by its flight.
    """
    has_landed = flights["arr_delay"].notna()
    reached = {
        "scheduled": (flights.index == flights.index, "scheduled"),
        "departed": (~flights["cancelled"], "event_time"),
        "landed": (has_landed, "known_at"),
        "punctual": (has_landed & (flights["arr_delay"] <= 0), "known_at"),
    }
    visitor = flights["tailnum"].fillna(flights["carrier"] + flights["flight"].astype(str))
    parts = []
    for stage in STAGES:
        chosen, time = reached[stage]
        part = pd.DataFrame(
            {
                "visitor": visitor[chosen],
                "section": flights["carrier"][chosen],
                "page": flights["dest"][chosen],
                "action": stage,
                "time": flights[time][chosen].dt.as_unit("ms").astype("int64"),
            }
        )
        parts.append(part)
    return pd.concat(parts).sort_values("time", kind="stable", ignore_index=True)


def records(table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield a record for each action, with the visitor as key."""
    text = table.to_json(orient="records", lines=True)
    return zip(table["visitor"], text.splitlines(), strict=True)
