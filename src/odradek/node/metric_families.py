"""What metrics consist of, and the parts of a node that they are read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.broker.broker import Broker
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.env.event_loop import NodeSelector
from odradek.handlers.dispatch import Dispatcher
from odradek.network.server import Server
from odradek.node.elections import Elections
from odradek.node.metadata import NodeMetadata
from odradek.node.replication import BrokerReplication


class BrokerSources(NamedTuple):
    """The parts of a broker."""

    broker: Broker
    replication: BrokerReplication


class ControllerSources(NamedTuple):
    """The parts of a controller."""

    controller: QuorumController
    elections: Elections


class MetricSources(NamedTuple):
    """The parts of a node that metrics are read from."""

    node_id: int
    metadata: NodeMetadata
    of_broker: BrokerSources | None
    """None on a node that is only a controller."""
    of_controller: ControllerSources | None
    """None on a node that is only a broker."""
    server: Server
    dispatcher: Dispatcher
    selector: NodeSelector | None
    quotas: QuotaManagers


class Sample(NamedTuple):
    """One number with its labels. `suffix` distinguishes the parts of a summary."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """A metric: its name, its type (`counter`, `gauge` or `summary`), its help text, its samples.

    The exposed name of a counter ends with `_total`.
    """

    name: str
    kind: str
    documentation: str
    samples: Iterable[Sample]


def one(value: float) -> list[Sample]:
    """Return the only sample of a metric without labels."""
    return [Sample({}, value)]
