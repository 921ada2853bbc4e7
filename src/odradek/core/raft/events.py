"""The events that the quorum machine processes, and the effects that it returns.

Effects are performed in the order of their list. `PersistElection` is started in this order, but it
includes a flush to disk, and the effects after it do not wait for the flush. An effect that must
wait until the state is durable is returned when the machine processes `ElectionPersisted`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odradek.core.raft.election import ElectionState
from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.messages import Request, Response
from odradek.core.raft.voters import Destination, VoterSet


@dataclass(slots=True)
class ElectionPersisted:
    """The state of a `PersistElection` is durable. States are written in order."""

    election: ElectionState


@dataclass(slots=True)
class RequestReceived:
    """Another node has sent a request. `Respond` has the same `token`."""

    token: Any
    request: Request


@dataclass(slots=True)
class ResponseReceived:
    """The response to a `SendRequest`; None if there will be no response."""

    request_id: int
    response: Response | None


@dataclass(slots=True)
class SnapshotWritten:
    """The part of a `WriteSnapshot` is written. If it was the last part, the snapshot has replaced
    the log. `is_usable` is false if the snapshot was damaged and has been dropped."""

    snapshot: OffsetAndEpoch
    is_usable: bool = True


@dataclass(slots=True)
class AppendRefused:
    """The records of an `AppendRecords` are damaged, or do not continue the log."""

    epoch: int


@dataclass(slots=True)
class UpgradeVersion:
    """Raise kraft.version to 1. The machine has no `upgrade_problem`."""


@dataclass(slots=True)
class Resign:
    """The node is going to stop, or its disk failed: resign, and never become the leader again."""


Event = (
    ElectionPersisted
    | RequestReceived
    | ResponseReceived
    | SnapshotWritten
    | AppendRefused
    | UpgradeVersion
    | Resign
)


@dataclass(slots=True)
class PersistElection:
    """Write the state to disk durably; then report `ElectionPersisted`."""

    election: ElectionState


@dataclass(slots=True)
class SendRequest:
    """Send a request; then report `ResponseReceived`. A late response is ignored."""

    request_id: int
    destination: Destination
    request: Request


@dataclass(slots=True)
class Respond:
    """Send the response to the request of `RequestReceived`.

    The records of a `FetchResponse` and the data of a `FetchSnapshotResponse` are read now, before
    any later effect.
    """

    token: Any
    response: Response


@dataclass(slots=True)
class BecomeLeader:
    """Lead `epoch`: append its LeaderChange record before any other record, at `start_offset`.

    `granting` are the ids of the voters that elected this node.
    """

    epoch: int
    start_offset: int
    granting: tuple[int, ...]


@dataclass(slots=True)
class StopLeading:
    """This node is no longer the leader; records that are not committed may be lost."""

    epoch: int


@dataclass(slots=True)
class FollowLeader:
    """The leader of the epoch is another node, or is not known (-1)."""

    epoch: int
    leader_id: int


@dataclass(slots=True)
class AppendRecords:
    """Append the batches from the leader of `epoch`, and start to flush them."""

    records: Any
    epoch: int


@dataclass(slots=True)
class AppendVoters:
    """As leader of `epoch`, append a record with these voters.

    `is_upgrade`: append a record of kraft.version 1 before it, in the same batch.
    """

    epoch: int
    voters: VoterSet
    is_upgrade: bool = False


@dataclass(slots=True)
class Truncate:
    """Remove all records at `offset` and after it; none of them is committed."""

    offset: int


@dataclass(slots=True)
class WriteSnapshot:
    """Write a part of a snapshot from the leader; then report `SnapshotWritten`.

    A part at position 0 begins the snapshot. If the part is the last one, the snapshot replaces the
    log.
    """

    snapshot: OffsetAndEpoch
    position: int
    data: Any
    is_last: bool


@dataclass(slots=True)
class CommitUpTo:
    """The log is committed up to `offset`, exclusive; it never decreases."""

    offset: int


Effect = (
    PersistElection
    | SendRequest
    | Respond
    | BecomeLeader
    | StopLeading
    | FollowLeader
    | AppendRecords
    | AppendVoters
    | Truncate
    | WriteSnapshot
    | CommitUpTo
)
