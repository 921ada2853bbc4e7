"""The settings of the raft client, and the check of the voters at the start."""

from __future__ import annotations

from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import host_and_port
from odradek.core.raft.machine import QuorumError
from odradek.core.raft.settings import RaftSettings
from odradek.core.raft.voters import Destination, Voter, VoterSet


def bootstrap_servers(config: BrokerConfig) -> tuple[Destination, ...]:
    """Return the addresses of other nodes that an observer asks for the leader."""
    found: list[Destination] = []
    for number, server in enumerate(config.quorum_bootstrap_servers):
        host, port = host_and_port("controller.quorum.bootstrap.servers", server, "host:port")
        if not config.is_own_controller(host, port):
            found.append(Destination(-2 - number, host, port))
    return tuple(found)


def check_voters(
    local: Voter, voters: VoterSet, *, is_alone: bool, has_servers: bool = False
) -> None:
    """Check that this node can be part of the quorum.

    `is_alone`: this node must be the only voter. `has_servers`: the configuration has addresses of
    other nodes, so that this node can find the leader.

    Raises:
        QuorumError: the message says what to do.
    """
    if not voters and not has_servers:
        raise QuorumError(
            "the metadata directory names no voters, so they come from the configuration: "
            "set controller.quorum.voters as it was when the directory was made"
        )
    is_replaced = list(voters.voters) == [local.key.id]
    if (is_alone or is_replaced) and not voters.contains(local.key):
        ids = ", ".join(map(str, sorted(voters.voters)))
        raise QuorumError(
            f"node {local.key.id} with this metadata directory is not among the voters "
            f"(nodes {ids}); was the directory copied from another node, or meta.properties lost?"
        )
    if is_alone and len(voters) > 1:
        raise QuorumError(
            f"the quorum has {len(voters)} voters, but this node has no controller listener: set "
            "controller.listener.names, and add this listener to listeners"
        )


def raft_settings(config: BrokerConfig) -> RaftSettings:
    """Return the settings of the machine."""
    return RaftSettings(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        auto_join=config.controller_quorum_auto_join_enable and config.is_controller,
    )
