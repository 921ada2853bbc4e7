"""Attribution of the event loop's pauses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bench.measures import loop_pause
from bench.pauses import Second

OWN = Second(pause_ms=12.0, timer_late_ms=1.0, was_stolen_from=False)
STOLEN = Second(pause_ms=80.0, timer_late_ms=1.0, was_stolen_from=True)
LATE = Second(pause_ms=30.0, timer_late_ms=25.0, was_stolen_from=False)


def told(*seconds: Second) -> dict[str, float | None]:
    environment: Any = SimpleNamespace(pauses=lambda: seconds, names={"ours": "Odradek"})
    return {each.quantity.name: each.median("ours") for each in loop_pause.run(environment)}


def test_seconds_of_the_machine_are_told_apart() -> None:
    figures = told(OWN, STOLEN, LATE, OWN)
    assert figures["longest pause of the loop"] == 80
    assert figures["longest pause, the machine undisturbed"] == 12
    assert figures["seconds in which it was disturbed"] == 50
    assert figures["a bare timer late by at most"] == 25


def test_a_machine_without_rest_hides_nothing() -> None:
    figures = told(STOLEN, LATE)
    assert figures["longest pause of the loop"] == 80
    assert "longest pause, the machine undisturbed" not in figures


def test_pauses_are_empty_without_watching() -> None:
    assert told() == {}
