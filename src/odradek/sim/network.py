"""A simulated network, with machines by name, listeners, and connections with delays.

Sent bytes arrive in order, each piece after its own delay. `SimNetwork.arrival_ns` determines the
delays. A connection accepts no bytes while `CAPACITY_BYTES` bytes have not been received, as in TCP
flow control. When a process ends, its connections are reset. When a machine loses power, the other
ends are not notified. Bytes sent to this machine are lost. The new process of the machine resets
old connections when bytes arrive for them. `SimNetwork.cut` interrupts one direction between two
machines for some time.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from random import Random

from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.file_system import FileSystem
from odradek.env.network import (
    DEFAULT_OPTIONS,
    Address,
    Buffer,
    Callback,
    Listener,
    StreamOptions,
    Transport,
    WritableBuffer,
)
from odradek.sim.loop import SimLoop
from odradek.sim.simulation import Simulation

CAPACITY_BYTES = 128 * 1024
"""The maximum number of bytes in transit or not received, in one direction of a connection."""
_FIRST_FREE_PORT = 40_000
_DELAY_NS = (50_000, 1_500_000)
SYN_PAUSE_NS = 1_000_000_000
"""The time after which TCP repeats a connection request for the first time."""


class SimNetwork:
    """Connects the hosts of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.hosts: dict[str, SimHost] = {}
        self._addresses: dict[str, str] = {}
        self._random: Random = simulation.random("network")
        self._cut_until_ns: dict[tuple[str, str], int] = {}

    def host(self, name: str, loop: SimLoop, file_system: FileSystem | None = None) -> SimHost:
        """Return the network interface of a new process, which sends files from `file_system`."""
        host = SimHost(self, name, loop, file_system)
        self.hosts[name] = host
        return host

    def address_of(self, name: str) -> str:
        """Return the IP address of a machine. Nodes send the addresses of clients to each other."""
        return self._addresses.setdefault(name, f"10.0.0.{len(self._addresses) + 1}")

    def arrival_ns(self, source: str, target: str, after_ns: int) -> int:
        """Return the time when bytes sent now arrive. It is not before `after_ns`."""
        begin = max(self.simulation.now_ns, self._cut_end_ns(source, target))
        return max(begin + self._random.randint(*_DELAY_NS), after_ns)

    def cut(self, source: str, target: str, duration_ns: int) -> None:
        """Delay everything that `source` sends to `target` until the given time has passed.

        Bytes that are in transit arrive. The later bytes arrive after the cut, because TCP sends
        them again. Two cuts of the same direction end with the later one.
        """
        until_ns = self.simulation.now_ns + duration_ns
        self._cut_until_ns[source, target] = max(until_ns, self._cut_end_ns(source, target))

    def is_connected(self, one: str, other: str) -> bool:
        """Return whether neither direction between two machines is cut now."""
        now_ns = self.simulation.now_ns
        return max(self._cut_end_ns(one, other), self._cut_end_ns(other, one)) <= now_ns

    def _cut_end_ns(self, source: str, target: str) -> int:
        return self._cut_until_ns.get((source, target), 0)


