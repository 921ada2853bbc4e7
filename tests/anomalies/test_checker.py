"""The checker finds each planted anomaly, and reports none in a correct history."""

from __future__ import annotations

import pytest

from odradek.sim.anomalies import ALLOWED, KINDS, anomalies
from odradek.sim.operations import History, Moved, Operation, Outcome, Read, Send, Step

COMMITTED, ABORTED, UNKNOWN = Outcome


def wrote(process: str, *sends: Send, outcome: Outcome = COMMITTED) -> Operation:
    return Operation(process, list(sends), outcome)


def saw(process: str, *steps: Step, is_committed_reader: bool = True) -> Operation:
    return Operation(process, list(steps), is_committed_reader=is_committed_reader)


def read(*pairs: tuple[int, int], partition: int = 0) -> list[Read]:
    """Return reads for pairs of offset and value."""
    return [Read(partition, offset, value) for offset, value in pairs]


THREE = wrote("w", Send(0, 1, 0), Send(0, 2, 1), Send(0, 3, 2))
ALL = saw("all", *read((0, 1), (1, 2), (2, 3)))

PLANTED: dict[str, History] = {
    "lost-write": [THREE, saw("r", *read((0, 1), (2, 3)))],
    "unseen": [THREE, saw("r", *read((0, 1), (1, 2)))],
    "duplicate": [THREE, saw("r", *read((0, 1), (1, 2), (2, 3), (3, 3)))],
    "inconsistent-offsets": [THREE, ALL, saw("r", *read((2, 2)))],
    "G1a": [wrote("w", Send(0, 1, 0), outcome=ABORTED), saw("r", *read((0, 1)))],
    "torn-transaction": [
        wrote("w", Send(0, 1), Send(1, 2), outcome=UNKNOWN),
        saw("r", *read((0, 1))),
    ],
    "precommitted-read": [Operation("w", [Send(0, 1, 0), *read((0, 1))])],
    "int-poll-skip": [THREE, ALL, saw("r", *read((0, 1), (2, 3)))],
    "int-nonmonotonic-poll": [THREE, ALL, saw("r", *read((1, 2), (0, 1)))],
    "poll-skip": [THREE, ALL, saw("r", *read((0, 1))), saw("r", *read((2, 3)))],
    "nonmonotonic-poll": [THREE, ALL, saw("r", *read((1, 2))), saw("r", *read((1, 2)))],
    "int-send-skip": [
        wrote("w", Send(0, 1, 0), Send(0, 3, 2)),
        wrote("v", Send(0, 2, 1)),
        ALL,
    ],
    "int-nonmonotonic-send": [wrote("w", Send(0, 2, 1), Send(0, 1, 0)), saw("r", *read((0, 1)), *read((1, 2)))],
    "nonmonotonic-send": [
        wrote("w", Send(0, 2, 1)),
        wrote("w", Send(0, 1, 0)),
        saw("r", *read((0, 1), (1, 2))),
    ],
    "G0": [
        wrote("w", Send(0, 1, 0), Send(1, 3, 1)),
        wrote("v", Send(0, 2, 1), Send(1, 4, 0)),
        saw("r", *read((0, 1), (1, 2)), *read((0, 4), (1, 3), partition=1)),
    ],
    "G1c": [
        wrote("w", Send(0, 1, 0)),
        Operation("v", [Send(0, 2, 1), *read((0, 5), partition=1)]),
        wrote("u", Send(1, 5, 0), Send(0, 3, 2)),
        ALL,
    ],
    "G1c-wr": [
        Operation("w", [Send(0, 1, 0), *read((0, 2), partition=1)]),
        Operation("v", [Send(1, 2, 0), *read((0, 1))]),
    ],
    "G1c-process": [
        saw("w", *read((0, 2), partition=1)),
        wrote("w", Send(0, 1, 0)),
        Operation("v", [*read((0, 1)), Send(1, 2, 0)]),
    ],
}  # fmt: skip

CONSEQUENCES = {
    "lost-write": {"int-poll-skip"},
    "duplicate": {"int-poll-skip", "int-send-skip", "int-nonmonotonic-poll"},
    "inconsistent-offsets": {"duplicate", "int-poll-skip", "int-send-skip"},
    "int-send-skip": {"G0"},
    "G0": {"int-send-skip"},
}
"""Anomalies that always occur together with a planted one."""


def test_all_kinds_are_planted() -> None:
    assert set(PLANTED) == set(KINDS)
    assert set(ALLOWED) < set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_found(kind: str) -> None:
    found = {each.kind for each in anomalies(PLANTED[kind])}
    assert kind in found
    assert found <= {kind, *CONSEQUENCES.get(kind, ())}


def test_each_value_that_is_read_orders_its_writer() -> None:
    """Also a value before the last one that was read of its partition."""
    history = [
        Operation("w", [Send(0, 1, 0), *read((0, 3), partition=1)]),
        wrote("u", Send(0, 2, 1)),
        Operation("v", [Send(1, 3, 0), *read((0, 1), (1, 2))]),
    ]
    assert anomalies(history)[0] == ("G1c-wr", "0:w 2:v")


NOTHING_WRONG: list[History] = [
    [THREE, ALL],
    [THREE, saw("r", *read((0, 1), (1, 2))), saw("r", *read((2, 3)))],
    [THREE, saw("r", *read((0, 1))), ALL, saw("r", Moved(), *read((2, 3)))],
    [THREE, ALL, saw("r", *read((1, 2)), Moved(), *read((0, 1)))],
    [wrote("w", Send(0, 1, 0), outcome=ABORTED), wrote("w", Send(0, 2, 2)), saw("r", *read((2, 2)))],
    [wrote("w", Send(0, 1), Send(1, 2), outcome=UNKNOWN)],
    [
        wrote("w", Send(0, 1), Send(1, 2), outcome=UNKNOWN),
        saw("r", *read((0, 1)), *read((7, 2), partition=1)),
    ],
    [
        wrote("w", Send(0, 1, 0), outcome=ABORTED),
        wrote("v", Send(0, 2, 2)),
        saw("u", *read((0, 1), (2, 2)), is_committed_reader=False),
        saw("r", *read((2, 2))),
    ],
]  # fmt: skip


@pytest.mark.parametrize("history", NOTHING_WRONG)
def test_nothing_is_found(history: History) -> None:
    assert anomalies(history) == []
