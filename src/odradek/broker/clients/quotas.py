"""Applies the quotas of clients to requests (Kafka's RequestHandlerHelper and ClientQuotaManager).

`odradek.core.quota.clients` measures and decides; this module passes metadata changes to it. While
no client has a limit, the dispatcher and the broker have no quotas at all (`listen`).

A client that exceeds a limit gets its response at once, with the time for which it is throttled.
For this time it should send nothing, and its connection processes nothing (KIP-219,
`Connection.mute`). A fetch that is throttled gets an empty response, whose records are not counted.

- Produce counts the bytes of the request. It is acknowledged first, and throttled for the excess.
- Fetch counts the bytes of the response. Fetches of other brokers are not limited.
- ShareFetch counts the bytes of the response, too. But the response is sent, and throttled for the
  excess: its records are acquired, and an empty response would leave them locked. (Apache Kafka
  sends an empty response nevertheless.)
- All requests count the time that the event loop spends on them, and that of the validation of large
  batches on other threads, as a percentage of all time. Not counted are fetches of other brokers,
  WriteTxnMarkers, requests without a response, the work of the controller, the time in which a
  request waits, and requests of clients that have not logged in (SASL).
- The controller counts the partitions that are created and deleted (`mutation_quota`), and puts the
  throttle time into its response. The broker to which the client is connected throttles it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from odradek.broker.clients.request_context import RequestContext
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.core.quota.clients import Change, ClientMeters, ClientQuotas
from odradek.core.quota.connections import ConnectionRates
from odradek.core.quota.limits import IP, Entity
from odradek.core.quota.meters import Windows
from odradek.core.quota.mutations import STRICT_SINCE, MutationQuota
from odradek.env.clock import Clock
from odradek.model.api_keys import FETCH, PRODUCE, WRITE_TXN_MARKERS
from odradek.network.peer import Peer

log = logging.getLogger("odradek.quota")

PERCENT_PER_NS: Final = 100 / 1_000_000_000


class Charge(Protocol):
    """Counts processed requests; see `QuotaManagers.charge`."""

    def __call__(
        self, key: int, peer: Peer, request_bytes: int, cost_ns: int, told_ms: int, *, silent: bool
    ) -> int:
        """Count a request; return how long its connection must be throttled."""
        ...


def charge_on_controller(
    key: int, peer: Peer, request_bytes: int, cost_ns: int, told_ms: int, *, silent: bool
) -> int:
    """Throttle the connection only for the time that the controller has put into the response."""
    return told_ms


class QuotaManagers:
    """A `Publisher` that measures clients. Use it only on the event loop's thread.

    A node has one object, for its broker and its controller.
    """

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        """The windows cannot be changed while the node runs."""
        self.clients = ClientQuotas(
            Windows(config.quota_window_num, config.quota_window_size_seconds * 1000),
            Windows(
                config.controller_quota_window_num,
                config.controller_quota_window_size_seconds * 1000,
            ),
        )
        self.now_ms = clock.monotonic_ms
        self._listeners: list[Callable[[QuotaManagers | None], None]] = []
        self._connection_rates: list[ConnectionRates] = []
        self._of_addresses: dict[Entity, Mapping[str, float]] = {}
        """The limits of addresses, by entity."""

    def listen(self, use_quotas: Callable[[QuotaManagers | None], None]) -> None:
        """Call `use_quotas` after each change: with this object, or with None if there is no limit.

        It is also called now.
        """
        self._listeners.append(use_quotas)
        use_quotas(None if self.clients.is_empty else self)

    def limit_connections(self, rates: ConnectionRates) -> None:
        """Apply the limits of addresses to the connections of a server."""
        self._connection_rates.append(rates)
        rates.apply(self._of_addresses.items())

    # -- metadata ---------------------------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """Apply the limits of the first image."""
        self._apply(image.client_quotas.items())

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed limits."""
        changed = delta.client_quotas.changed
        if changed:
            self._apply(changed.items())

    def _apply(self, changes: Collection[Change]) -> None:
        self.clients.apply(changes)
        for entity, values in changes:
            if IP not in dict(entity):
                continue
            if values:
                self._of_addresses[entity] = values
            else:
                self._of_addresses.pop(entity, None)
        for rates in self._connection_rates:
            for name in rates.apply(changes):
                log.warning("the limit of connections of %s is ignored: it is no address", name)
        for use_quotas in self._listeners:
            use_quotas(None if self.clients.is_empty else self)

    # -- requests ---------------------------------------------------------------------------------

    def meters(self, peer: Peer) -> ClientMeters:
        """Return the meters of a connection, which keeps them."""
        kept = peer.meters
        if kept is None or kept.generation != self.clients.generation:
            user = peer.principal.partition(":")[2]
            kept = self.clients.meters(user, peer.client_id, self.now_ms())
            peer.keep_meters(kept)
        return kept

    def charge(
        self, key: int, peer: Peer, request_bytes: int, cost_ns: int, told_ms: int, *, silent: bool
    ) -> int:
        """Count a processed request; return how long its connection must be throttled.

        `told_ms` is the throttle time in the response, from the controller or from `fetched`.
        `silent` says that there is no response.
        """
        if peer.awaits_login:
            return told_ms
        meters = self.meters(peer)
        produce, request = meters.produce, meters.request
        if produce is None and request is None:
            return told_ms
        now_ms = self.now_ms()
        request_ms = 0
        is_exempt = silent or key == WRITE_TXN_MARKERS or (key == FETCH and peer.is_follower)
        if request is not None and not is_exempt:
            request.add(cost_ns * PERCENT_PER_NS, now_ms)
            if key != FETCH:  # `fetched` has checked it
                request_ms = request.check(now_ms)
        if produce is not None and key == PRODUCE:
            produce_ms = produce.record(request_bytes, now_ms)
            if produce_ms > request_ms:
                produce.throttled(produce_ms, now_ms)
                return produce_ms
        throttle_ms = max(request_ms, told_ms)
        if throttle_ms and request is not None and key != FETCH:
            request.throttled(throttle_ms, now_ms)
        return throttle_ms

    def fetched(self, meters: ClientMeters, response_bytes: int) -> int:
        """Count a response with records; return how long the client must be throttled.

        If it must be throttled, the caller does not send the response, and the bytes do not count.
        """
        now_ms = self.now_ms()
        fetch, request = meters.fetch, meters.request
        request_ms = 0 if request is None else request.check(now_ms)
        if fetch is None:
            fetch_ms = 0
        else:
            fetch_ms = fetch.record(response_bytes, now_ms)
            if max(fetch_ms, request_ms):
                fetch.add(-response_bytes, now_ms)
        throttle_ms = max(fetch_ms, request_ms)
        if throttle_ms:
            meter = fetch if fetch_ms > request_ms else request
            assert meter is not None
            meter.throttled(throttle_ms, now_ms)
        return throttle_ms

    def share_fetched(self, meters: ClientMeters, response_bytes: int) -> int:
        """Count a response with acquired records; return how long its client must be throttled.

        The caller sends the response.
        """
        fetch = meters.fetch
        if fetch is None:
            return 0
        now_ms = self.now_ms()
        throttle_ms = fetch.record(response_bytes, now_ms)
        if throttle_ms:
            fetch.throttled(throttle_ms, now_ms)
        return throttle_ms

    def mutation_quota(self, context: RequestContext) -> MutationQuota | None:
        """Return the quota of a request that creates or deletes partitions.

        Return None for other requests, and if there is no limit for the client.
        """
        strict_since = STRICT_SINCE.get(context.api_key)
        if strict_since is None or self.clients.is_empty:
            return None
        now_ms = self.now_ms()
        user = context.principal.partition(":")[2]
        meter = self.clients.mutation.meter(user, context.client_id, now_ms)
        if meter is None:
            return None
        return MutationQuota(meter, context.api_version >= strict_since, now_ms)
