"""A node as the checks of a running simulation see it."""

from __future__ import annotations

from typing import NamedTuple

from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.raft.client import RaftClient
from odradek.core.metadata.image import MetadataImage
from odradek.sim.lossy_file_system import LossyFileSystem
from odradek.sim.machine import Machine


class SeenNode(NamedTuple):
    """A node that serves. The checks read its state and never change it."""

    name: str
    node_id: int
    incarnation: int
    """The number of starts of its machine so far."""
    raft: RaftClient
    image: MetadataImage
    """The newest metadata that the node's broker has. It contains only committed records."""
    controller: QuorumController | None
    """None on a node that is only a broker."""
    replicas: ReplicaManager
    disk: LossyFileSystem


def seen(machine: Machine) -> SeenNode | None:
    """Return the node of a machine; None if the machine has no node that serves."""
    node = machine.node
    if node is None or not machine.is_serving:
        return None
    sources = node.metric_sources()
    if sources.metadata.raft.failure is not None:
        return None
    controller = sources.of_controller
    return SeenNode(
        machine.name,
        machine.node_id,
        machine.starts,
        sources.metadata.raft,
        node.broker.metadata.image,
        None if controller is None else controller.controller,
        node.broker.replicas,
        machine.disk,
    )