class SimHost:
    """The `odradek.env.network.Network` of one process."""

    def __init__(
        self, network: SimNetwork, name: str, loop: SimLoop, file_system: FileSystem | None
    ) -> None:
        self.network = network
        self.name = name
        self.loop = loop
        self.file_system = file_system
        self.listeners: dict[int, SimListener] = {}
        self.transports: dict[SimTransport, None] = {}
        self.is_up = True
        self._port = _FIRST_FREE_PORT

    def free_port(self) -> int:
        """Return an unused port."""
        self._port += 1
        return self._port

    def own_host(self) -> str:
        """See `Network`."""
        return self.name

    def bind(self, host: str, port: int, options: StreamOptions = DEFAULT_OPTIONS) -> Listener:
        """See `Network`."""
        port = port or self.free_port()
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, "address in use")
        return SimListener(self, Address(host or self.name, port))

    async def connect(
        self, host: str, port: int, timeout_ms: int, options: StreamOptions = DEFAULT_OPTIONS
    ) -> Transport:
        """See `Network`."""
        async with asyncio.timeout(timeout_ms / 1000):
            answer = self.loop.create_future()
            there = self.network.arrival_ns(self.name, host, 0)
            self.network.simulation.at(there, lambda: self._arrive(Address(host, port), answer))
            transport: Transport = await answer
            return transport

    def _arrive(
        self, address: Address, answer: asyncio.Future[Transport], pause_ns: int = SYN_PAUSE_NS
    ) -> None:
        """Process a connection request that has arrived at its target.

        If the target is down, there is no response. Then TCP repeats the request, with pauses of 1,
        2, 4, ... seconds, until the client gives up.
        """
        target = self.network.hosts.get(address.host)
        if target is None or not target.is_up:
            if not answer.done() and not self.loop.is_stopped:
                again = self.network.simulation.now_ns + pause_ns
                self.network.simulation.at(
                    again, lambda: self._arrive(address, answer, 2 * pause_ns)
                )
            return
        back = self.network.arrival_ns(address.host, self.name, 0)
        listener = target.listeners.get(address.port)
        if listener is None or not listener.is_listening:
            refusal = ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
            self.network.simulation.at(back, lambda: self._answer(answer, refusal))
            return
        here = Address(self.network.address_of(self.name), self.free_port())
        there = Address(self.network.address_of(address.host), address.port)
        ours = SimTransport(self, here, there)
        theirs = SimTransport(target, there, here)
        ours.join(theirs)
        listener.add(theirs)
        self.network.simulation.at(back, lambda: self._answer(answer, ours))

    def _answer(self, answer: asyncio.Future[Transport], outcome: Transport | OSError) -> None:
        if answer.done() or self.loop.is_stopped:
            if isinstance(outcome, SimTransport):
                outcome.close()
        elif isinstance(outcome, OSError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    def stop(self, notify: bool) -> None:
        """End the process.

        With `notify`, the other ends of its connections are notified, as by the kernel of a running
        machine. After a power loss the other ends are not notified.
        """
        self.is_up = False
        self.listeners.clear()
        for transport in list(self.transports):
            transport.abort(notify)


class Readiness:
    """Calls a callback in every iteration of the event loop in which an object is ready."""

    def __init__(self, loop: SimLoop, is_ready: Callable[[], bool]) -> None:
        self._loop = loop
        self._is_ready = is_ready
        self._callback: Callback | None = None
        self._is_scheduled = False

    def watch(self, callback: Callback) -> None:
        """Start to call the callback."""
        self._callback = callback
        self.changed()

    def unwatch(self) -> None:
        """Stop calling the callback."""
        self._callback = None

    def changed(self) -> None:
        """Check again whether the object is ready."""
        if self._callback is not None and not self._is_scheduled and self._is_ready():
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if self._callback is not None and self._is_ready():
            self._callback()
            self.changed()


class SimListener:
    """A `Listener` on a simulated network."""

    def __init__(self, host: SimHost, address: Address) -> None:
        self.address = address
        self.is_listening = False
        self._host = host
        self._waiting: list[SimTransport] = []
        self._readiness = Readiness(host.loop, lambda: bool(self._waiting))
        host.listeners[address.port] = self

    def add(self, transport: SimTransport) -> None:
        """Add a connection that a client has opened."""
        self._waiting.append(transport)
        self._readiness.changed()

    def listen(self, backlog: int) -> None:
        """See `Listener`."""
        self.is_listening = True

    def accept(self) -> Transport:
        """See `Listener`."""
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.pop(0)

    def watch(self, callback: Callback) -> None:
        """See `Listener`."""
        self._readiness.watch(callback)

    def unwatch(self) -> None:
        """See `Listener`."""
        self._readiness.unwatch()

    def close(self) -> None:
        """See `Listener`."""
        self.unwatch()
        if self._host.listeners.get(self.address.port) is self:
            del self._host.listeners[self.address.port]
        for transport in self._waiting:
            transport.close()
        self._waiting.clear()


class SimTransport:
    """A `Transport` on a simulated network. It is one end of a connection."""

    other: SimTransport

    def __init__(self, host: SimHost, local: Address, peer: Address) -> None:
        self.local_address = local
        self.peer_address = peer
        self._host = host
        self._received = bytearray()
        self._coming = 0
        """The number of bytes in transit to this end."""
        self._last_arrival_ns = 0
        self._has_ended = False
        """Whether the other end has finished sending."""
        self._is_reset = False
        self._is_closed = False
        self._readable = Readiness(host.loop, self._can_receive)
        self._writable = Readiness(host.loop, self._can_send)
        host.transports[self] = None

    def join(self, other: SimTransport) -> None:
        """Connect both ends."""
        self.other = other
        other.other = self

    def _can_receive(self) -> bool:
        return bool(self._received) or self._has_ended or self._is_reset

    def _can_send(self) -> bool:
        return self._is_reset or self._room() > 0

    def _room(self) -> int:
        return CAPACITY_BYTES - len(self.other._received) - self.other._coming

    # -- receiving ----------------------------------------------------------------------------

    def recv_into(self, buffer: WritableBuffer, /) -> int:
        """See `Transport`."""
        self._check()
        received = self._received
        if not received:
            if self._has_ended:
                return 0
            raise BlockingIOError
        count = min(len(received), len(buffer))
        buffer[:count] = received[:count]
        del received[:count]
        self.other._writable.changed()
        return count

    def _deliver(self, data: bytes) -> None:
        """Process bytes that have arrived."""
        self._coming -= len(data)
        if self._is_closed:
            self.other._reset_later()
            return
        self._received += data
        self._readable.changed()

    def _end(self) -> None:
        self._has_ended = True
        self._readable.changed()

    def _reset(self) -> None:
        self._is_reset = True
        self._received.clear()
        self._readable.changed()
        self._writable.changed()

    def _arrive_later(self, event: Callable[[], None]) -> None:
        """Schedule an arrival at this end, after all earlier arrivals."""
        network = self._host.network
        source, target = self.other._host.name, self._host.name
        self._last_arrival_ns = network.arrival_ns(source, target, self._last_arrival_ns)
        network.simulation.at(self._last_arrival_ns, lambda: self._take(event))

    def _reset_later(self) -> None:
        """Schedule a reset of this end."""
        self._arrive_later(self._reset)

    def _take(self, event: Callable[[], None]) -> None:
        if self._host.is_up:
            event()
        elif event != self._reset and self._host.network.hosts[self._host.name].is_up:
            # A new process with the same address resets the connection of the earlier process. A
            # reset gets no answer.
            self.other._reset_later()

    # -- sending ------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "closed")
        if self._is_reset:
            raise ConnectionResetError(errno.ECONNRESET, "connection reset")

    def send(self, data: Buffer, /) -> int:
        """See `Transport`."""
        self._check()
        taken = bytes(data[: max(0, self._room())])
        if not taken:
            raise BlockingIOError
        other = self.other
        other._coming += len(taken)
        other._arrive_later(lambda: other._deliver(taken))
        return len(taken)

    def send_parts(self, parts: Sequence[Buffer], more: bool = False, /) -> int:
        """See `Transport`."""
        return self.send(b"".join(parts))

    def send_file(self, part: FileRange, more: bool = False, /) -> int:
        """See `Transport`."""
        assert not isinstance(part, BufferedRange)
        assert self._host.file_system is not None
        room = max(0, self._room())
        if not room:
            raise BlockingIOError
        length = min(part.length, room)
        data = self._host.file_system.pread(part.descriptor, length, part.position)
        return self.send(data) if data else 0

    # -- readiness ----------------------------------------------------------------------------

    def watch_readable(self, callback: Callback, /) -> None:
        """See `Transport`."""
        self._readable.watch(callback)

    def unwatch_readable(self) -> None:
        """See `Transport`."""
        self._readable.unwatch()

    def watch_writable(self, callback: Callback, /) -> None:
        """See `Transport`."""
        self._writable.watch(callback)

    def unwatch_writable(self) -> None:
        """See `Transport`."""
        self._writable.unwatch()

    # -- the end ------------------------------------------------------------------------------

    def prefer(self) -> None:
        """See `Transport`. In a simulation no connection is served after others."""

    def close(self) -> None:
        """See `Transport`."""
        if self._is_closed or not self._host.is_up:
            return
        self._is_closed = True
        self.unwatch_readable()
        self.unwatch_writable()
        self._host.transports.pop(self, None)
        self.other._arrive_later(self.other._end)

    def abort(self, notify: bool) -> None:
        """Close this end, because its process has ended. With `notify`, notify the other end."""
        self._is_closed = True
        self.unwatch_readable()
        self.unwatch_writable()
        if notify:
            self.other._reset_later()
