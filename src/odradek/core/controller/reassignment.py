"""The steps that move a partition to other replicas (KIP-455).

During a reassignment the partition has both the new replicas (`adding`) and the replicas that will
be removed (`removing`). When all new replicas are in the ISR, the old replicas are removed, and the
reassignment is complete.

A reassignment may replace one that is in progress. Apache Kafka 4.3 then keeps the old list of added or
of removed replicas if the new one is empty. So a reassignment back to the old replicas never ends there
(the replica that it removes is still waited for), and one that keeps all replicas loses some of them.
Here both lists are always those of the new reassignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Plan(NamedTuple):
    """The first step of a reassignment."""

    replicas: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]


def plan(current: Sequence[int], target: Sequence[int], adding: Sequence[int] = ()) -> Plan:
    """Return the state of the partition while it moves from `current` to `target`.

    `adding` has the replicas that the reassignment in progress adds. If there is nothing else to add,
    those that are in the target are still waited for.
    """
    removing = tuple(sorted(set(current) - set(target)))
    added = set(target) - set(current) or set(target) & set(adding)
    return Plan((*target, *removing), removing, tuple(sorted(added)))


def completed(
    replicas: Sequence[int], isr: Sequence[int], removing: Sequence[int], adding: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return (replicas, ISR) after the last step of a reassignment.

    Return None if the reassignment cannot be completed yet, or if there is no reassignment. A
    reassignment can be completed when the ISR contains all added replicas and at least one replica
    of the target. If the replication factor decreases, the ISR must contain all replicas of the
    target.
    """
    if not removing and not adding:
        return None
    new_isr = [replica for replica in isr if replica not in removing]
    new_replicas = [replica for replica in replicas if replica not in removing]
    if not new_isr or not new_replicas or not set(adding) <= set(new_isr):
        return None
    # If the replication factor decreases, wait until all remaining replicas are in the ISR, so that
    # the ISR does not shrink more than necessary.
    if len(adding) < len(removing) and not set(new_replicas) <= set(new_isr):
        return None
    return new_replicas, new_isr


class Reversal(NamedTuple):
    """The state of the partition after its reassignment was cancelled."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_unclean: bool
    """True if no old replica is in the ISR. Then records may be lost."""


def reverse(replicas: Sequence[int], isr: Sequence[int], adding: Sequence[int]) -> Reversal:
    """Return the state after the replicas that were being added are removed."""
    old_replicas = tuple(replica for replica in replicas if replica not in adding)
    old_isr = tuple(replica for replica in isr if replica not in adding)
    if old_isr:
        return Reversal(old_replicas, old_isr, False)
    assert old_replicas, "a reassignment begins with at least one replica"
    return Reversal(old_replicas, old_replicas[:1], True)
