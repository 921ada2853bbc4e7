"""Kills a node repeatedly under load.

The node is killed with SIGKILL and started again with the same data and port. `fault_loop` describes
the load and the checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from compat.lab.odradek_node import OdradekNode
from tests.crash.fault_loop import FaultLoop


class KillLoop(FaultLoop):
    """One node, killed and started again."""

    node_settings: Mapping[str, str] = MappingProxyType({})

    def __init__(self, directory: Path, seed: int) -> None:
        self.node = OdradekNode(directory=directory, settings=self.node_settings)
        super().__init__(self.node, seed)

    def _disturb(self) -> None:
        self.node.kill()
        self._on_killed()
        self.node.start()
        self._on_started()

    def _on_killed(self) -> None:
        """Called after each kill, before the node is started again."""

    def _on_started(self) -> None:
        """Called after each start. The node serves requests and the producer continues."""
