"""The check that brokers that are down become fenced."""

from __future__ import annotations

from types import SimpleNamespace

from odradek.sim.metadata_watch import FencingWatch

SECOND_NS = 1_000_000_000


def controller(*, is_fenced: bool = False) -> SimpleNamespace:
    """Return an active controller on node 1 whose image has broker 2."""
    brokers = {2: SimpleNamespace(fenced=is_fenced)}
    image = SimpleNamespace(cluster=SimpleNamespace(brokers=brokers))
    active = SimpleNamespace(is_active=True, epoch=1, image=image)
    return SimpleNamespace(name="node1", incarnation=1, controller=active)


def violations(watch: FencingWatch, second: int, *nodes: SimpleNamespace) -> list[str]:
    return list(watch.look(second * SECOND_NS, nodes, {2: 0}))


def test_a_broker_that_is_down_must_be_fenced() -> None:
    watch = FencingWatch(session_timeout_ms=2000)
    for second in range(3):
        assert violations(watch, second, controller()) == []
    assert violations(watch, 3, controller(is_fenced=True)) == []
    assert violations(watch, 3, controller()) == ["broker 2 is down and is not fenced by node1"]


def test_a_controller_that_does_not_reach_a_majority_cannot_fence() -> None:
    watch = FencingWatch(session_timeout_ms=2000)
    assert violations(watch, 0, controller()) == []
    assert violations(watch, 2) == []
    assert violations(watch, 9, controller()) == []
    assert violations(watch, 11, controller()) == []
    assert violations(watch, 12, controller()) != []
