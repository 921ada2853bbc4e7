"""What a client measures of itself: the standard metrics of KIP-714, as far as this client has them.

The averages and maxima are of the time since the last push. Each metric has the name of Java's, such as
`org.apache.kafka.producer.node.request.latency.avg`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from odradek.client.core.group_member import GroupMember, MemberState
from odradek.wire.primitives import Message

PREFIX = "org.apache.kafka."
_WAY_IN = (
    MemberState.PREPARING,
    MemberState.JOINING,
    MemberState.SYNCING,
    MemberState.ADOPTING,
    MemberState.RECONCILING,
    MemberState.ACKNOWLEDGING,
)
"""The states in which a member does not have its assignment yet."""


class Sample(NamedTuple):
    """One number. A `total` grows while the client lives; all others are gauges."""

    name: str
    value: float
    is_total: bool = False
    node_id: int | None = None


class Spread:
    """The number, the sum and the maximum of some values."""

    __slots__ = ("count", "maximum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.maximum = 0

    def add(self, value: int) -> None:
        """Note a value."""
        self.count += 1
        self.total += value
        self.maximum = max(self.maximum, value)

    def samples(self, name: str, node_id: int | None = None) -> Iterator[Sample]:
        """Yield the average and the maximum, and begin again."""
        average = self.total / self.count if self.count else 0.0
        yield Sample(f"{name}.avg", average, node_id=node_id)
        yield Sample(f"{name}.max", float(self.maximum), node_id=node_id)
        self.count = self.total = self.maximum = 0


class ClientMeter:
    """The metrics of a client. The owner of its connections calls `opened` and `answered`."""

    KIND = ""

    def __init__(self) -> None:
        self._opened = 0
        self._opened_before = 0
        self._began_ms: int | None = None
        self._latency: dict[int, Spread] = {}

    def opened(self) -> None:
        """Note a new connection."""
        self._opened += 1

    def answered(
        self, node_id: int | None, request: Message, response: Message, latency_ms: int
    ) -> None:
        """Note a response; `node_id` is None if the node is not known."""
        if node_id is not None:
            found = self._latency.get(node_id)
            if found is None:
                found = self._latency[node_id] = Spread()
            found.add(latency_ms)
        self._note(request, response, latency_ms)

    def observe(self, now_ms: int) -> None:
        """Look at what changes with time. This is called whenever the client works."""

    def labels(self) -> dict[str, str]:
        """Return what describes the client in all its metrics."""
        return {}

    def samples(self, now_ms: int) -> list[Sample]:
        """Return all metrics. The averages, rates and maxima begin again."""
        began_ms, self._began_ms = self._began_ms, now_ms
        new, self._opened_before = self._opened - self._opened_before, self._opened
        seconds = max(1, now_ms - began_ms) / 1000 if began_ms is not None else 1.0
        found = [
            Sample("connection.creation.rate", new / seconds),
            Sample("connection.creation.total", float(self._opened), is_total=True),
        ]
        for node_id, spread in sorted(self._latency.items()):
            found += spread.samples("node.request.latency", node_id)
        found += self._own()
        return [each._replace(name=f"{PREFIX}{self.KIND}.{each.name}") for each in found]

    def _note(self, request: Message, response: Message, latency_ms: int) -> None:
        """Note what a kind of client has besides."""
        raise NotImplementedError

    def _own(self) -> Iterator[Sample]:
        """Yield what a kind of client has besides."""
        raise NotImplementedError


class ProducerMeter(ClientMeter):
    """The metrics of a producer. `queue_times` are the ms between a first record and its request."""

    KIND = "producer"

    def __init__(self, queue_times: Spread, transactional_id: str | None) -> None:
        super().__init__()
        self._queue_times = queue_times
        self._transactional_id = transactional_id
        self._throttles = Spread()

    def labels(self) -> dict[str, str]:
        """See `ClientMeter`."""
        return {"transactional_id": self._transactional_id} if self._transactional_id else {}

    def _note(self, request: Message, response: Message, latency_ms: int) -> None:
        """See `ClientMeter`."""
        if type(request).__name__ == "ProduceRequest":
            self._throttles.add(response.throttle_time_ms)  # type: ignore[attr-defined]

    def _own(self) -> Iterator[Sample]:
        """See `ClientMeter`."""
        yield from self._throttles.samples("produce.throttle.time")
        yield from self._queue_times.samples("record.queue.time")


class ConsumerMeter(ClientMeter):
    """The metrics of a consumer."""

    KIND = "consumer"

    def __init__(
        self,
        member: Callable[[], GroupMember | None],
        assigned: Callable[[], int],
        labels: Sequence[tuple[str, str | None]] = (),
    ) -> None:
        """`member` returns the member of the group, `assigned` the number of partitions."""
        super().__init__()
        self._member = member
        self._assigned = assigned
        self._labels = {name: value for name, value in labels if value}
        self._fetches = Spread()
        self._commits = Spread()
        self._rebalances = Spread()
        self._rebalance_ms_total = 0
        self._rebalance_began_ms: int | None = None

    def labels(self) -> dict[str, str]:
        """See `ClientMeter`."""
        member = self._member()
        member_id = "" if member is None else member.group_metadata.member_id
        return {**self._labels, **({"group_member_id": member_id} if member_id else {})}

    def observe(self, now_ms: int) -> None:
        """See `ClientMeter`."""
        member = self._member()
        state = None if member is None else member.state
        if self._rebalance_began_ms is None:
            if state in _WAY_IN:
                self._rebalance_began_ms = now_ms
        elif state not in _WAY_IN:
            if state == MemberState.STABLE:
                took_ms = now_ms - self._rebalance_began_ms
                self._rebalances.add(took_ms)
                self._rebalance_ms_total += took_ms
            self._rebalance_began_ms = None

    def _note(self, request: Message, response: Message, latency_ms: int) -> None:
        """See `ClientMeter`."""
        name = type(request).__name__
        if name == "FetchRequest":
            self._fetches.add(latency_ms)
        elif name == "OffsetCommitRequest":
            self._commits.add(latency_ms)

    def _own(self) -> Iterator[Sample]:
        """See `ClientMeter`."""
        yield from self._fetches.samples("fetch.manager.fetch.latency")
        yield from self._commits.samples("coordinator.commit.latency")
        yield from self._rebalances.samples("coordinator.rebalance.latency")
        total_ms = float(self._rebalance_ms_total)
        yield Sample("coordinator.rebalance.latency.total", total_ms, is_total=True)
        yield Sample("coordinator.assigned.partitions", float(self._assigned()))
