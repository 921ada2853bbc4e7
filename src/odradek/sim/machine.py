"""A machine that runs a node. It starts and kills the node, and simulates power loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.config.broker_config import BrokerConfig
from odradek.config.load import load
from odradek.node.node import Node
from odradek.sim.executor import SimExecutor
from odradek.sim.loop import SimLoop, new_loop
from odradek.sim.lossy_file_system import LossyFileSystem
from odradek.sim.network import SimHost, SimNetwork
from odradek.sim.simulation import SimClock, Simulation

PORT = 9092
DATA = "/data"


class Machine:
    """A machine. At most one process runs on it."""

    def __init__(
        self,
        simulation: Simulation,
        network: SimNetwork,
        name: str,
        settings: Mapping[str, str],
        cluster_id: str | None = None,
    ) -> None:
        """`cluster_id` is the id with which the node formats its disk; by default a random one."""
        self.simulation = simulation
        self.network = network
        self.name = name
        self.disk = LossyFileSystem()
        self.starts = 0
        self.is_serving = False
        self.node: Node | None = None
        self._cluster_id = cluster_id
        self._config: BrokerConfig = load(
            None, {"listeners": f"PLAINTEXT://{name}:{PORT}", **settings}, DATA
        ).config
        self.node_id = self._config.node_id
        self._random = simulation.random(f"{name} faults")
        self._loop: SimLoop | None = None
        self._host: SimHost | None = None

    @property
    def is_running(self) -> bool:
        """Whether the machine has a process, which may still be starting."""
        return self._loop is not None

    # -- starting -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the node with the contents of the disk."""
        assert self._loop is None
        self.starts += 1
        self.simulation.note(self.name, f"start {self.starts}")
        loop = self._loop = new_loop(self.simulation, f"{self.name} process {self.starts}")
        purpose = f"{self.name} {self.starts}"
        clock = SimClock(self.simulation)
        draw = self.simulation.random(f"{purpose} torn writes")
        self.disk.attach(clock.now_ms, draw, self._note_change)
        self._host = self.network.host(self.name, loop, self.disk)
        executor = SimExecutor(loop, self.simulation.random(f"{purpose} threads"), self.disk, clock)
        self.node = Node(
            self._config,
            network=self._host,
            clock=clock,
            random_bytes=self.simulation.random(f"{purpose} random bytes").randbytes,
            file_system=self.disk,
            executor=executor,
            cluster_id=self._cluster_id,
        )
        loop.call_soon(self._begin, self.node)

    def _begin(self, node: Node) -> None:
        assert self._loop is not None
        start = self._loop.create_task(node.start())
        start.add_done_callback(lambda done: self._started(node, done))

    def _started(self, node: Node, done: Any) -> None:
        error = done.exception()
        if node is not self.node or self.disk.is_off:
            return
        if error is not None:
            self.simulation.failures.append(f"{self.name} does not start: {error!r}")
            self.simulation.note(self.name, f"start failed: {error!r}")
            return
        self.is_serving = True
        self.simulation.note(self.name, "serves")

    def _note_change(self, operation: str, path: str) -> None:
        self.simulation.note(self.name, f"{operation} {path}")

    # -- ends ---------------------------------------------------------------------------------

    def stop(self, then: Callable[[], None]) -> None:
        """Stop the node cleanly. Call `then` when the node has stopped."""
        assert self.node is not None
        assert self._loop is not None
        self.is_serving = False
        self.simulation.note(self.name, "stop")
        task = self._loop.create_task(self.node.stop())

        def stopped(done: Any) -> None:
            if done.exception() is not None:
                self.simulation.failures.append(f"{self.name} does not stop: {done.exception()!r}")
            self.simulation.after(0, end)

        def end() -> None:
            self._end(notify=True)
            then()

        task.add_done_callback(stopped)

    def kill(self) -> None:
        """Kill the process. The data that it has written survives."""
        self.simulation.note(self.name, "killed")
        self._end(notify=True)

    def lose_power(self) -> None:
        """Lose power. The process ends, and data without fsync may be lost or torn."""
        self.simulation.note(self.name, "lost power")
        self._end(notify=False)
        self.disk = self.disk.crash(self._random)

    def lose_power_after(self, changes: int) -> None:
        """Lose power during the disk change after `changes` further changes."""
        self.disk.lose_power_after(changes, self._fail_now)

    def _fail_now(self) -> None:
        """End the process during a call of the disk, without further effects."""
        assert self._loop is not None
        assert self._host is not None
        self._loop.stop()
        self._host.stop(notify=False)
        self.simulation.after(0, self.lose_power)

    def _end(self, notify: bool) -> None:
        loop, host = self._loop, self._host
        assert loop is not None
        assert host is not None
        root = self.disk.root
        self.disk.switch_off()
        loop.stop()
        host.stop(notify)
        loop.close()
        self._loop = self._host = self.node = None
        self.is_serving = False
        self.disk = LossyFileSystem(root)
