"""Checks the nodes of a simulated cluster while they run.

A `Watch` looks at the state of all nodes every `INTERVAL_NS` of virtual time, and before each fault.
It never changes the state. So it finds what no client notices, and it finds it soon: the run stops
at the first violation.

- `metadata_watch` checks the quorum, the images of the metadata, and that dead brokers are fenced.
- `replica_watch` checks leaders, high watermarks, ISRs and committed records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from odradek.sim.machine import Machine
from odradek.sim.metadata_watch import FencingWatch, ImageWatch, QuorumWatch
from odradek.sim.network import SimNetwork
from odradek.sim.replica_watch import ReplicaWatch
from odradek.sim.seen_node import SeenNode, seen
from odradek.sim.simulation import Simulation
from odradek.sim.story import WATCH

INTERVAL_NS = 100_000_000


class Watch:
    """Looks at the nodes of a simulation, and reports violations as failures of the simulation."""

    def __init__(
        self,
        simulation: Simulation,
        network: SimNetwork,
        machines: Sequence[Machine],
        voters: Sequence[Machine],
        session_timeout_ms: int,
        changing: Collection[str] = (),
    ) -> None:
        """`voters` are the machines whose nodes are members of the metadata quorum. See `ReplicaWatch` for
        `changing`."""
        self._simulation = simulation
        self._network = network
        self._voters = voters
        self._machines = machines
        self._down_ns: dict[int, int] = {}
        """The brokers that are down, and when this was first seen."""
        self._quorum = QuorumWatch()
        self._images = ImageWatch()
        self._fencing = FencingWatch(session_timeout_ms)
        self._replicas = ReplicaWatch(changing)

    def start(self) -> None:
        """Look at the nodes from now on."""
        self._simulation.after(INTERVAL_NS, self._turn)

    def _turn(self) -> None:
        self.look()
        self.start()

    def look(self) -> None:
        """Look at the nodes now."""
        nodes = [each for each in map(seen, self._machines) if each is not None]
        for violation in self._violations(self._simulation.now_ns, nodes):
            self._simulation.note(WATCH, violation)
            self._simulation.fail(violation)

    def _violations(self, now_ns: int, nodes: Sequence[SeenNode]) -> Iterator[str]:
        for machine in self._machines:
            if machine.is_running:
                self._down_ns.pop(machine.node_id, None)
            else:
                self._down_ns.setdefault(machine.node_id, now_ns)
        yield from self._quorum.look(now_ns, nodes)
        yield from self._images.look(now_ns, nodes)
        deciding = [each for each in nodes if self._has_majority(each.name)]
        yield from self._fencing.look(now_ns, deciding, self._down_ns)
        yield from self._replicas.look(now_ns, nodes)

    def _has_majority(self, name: str) -> bool:
        """Return whether a node can exchange requests with a majority of the voters."""
        reached = sum(
            each.is_serving and self._network.is_connected(name, each.name) for each in self._voters
        )
        return reached > len(self._voters) // 2
