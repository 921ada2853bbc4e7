"""The rates of new connections (Kafka's ConnectionQuotas, KIP-612).

There is a limit for the node, one for each listener, and one for each address. If the node or a
listener exceeds its limit, the listener accepts the connection later. A connection of an address
that exceeds its limit is refused. It is closed later, so that the client does not try again at
once, and it does not count for any limit. No connection is delayed for longer than a window.

If there are several listeners, the inter-broker listener is protected: its connections do not count
for the limit of the node.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.core.quota.limits import IP, Entity
from odradek.core.quota.meters import Windows
from odradek.core.quota.rate import Average, Rate

UNLIMITED: Final = 2**31 - 1
CONNECTION_RATE: Final = "connection_creation_rate"
UNUSED_MS: Final = 3_600_000
"""The rate of an address without connections for this time is dropped."""


def address_of(text: str) -> str | None:
    """Return an address in its usual notation; None if the text is no address.

    An IPv6 address that contains an IPv4 address is the latter, as in Java.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(address if mapped is None else mapped)


class _Listener:
    """The connections of one listener."""

    __slots__ = ("limit", "rate", "refused", "throttled")

    def __init__(self, windows: Windows) -> None:
        self.limit = UNLIMITED
        self.rate = Rate(windows.number, windows.window_ms)
        self.throttled = Average()
        """The times for which connections were delayed by a limit of the node or the listener."""
        self.refused = Average()
        """The times for which connections were delayed by a limit of their address."""

    def use_limit(self, limit: int) -> None:
        """Change the limit."""
        self.limit = limit


class _Address:
    """The connections of one address."""

    __slots__ = ("rate", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self.rate = Rate(windows.number, windows.window_ms)
        self.used_ms = 0

    def touch(self, now_ms: int) -> None:
        """Note a connection."""
        self.used_ms = now_ms


class ConnectionRates:
    """The rates of the connections of one server."""

    def __init__(self, windows: Windows, listeners: Iterable[str], protected: str = "") -> None:
        """`protected` is the name of the listener between brokers."""
        self._windows = windows
        self._limit = UNLIMITED
        self._rate = Rate(windows.number, windows.window_ms)
        self.listeners = {name: _Listener(windows) for name in listeners}
        self._protected = protected if len(self.listeners) > 1 else ""
        self._default_limit: int | None = None
        """The limit of addresses that have none of their own."""
        self._limits: dict[str, int] = {}
        """The limits of addresses."""
        self._addresses: dict[str, _Address] = {}
        self._swept_ms = 0

    def use_limits(self, limit: int, listeners: Mapping[str, int]) -> None:
        """Change the limits of the node, and those of listeners by name."""
        self._limit = limit
        for name, listener in self.listeners.items():
            listener.use_limit(listeners.get(name, UNLIMITED))

    def apply(self, changes: Iterable[tuple[Entity, Mapping[str, float] | None]]) -> list[str]:
        """Apply changed limits of addresses; return the names that are no addresses."""
        unknown = []
        for entity, values in changes:
            parts = dict(entity)
            if IP not in parts:
                continue
            name = parts[IP]
            value = None if values is None else values.get(CONNECTION_RATE)
            is_usable = value is not None and value > 0
            limit = int(min(value, UNLIMITED)) if is_usable and value is not None else None
            if name is None:
                self._default_limit = limit
                continue
            address = address_of(name)
            if address is None:
                unknown.append(name)
            elif limit is None:
                self._limits.pop(address, None)
            else:
                self._limits[address] = limit
        return unknown

    def record(self, listener: str, now_ms: int) -> int:
        """Count a connection; return for how long the listener must delay it."""
        throttle_ms = 0
        if listener != self._protected:
            throttle_ms = self._record(self._rate, self._limit, now_ms)
        own = self.listeners[listener]
        throttle_ms = max(throttle_ms, self._record(own.rate, own.limit, now_ms))
        if throttle_ms:
            own.throttled.add(throttle_ms, now_ms)
        return throttle_ms

    def record_address(self, listener: str, host: str, now_ms: int) -> int:
        """Count a connection for its address; return after how long it must be closed, or 0.

        A connection that must be closed counts no more, also not for `record`.
        """
        if not self._limits and self._default_limit is None:
            return 0
        self._sweep(now_ms)
        name = address_of(host) or host
        limit = self._limits.get(name, self._default_limit)
        if limit is None or limit == UNLIMITED:
            return 0
        address = self._addresses.get(name)
        if address is None:
            address = self._addresses[name] = _Address(self._windows)
        address.touch(now_ms)
        throttle_ms = self._record(address.rate, limit, now_ms)
        if throttle_ms:
            own = self.listeners[listener]
            own.refused.add(throttle_ms, now_ms)
            address.rate.add(-1, now_ms)
            own.rate.add(-1, now_ms)
            if listener != self._protected:
                self._rate.add(-1, now_ms)
        return throttle_ms

    def _record(self, rate: Rate, limit: int, now_ms: int) -> int:
        rate.add(1, now_ms)
        return min(rate.throttle_ms(limit, now_ms), self._windows.window_ms)

    def rate(self, now_ms: int) -> float:
        """Return the connections per second of all listeners that are not protected."""
        return self._rate.measure(now_ms)

    def _sweep(self, now_ms: int) -> None:
        """Drop the rates of addresses without connections."""
        if now_ms - self._swept_ms < UNUSED_MS:
            return
        self._swept_ms = now_ms
        for name, address in list(self._addresses.items()):
            if now_ms - address.used_ms >= UNUSED_MS:
                del self._addresses[name]
