"""Asks the controllers that a configuration names, as the node would ask them: who refuses it, and why.

The request is one that changes nothing: for a snapshot that no quorum has. Every controller checks the
cluster's id and the principal before it looks for the snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.operations.problems import Problem, Severity

if TYPE_CHECKING:
    from odradek.broker.raft.obstacles import Obstacles
    from odradek.config.broker_config import BrokerConfig
    from odradek.core.raft.voters import Destination

_ADVICE_OF_REFUSALS = "Until this is changed, no leader is elected, or the node does not find it."
_ADVICE_OF_SILENCE = (
    "Start the node there, or correct its address in the configuration, or let a firewall pass it."
)


def check(config: BrokerConfig) -> list[Problem]:
    """Return what keeps a node from its quorum. Nodes that do not run yet are worth a note only."""
    if config.is_alone:
        return []
    problems = list(_of_authorizer(config))
    obstacles = _ask(config)
    if obstacles is not None:
        broken, note = Severity.BROKEN, Severity.NOTE
        problems += [Problem(broken, text, _ADVICE_OF_REFUSALS) for text in obstacles.refusals]
        problems += [Problem(note, text, _ADVICE_OF_SILENCE) for text in obstacles.silences]
    return problems


def _of_authorizer(config: BrokerConfig) -> Iterator[Problem]:
    """Yield a problem if this node would refuse another one that logs in as it does itself.

    Without a leader no ACLs are known, so that allow.everyone.if.no.acl.found lets nobody in.
    """
    from odradek.broker.raft.obstacles import own_principal

    principal = own_principal(config)
    if not config.authorizer_class_name:
        return
    is_member = config.is_controller and len(config.quorum_voters) > 1
    if principal is None or principal in config.super_users or not is_member:
        return
    yield Problem(
        Severity.BROKEN,
        f"the controllers refuse each other's votes: nodes come as {principal}, and super.users is "
        f"{';'.join(sorted(config.super_users)) or 'not set'}",
        f"Add {principal} to super.users of all nodes: ACLs count only when there is a leader.",
    )


def _ask(config: BrokerConfig) -> Obstacles | None:
    from odradek.broker.raft.obstacles import Obstacles
    from odradek.cli.values import now_ms
    from odradek.env.file_system import OsFileSystem
    from odradek.env.randomness import system_random_bytes
    from odradek.node.format import FormatError, Formatter

    try:
        identity = Formatter(config, OsFileSystem(), system_random_bytes, now_ms()).read()
    except FormatError:
        return None
    destinations = _others(config)
    if identity is None or not destinations:
        return None
    obstacles = Obstacles(config, identity.cluster_id)
    asyncio.run(_ask_all(config, identity.cluster_id, destinations, obstacles))
    return obstacles


def _others(config: BrokerConfig) -> list[Destination]:
    from odradek.broker.raft.configuration import bootstrap_servers
    from odradek.core.raft.voters import Destination

    voters = [
        Destination(node_id, host, port)
        for node_id, (host, port) in config.quorum_voters.items()
        if node_id != config.node_id
    ]
    return voters or list(bootstrap_servers(config))


async def _ask_all(
    config: BrokerConfig, cluster_id: str, destinations: list[Destination], obstacles: Obstacles
) -> None:
    from odradek.broker.peers.network import peer_networks
    from odradek.broker.peers.tokens import PeerTokens
    from odradek.broker.raft.peers import Peers
    from odradek.core.raft.events import SendRequest
    from odradek.core.raft.log_view import OffsetAndEpoch
    from odradek.core.raft.messages import FetchSnapshotRequest
    from odradek.core.raft.voters import ReplicaKey
    from odradek.env.clock import SystemClock
    from odradek.env.executor import ThreadExecutor
    from odradek.env.network import SocketNetwork
    from odradek.env.randomness import system_random_bytes
    from odradek.model import uuids

    executor = ThreadExecutor(asyncio.get_running_loop())
    tokens = PeerTokens(executor, SystemClock(), system_random_bytes)
    _, network = peer_networks(SocketNetwork(), lambda: config, system_random_bytes, tokens)
    left = set(range(len(destinations)))
    done = asyncio.Event()

    def on_response(request_id: int, _: object) -> None:
        left.discard(request_id)
        if not left:
            done.set()

    peers = Peers(network, system_random_bytes, cluster_id, config, obstacles, on_response)
    nothing = FetchSnapshotRequest(
        epoch=0,
        replica=ReplicaKey(-1, uuids.ZERO),
        snapshot=OffsetAndEpoch(0, 0),
        position=0,
    )
    for number, destination in enumerate(destinations):
        peers.send(SendRequest(number, destination, nothing))
    await done.wait()
    peers.close()
    await executor.close()
