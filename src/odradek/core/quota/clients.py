"""The quotas of clients (Kafka's ClientQuotaManager and its subclasses).

There are four types: bytes that are produced, bytes that are fetched, percent of the time in which
requests are processed, and partitions that are created or deleted. Each has its limits, and a meter
for each key (`limits.py`) that has one. Connections with the same key share the meter.

A client without a limit is not measured; Apache Kafka measures all clients as soon as any limit of
the type is set. So a limit counts only what follows after it was set.

A connection keeps its meters (`ClientMeters`) as long as `generation` is the same. A meter that was
not used for an hour is dropped, with a new generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from odradek.core.quota.limits import Entity, Key, Limits
from odradek.core.quota.meters import UNBOUNDED_MS, Meter, MutationMeter, Throttles, Windows

UNUSED_MS: Final = 3_600_000
"""A meter that was not used for this time is dropped."""
SWEEP_MS: Final = 600_000
"""The time between two searches for unused meters."""


class QuotaType(Enum):
    """The types of quotas. The value is Kafka's name in metrics."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


TYPES: Final[Mapping[str, QuotaType]] = {
    "producer_byte_rate": QuotaType.PRODUCE,
    "consumer_byte_rate": QuotaType.FETCH,
    "request_percentage": QuotaType.REQUEST,
    "controller_mutation_rate": QuotaType.CONTROLLER_MUTATION,
}
"""The types by the names of the limits."""

Change = tuple[Entity, Mapping[str, float] | None]
"""An entity with all its limits. None or an empty mapping means that it has none."""


class _Meter(Protocol):
    """What the meters of all types have."""

    @property
    def used_ms(self) -> int: ...
    def use_limit(self, limit: float) -> None: ...
    def touch(self, now_ms: int) -> None: ...


MeterT = TypeVar("MeterT", bound=_Meter)


class Manager(Generic[MeterT]):
    """The limits and the meters of one type."""

    __slots__ = ("_make", "limits", "meters", "throttles")

    def __init__(self, make: Callable[[Key, float, Throttles, int], MeterT]) -> None:
        """`make` creates a meter from its key, its limit, `throttles` and the time."""
        self._make = make
        self.limits = Limits()
        self.throttles = Throttles()
        self.meters: dict[Key, MeterT] = {}

    def meter(self, user: str, client_id: str | None, now_ms: int) -> MeterT | None:
        """Return the meter of a client; None if it has no limit."""
        if not self.limits:
            return None
        key = self.limits.key(user, client_id)
        meter = self.meters.get(key)
        if meter is None:
            limit = self.limits.of(key)
            if limit is None:
                return None
            meter = self.meters[key] = self._make(key, limit, self.throttles, now_ms)
        meter.touch(now_ms)
        return meter

    def update(self) -> None:
        """Apply changed limits to the meters, and drop those without a limit."""
        for key, meter in list(self.meters.items()):
            limit = self.limits.of(key)
            if limit is None:
                del self.meters[key]
            else:
                meter.use_limit(limit)

    def sweep(self, now_ms: int) -> None:
        """Drop the meters that were not used for a long time."""
        for key, meter in list(self.meters.items()):
            if now_ms - meter.used_ms >= UNUSED_MS:
                del self.meters[key]


class ClientMeters(NamedTuple):
    """The meters of a client; None for each type without a limit."""

    generation: int
    produce: Meter | None
    fetch: Meter | None
    request: Meter | None


class ClientQuotas:
    """The quotas of all clients of a node."""

    def __init__(self, windows: Windows, controller_windows: Windows) -> None:
        """`controller_windows` are for `controller_mutation_rate`, `windows` for all other."""

        def bytes_meter(key: Key, limit: float, throttles: Throttles, now_ms: int) -> Meter:
            return Meter(key, limit, windows, throttles, now_ms)

        def time_meter(key: Key, limit: float, throttles: Throttles, now_ms: int) -> Meter:
            longest_ms = min(windows.window_ms, UNBOUNDED_MS)
            return Meter(key, limit, windows, throttles, now_ms, longest_ms)

        def mutation_meter(
            key: Key, limit: float, throttles: Throttles, now_ms: int
        ) -> MutationMeter:
            return MutationMeter(key, limit, controller_windows, throttles, now_ms)

        self.produce = Manager(bytes_meter)
        self.fetch = Manager(bytes_meter)
        self.request = Manager(time_meter)
        self.mutation = Manager(mutation_meter)
        self._by_type: Mapping[QuotaType, Manager[Meter] | Manager[MutationMeter]] = {
            QuotaType.PRODUCE: self.produce,
            QuotaType.FETCH: self.fetch,
            QuotaType.REQUEST: self.request,
            QuotaType.CONTROLLER_MUTATION: self.mutation,
        }
        self.generation = 0
        """Changes when the meters of a connection may have changed."""
        self._swept_ms = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no limit of any type."""
        return not any(manager.limits for manager in self._by_type.values())

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply the changed limits of entities.

        Limits that are not greater than 0 are ignored. No controller of KIP-546 accepts them.
        """
        for entity, values in changes:
            parts = dict(entity)
            for name, quota_type in TYPES.items():
                limit = None if values is None else values.get(name)
                is_usable = limit is not None and limit > 0
                self._by_type[quota_type].limits.set(parts, limit if is_usable else None)
        for manager in self._by_type.values():
            manager.update()
        self.generation += 1

    def meters(self, user: str, client_id: str | None, now_ms: int) -> ClientMeters:
        """Return the meters of a client. They are valid while `generation` is the same."""
        self._sweep(now_ms)
        return ClientMeters(
            self.generation,
            self.produce.meter(user, client_id, now_ms),
            self.fetch.meter(user, client_id, now_ms),
            self.request.meter(user, client_id, now_ms),
        )

    def _sweep(self, now_ms: int) -> None:
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        for manager in self._by_type.values():
            manager.sweep(now_ms)
        self.generation += 1
