"""What keeps a node from its quorum, in sentences for people.

`Obstacles` has the latest problem with each other node: it cannot be reached, or it refuses this node.
`QuorumWatch` logs them if the quorum has no leader for some seconds, and again rarely: the machine
only repeats its requests, for ever, and a quorum that never forms would do so in silence.
`Refusals` logs which nodes this one refuses, and which setting lets them in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch
from odradek.broker.raft.snapshots import SnapshotId
from odradek.config.broker_config import BrokerConfig
from odradek.config.sasl import PLAIN, SCRAM_MECHANISMS
from odradek.core.raft.voters import Destination
from odradek.model.errors import ErrorCode
from odradek.model.principal import ANONYMOUS
from odradek.telemetry.log_lines import printable
from odradek.telemetry.reminders import REPEAT_SECONDS, REPEAT_SECONDS_MAX, Reminders
from odradek.wire.primitives import Message

log = logging.getLogger("odradek.metadata")

SILENCE_SECONDS = 6.0
"""How long a quorum may have no leader before the obstacles are logged."""


def own_principal(config: BrokerConfig) -> str | None:
    """Return the principal that controllers see of this node; None if only they can tell."""
    peers = config.controller_peers
    if peers is None or (peers.mechanism is None and (peers.tls is None or peers.tls.key is None)):
        return ANONYMOUS
    if peers.mechanism in (PLAIN, *SCRAM_MECHANISMS) and not peers.is_token:
        return f"User:{peers.user}"
    return None


class Obstacles:
    """The latest problem of this node with each node of the quorum that it has asked."""

    def __init__(self, config: BrokerConfig, cluster_id: str) -> None:
        self._principal = own_principal(config)
        self._cluster_id = cluster_id
        self._found: dict[Destination, str] = {}
        """The problem with each node that was asked; empty if it answers."""
        self._silent: set[Destination] = set()
        """The nodes that did not respond to the last request."""

    def unreachable(self, destination: Destination, reason: str) -> None:
        """Note that a request got no response."""
        self._silent.add(destination)
        self._found[destination] = f"{_named(destination)} cannot be asked: {reason}"

    def answered(self, destination: Destination, response: Message) -> None:
        """Note a response, which may be a refusal."""
        self._silent.discard(destination)
        code = _error_of(response)
        said = self._refusal(code)
        self._found[destination] = "" if said is None else f"{_named(destination)} {said}"

    def _refusal(self, code: int) -> str | None:
        if code in _UNAUTHORIZED:
            whom = self._principal or "the principal that its log names"
            return (
                f"refuses this node's votes and fetches, which come from {whom}: add it to super.users "
                f"of all controllers, and start them again ({ErrorCode(code).name})"  # type: ignore[call-arg]
            )
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                f"belongs to another cluster, not to {self._cluster_id} as this node: compare "
                "cluster.id in the two meta.properties"
            )
        if code in _OF_VOTERS:
            return (
                f"knows other voters than this node ({ErrorCode(code).name}): compare "  # type: ignore[call-arg]
                "controller.quorum.voters, node.id and directory.id of the nodes"
            )
        if code in _REFUSALS:
            return f"refuses this node's requests: {ErrorCode(code).name}"  # type: ignore[call-arg]
        return None

    def sentences(self) -> list[str]:
        """Return a clause for each node that was asked."""
        return [
            problem or f"{_named(destination)} answers"
            for destination, problem in sorted(self._found.items())
        ]

    @property
    def problems(self) -> list[str]:
        """The problems, without the nodes that answer."""
        return [*self.refusals, *self.silences]

    @property
    def refusals(self) -> list[str]:
        """The problems with nodes that respond."""
        found = sorted(self._found.items())
        return [problem for each, problem in found if problem and each not in self._silent]

    @property
    def silences(self) -> list[str]:
        """The problems with nodes that do not respond."""
        return [self._found[each] for each in sorted(self._silent)]


_UNAUTHORIZED = frozenset((ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR))
"""UNKNOWN_SERVER_ERROR is the answer of a controller that has not loaded its ACLs, which it cannot do
before there is a leader. Until then only super users may ask."""
_OF_VOTERS = frozenset(
    (
        ErrorCode.INVALID_VOTER_KEY,
        ErrorCode.INCONSISTENT_VOTER_SET,
        ErrorCode.VOTER_NOT_FOUND,
    )
)
_REFUSALS = frozenset(
    (
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)
"""Errors that are no part of elections."""


def _error_of(response: Message) -> int:
    """Return the error of a response, or of the one partition in it."""
    code = int(getattr(response, "error_code", 0))
    topics = getattr(response, "topics", None) or getattr(response, "responses", None) or ()
    for topic in topics:
        for partition in topic.partitions:
            code = code or int(partition.error_code)
    return code


def _named(destination: Destination) -> str:
    host = f"[{destination.host}]" if ":" in destination.host else destination.host
    who = f"node {destination.node_id}" if destination.node_id >= 0 else "the controller"
    return f"{who} at {host}:{destination.port}"


class QuorumWatch:
    """A `RaftListener` that logs why the quorum has no leader. Use it only on the event loop's thread."""

    def __init__(self, obstacles: Obstacles, is_settled: Callable[[], bool]) -> None:
        """`is_settled` returns whether the node has a leader, and has read what it has committed."""
        self._obstacles = obstacles
        self._is_settled = is_settled
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._pause = REPEAT_SECONDS
        self._is_said = False
        self._is_closed = False

    def start(self) -> None:
        """Begin to watch."""
        if self._timer is None and not self._is_closed:
            self._timer = self._loop.call_later(SILENCE_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._is_settled():
            self._settled()
            return
        if not self._obstacles.problems:
            self.start()  # an election is going on, or the metadata is being read
            return
        log.warning(
            "this node has no leader of the metadata quorum yet, and cannot work without: %s",
            "; ".join(self._obstacles.sentences()),
        )
        self._is_said = True
        self._timer = self._loop.call_later(self._pause, self._look)
        self._pause = min(2 * self._pause, REPEAT_SECONDS_MAX)

    def _settled(self) -> None:
        if self._is_said:
            log.info("this node has a leader of the metadata quorum")
        self._is_said, self._pause = False, REPEAT_SECONDS

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """See `RaftListener`."""
        if not leader.is_known:
            self.start()
        elif self._is_said and self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(SILENCE_SECONDS, self._look)

    def handle_commit(self, batches: Iterable[CommittedBatch]) -> None:
        """See `RaftListener`."""

    def handle_load_snapshot(self, snapshot_id: SnapshotId, records: Iterable[Message]) -> None:
        """See `RaftListener`."""

    def close(self) -> None:
        """Stop watching."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Refusals:
    """Logs which nodes a controller refuses, although they ask as nodes do."""

    def __init__(self) -> None:
        self._reminders = Reminders(lambda: asyncio.get_running_loop().time())

    def unauthorized(self, api: str, client_id: str | None, host: str, principal: str) -> None:
        """Note a request of another node whose principal may not do CLUSTER_ACTION."""
        if self._reminders.is_due((principal, host)):
            log.warning(
                "this controller refuses %s of %s at %s, because its principal %s is no super user and "
                "no ACL allows CLUSTER_ACTION: if it is a node of this cluster, add %s to super.users "
                "of all nodes, and start them again",
                api,
                printable(client_id or "a node"),
                host,
                printable(principal),
                printable(principal),
            )

    def of_another_cluster(self, api: str, cluster_id: str, own_id: str) -> None:
        """Note a request for another cluster."""
        if self._reminders.is_due(cluster_id):
            log.warning(
                "this controller refuses %s of a node of the cluster %s, because it belongs to %s: "
                "compare cluster.id in meta.properties, and the addresses of the controllers",
                api,
                printable(cluster_id),
                own_id,
            )
