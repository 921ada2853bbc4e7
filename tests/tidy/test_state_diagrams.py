from __future__ import annotations

from tests.tidy.state_diagrams import MACHINES, PATH, document


def test_the_document_of_the_machines_is_current() -> None:
    assert PATH.read_text("utf-8") == document(), "run: python -m tests.tidy.state_diagrams"


def test_every_state_is_described() -> None:
    for machine in MACHINES:
        states = {each for transition in machine.transitions for each in transition}
        assert states <= machine.states.keys(), machine.title
