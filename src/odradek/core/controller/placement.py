"""Places the replicas of new partitions (Kafka's StripedReplicaPlacer).

The racks form a list, and each rack has a list of brokers. The replicas of a partition are on
consecutive racks of the list. The replicas of the next partition start one rack later. Within a
rack, the brokers are chosen in turn. If there are enough racks, the replicas of one partition are
therefore on different racks. The leaders are spread over the brokers.

The first rack is random, so that the partitions of many small topics are spread too. If there are n
unfenced brokers, all lists are shuffled after every n partitions. In each rack, the fenced brokers
come after the unfenced brokers. The first replica becomes the leader, so it is never on a fenced
broker.
"""

from __future__ import annotations

from typing import TypeVar

from odradek.core.controller.state import ControllerState, RandomBytes
from odradek.model.errors import ApiError, ErrorCode

ItemT = TypeVar("ItemT")


class _Turns:
    """A round-robin list of brokers.

    A round chooses the replicas of one partition, and uses each broker at most once.
    """

    def __init__(self, brokers: list[int], random_bytes: RandomBytes) -> None:
        self.brokers = sorted(brokers)
        self._offset = _draw(random_bytes, len(brokers)) if brokers else 0
        self._round = 0
        self._given = 0

    def next(self, current_round: int) -> int | None:
        """Return the next broker; None if all were returned in this round."""
        if current_round != self._round:
            self._round = current_round
            self._given = 0
            self._offset += 1
        if self._given >= len(self.brokers):
            return None
        broker = self.brokers[(self._given + self._offset) % len(self.brokers)]
        self._given += 1
        return broker


class _Rack:
    def __init__(self, unfenced: list[int], fenced: list[int], random_bytes: RandomBytes) -> None:
        self.unfenced = _Turns(unfenced, random_bytes)
        self.fenced = _Turns(fenced, random_bytes)

    def next(self, current_round: int) -> int | None:
        broker = self.unfenced.next(current_round)
        return self.fenced.next(current_round) if broker is None else broker


def place(
    state: ControllerState, partition_count: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """Return the replicas of each new partition. The first replica is unfenced.

    Raises:
        ApiError: INVALID_REPLICATION_FACTOR.
    """
    racks = _racks(state)
    _check(racks, replication_factor)
    brokers = [each for rack in racks for each in rack.unfenced.brokers]
    if replication_factor == 1 and len(brokers) == 1:
        return [(brokers[0],)] * partition_count
    return _Stripes(racks, len(brokers), state.random_bytes).take(
        partition_count, replication_factor
    )


def _racks(state: ControllerState) -> list[_Rack]:
    """Return the racks with usable brokers, sorted by name. Brokers without a rack come first."""
    by_rack: dict[str, tuple[list[int], list[int]]] = {}
    for broker in state.image.cluster.brokers.values():
        is_stopping = broker.in_controlled_shutdown and not broker.fenced
        if is_stopping or not broker.has_uncordoned_directory:
            continue
        unfenced, fenced = by_rack.setdefault(broker.rack or "", ([], []))
        (fenced if broker.fenced else unfenced).append(broker.id)
    return [_Rack(*by_rack[name], state.random_bytes) for name in sorted(by_rack)]


def _check(racks: list[_Rack], replication_factor: int) -> None:
    unfenced = sum(len(rack.unfenced.brokers) for rack in racks)
    total = unfenced + sum(len(rack.fenced.brokers) for rack in racks)
    problem = ""
    if replication_factor <= 0:
        problem = (
            f"Invalid replication factor {replication_factor}: the replication factor must be "
            "positive."
        )
    elif unfenced == 0:
        problem = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > total:
        problem = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{total} broker(s) are registered or some brokers have all their log directories "
            "cordoned."
        )
    if problem:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)


class _Stripes:
    def __init__(self, racks: list[_Rack], unfenced: int, random_bytes: RandomBytes) -> None:
        self._racks = racks
        self._unfenced = unfenced
        self._random_bytes = random_bytes
        self._round = 0
        self._offset = _draw(random_bytes, len(racks))

    def take(self, partition_count: int, replication_factor: int) -> list[tuple[int, ...]]:
        return [self._partition(replication_factor) for _ in range(partition_count)]

    def _partition(self, replication_factor: int) -> tuple[int, ...]:
        if self._round and self._unfenced > 1 and self._round % self._unfenced == 0:
            self._shuffle()
        count = len(self._racks)
        first = next(
            index
            for turn in range(count)
            if self._racks[index := (self._offset + turn) % count].unfenced.brokers
        )
        leader = self._racks[first].unfenced.next(self._round)
        assert leader is not None
        replicas = [leader]
        index = self._offset
        skip: int | None = first  # the leader is on this rack, so skip the rack once
        while len(replicas) < replication_factor:
            if index == skip:
                skip = None
            else:
                broker = self._racks[index].next(self._round)
                if broker is not None:
                    replicas.append(broker)
            index = (index + 1) % count
        self._round += 1
        self._offset = (self._offset + 1) % count
        return tuple(replicas)

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._random_bytes)
        for rack in self._racks:
            _shuffle(rack.unfenced.brokers, self._random_bytes)
            _shuffle(rack.fenced.brokers, self._random_bytes)


def _draw(random_bytes: RandomBytes, below: int) -> int:
    return int.from_bytes(random_bytes(4), "big") % below


def _shuffle(items: list[ItemT], random_bytes: RandomBytes) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = _draw(random_bytes, last + 1)
        items[last], items[other] = items[other], items[last]
