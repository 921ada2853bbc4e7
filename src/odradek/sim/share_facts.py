"""What share consumers received and acknowledged, and the checks of it (KIP-932).

Each record of the topic must be delivered to a member of the share group until a member accepts or
rejects it, or until it has been delivered as often as `DELIVERIES_MAX`. These are violations:

- A delivery count is outside its limits, or does not increase from one delivery to the next.
- A record is delivered again after a broker has confirmed that it was accepted or rejected. This
  must hold when leaders and coordinators change, and after a restart of all nodes. But a broker that
  does not know yet that another one leads the partition may deliver it again, as in Apache Kafka. It
  cannot store acknowledgements, so it refuses them.
- A member gets a record, or acknowledges it successfully, while another member holds its lock.
- A member that holds the lock of a record cannot acknowledge the record, or a member can acknowledge it
  after the lock has expired.
- An acknowledged record of a producer is never accepted or rejected (`unsettled`).

The locks and the delivery counts since the last change of the stored state are only in the memory of
the broker that leads the partition. So the rules about them hold for one `LocalSharePartition`: it
exists as long as the broker leads in one leader epoch, and is replaced when the share coordinator has
fenced it, or when the last session of the group on this broker ends.

A member does not know when the broker has acquired a record for it, only that it was between the
request and the response. The lock is held for certain from the response until a lock that began with
the request would expire. A rule about two deliveries is applied if the response to the first one
arrived before the request of the second one was sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from odradek.core.share.states import ACCEPT, REJECT, RENEW
from odradek.model.topic_partition import TopicPartition
from odradek.sim.facts import Facts, Reading

LOCK_MS = 1_200
DELIVERIES_MAX = 5
_FINAL = frozenset({ACCEPT, REJECT})
"""The acknowledgements after which a record is not delivered again."""
_LOCK_NS = (LOCK_MS - 2) * 1_000_000
"""Less than the lock, because brokers count in milliseconds."""
_EXPIRED_NS = (LOCK_MS + 20) * 1_000_000
"""Longer than the lock, because the timer of a broker may be late."""


@dataclass(slots=True)
class Delivery:
    """One delivery of a record to a member."""

    member: str
    partition: TopicPartition
    offset: int
    count: int
    sent_ns: int
    received_ns: int
    lifetime: object | None
    """The share partition that has acquired the record; None if it is not known for certain."""
    leader_epoch: int | None
    """The epoch in which the broker led the partition, if it is known."""
    until_ns: int
    """The member holds the lock until this time at least, unless the share partition is replaced."""

    expired_ns: int
    """The lock has expired at this time, unless it is renewed."""

    def end(self) -> None:
        """Note that the member may hold the lock no longer."""
        self.until_ns = 0

    def renew(self, sent_ns: int, now_ns: int) -> None:
        """Note that the lock was renewed between these times."""
        self.until_ns = max(self.until_ns, sent_ns + _LOCK_NS)
        self.expired_ns = now_ns + _EXPIRED_NS

    def holds(self, lifetime: object | None, from_ns: int, to_ns: int) -> bool:
        """Return whether the lock is held for certain during an interval."""
        return (
            lifetime is not None
            and self.lifetime is lifetime
            and self.received_ns <= from_ns
            and to_ns < self.until_ns
        )


@dataclass(slots=True)
class SharedRecord:
    """What is known about one record."""

    value: str
    deliveries: list[Delivery] = field(default_factory=list)
    done_ns: int | None = None
    """When a member learned that the record is accepted or rejected."""
    done_epoch: int | None = None
    """The epoch in which the broker led that has accepted or rejected it, if it is known."""
    may_be_done: bool = False
    """Whether the response to such an acknowledgement was lost."""
    pending: int = 0
    """The number of such acknowledgements without a response so far."""

    @property
    def count_max(self) -> int:
        """The highest delivery count."""
        return max(each.count for each in self.deliveries)

    def add_pending(self, count: int) -> None:
        """Count an acknowledgement that accepts or rejects, until its result is known."""
        self.pending += count

    def settle(self, now_ns: int, leader_epoch: int | None) -> None:
        """Record that a broker that led in `leader_epoch` has confirmed an acknowledgement."""
        if self.done_ns is None:
            self.done_ns = now_ns
            self.done_epoch = leader_epoch

    def is_done_for(self, delivery: Delivery) -> bool:
        """Return whether the broker of a delivery should have known that the record is done."""
        if self.done_ns is None or self.done_ns >= delivery.sent_ns:
            return False
        if self.done_epoch is None or delivery.leader_epoch is None:
            return False
        return delivery.leader_epoch >= self.done_epoch

    def perhaps_settle(self) -> None:
        """Record that it is not known whether an acknowledgement has taken effect."""
        self.may_be_done = True


class ShareFacts:
    """The records of one topic that the members of one share group received."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._records: dict[tuple[TopicPartition, int], SharedRecord] = {}
        self._lost: Counter[TopicPartition] = Counter()
        """The number of fetches without a response. They may have acquired records."""
        self.assigned: set[int] = set()
        """The partitions that the group coordinator has assigned to any member so far."""

    def _violation(self, delivery: Delivery, text: str) -> None:
        self._facts.violations.append(
            f"{delivery.partition} offset {delivery.offset}, delivered to {delivery.member}: {text}"
        )

    # -- deliveries -----------------------------------------------------------------------------

    def assign(self, partitions: Iterable[int]) -> None:
        """Record that the group coordinator has assigned partitions."""
        self.assigned.update(partitions)

    def lose_fetch(self, partition: TopicPartition) -> None:
        """Record that the response to a fetch was lost."""
        self._lost[partition] += 1

    def deliver(
        self,
        member: str,
        reading: Reading,
        count: int,
        sent_ns: int,
        received_ns: int,
        lifetime: object | None,
        leader_epoch: int | None,
    ) -> Delivery:
        """Record and check a delivery."""
        partition, offset, value = reading
        self._facts.consume(reading, [])
        self._facts.count("shared records delivered")
        until_ns, expired_ns = sent_ns + _LOCK_NS, received_ns + _EXPIRED_NS
        delivery = Delivery(
            member,
            partition,
            offset,
            count,
            sent_ns,
            received_ns,
            lifetime,
            leader_epoch,
            until_ns,
            expired_ns,
        )
        record = self._records.setdefault((partition, offset), SharedRecord(value))
        for problem in _problems(record, delivery):
            self._violation(delivery, problem)
        if record.deliveries:
            self._facts.count("shared records delivered again")
        record.deliveries.append(delivery)
        return delivery

    # -- acknowledgements -----------------------------------------------------------------------

    def begin(self, delivery: Delivery, kind: int) -> None:
        """Record that an acknowledgement is sent. One of the next three methods must follow."""
        self._add_pending(delivery, kind, 1)

    def acknowledged(
        self,
        delivery: Delivery,
        kind: int,
        sent_ns: int,
        now_ns: int,
        lifetime: object | None,
        leader_epoch: int | None,
    ) -> None:
        """Record and check an acknowledgement that the broker has confirmed at `now_ns`.

        `lifetime` is the share partition that has applied it; None if it is not known for certain.
        The broker led the partition in `leader_epoch` when the request was sent, if this is known.
        """
        self._add_pending(delivery, kind, -1)
        record = self._records[delivery.partition, delivery.offset]
        for other in record.deliveries:
            if other.member != delivery.member and other.holds(lifetime, sent_ns, now_ns):
                self._violation(delivery, f"acknowledged while {other.member} has the lock")
        may_be_passed = self._may_be_passed(delivery.partition, record)
        if sent_ns > delivery.expired_ns and not may_be_passed:
            self._violation(delivery, "acknowledged after its lock has expired")
        if kind == RENEW:
            delivery.renew(sent_ns, now_ns)
            if may_be_passed:
                delivery.end()
        elif kind in _FINAL:
            record.settle(now_ns, leader_epoch)
            self._facts.count("shared records settled")

    def unknown(self, delivery: Delivery, kind: int) -> None:
        """Record an acknowledgement whose result is not known."""
        self._add_pending(delivery, kind, -1)
        if kind in _FINAL:
            self._records[delivery.partition, delivery.offset].perhaps_settle()

    def refused(self, delivery: Delivery, kind: int) -> None:
        """Record an acknowledgement that the broker has refused."""
        self._add_pending(delivery, kind, -1)

    def refused_holder(self, delivery: Delivery, name: str) -> None:
        """Record that the acknowledgement of a record that is locked got an error."""
        self._violation(delivery, f"its lock is held, and the acknowledgement got {name}")

    def _add_pending(self, delivery: Delivery, kind: int, count: int) -> None:
        if kind in _FINAL:
            self._records[delivery.partition, delivery.offset].add_pending(count)

    def _may_be_passed(self, partition: TopicPartition, record: SharedRecord) -> bool:
        """Return whether the start offset may have moved past a record.

        Then each acknowledgement of the record is confirmed, and has no effect. The last delivery
        may not have arrived yet.
        """
        if record.done_ns is not None or record.may_be_done or record.pending:
            return True
        return record.count_max + self._lost[partition] + 1 >= DELIVERIES_MAX

    # -- the end --------------------------------------------------------------------------------

    def unsettled(self, topic: str) -> Iterator[str]:
        """Yield the records that producers wrote and no member accepted or rejected.

        Records that may have been delivered as often as the limit allows are left out. So are those
        with an acknowledgement whose result is not known.
        """
        delivered = {
            (partition, record.value): record for (partition, _), record in self._records.items()
        }
        for partition, values in self._facts.acknowledged.items():
            if partition.topic != topic:
                continue
            for value in values:
                record = delivered.get((partition, value))
                count = self._lost[partition] + (0 if record is None else record.count_max)
                if record is not None and (record.done_ns is not None or record.may_be_done):
                    continue
                if count < DELIVERIES_MAX:
                    yield f"{partition}: {value!r} was delivered {count} times and never settled"


def _problems(record: SharedRecord, delivery: Delivery) -> Iterator[str]:
    """Yield what is wrong with a new delivery of a record."""
    if not 1 <= delivery.count <= DELIVERIES_MAX:
        yield f"the delivery count is {delivery.count}"
    if record.is_done_for(delivery):
        yield "it had been accepted or rejected"
    for earlier in record.deliveries:
        if delivery.lifetime is None or earlier.lifetime is not delivery.lifetime:
            continue
        if earlier.received_ns <= delivery.sent_ns and earlier.count >= delivery.count:
            yield f"the delivery count is {delivery.count} after {earlier.count}"
        if earlier.holds(delivery.lifetime, delivery.sent_ns, delivery.received_ns):
            yield f"{earlier.member} has the lock"
