"""The voters of the quorum, their history in the log, and majorities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: a node and its log directory.

    A node that has a new disk is another replica."""

    id: int
    directory_id: bytes
    """`ZERO` if unknown. With kraft.version 0 directory ids are unknown."""


class VoterEndpoint(NamedTuple):
    """The address of a voter's controller listener."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """One voter as the Voters record describes it (KIP-853)."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...]
    kraft_version_min: int = 0
    kraft_version_max: int = 1


class Destination(NamedTuple):
    """Where requests are sent: a node and its address."""

    node_id: int
    """Negative for an address whose node is not known (controller.quorum.bootstrap.servers)."""
    host: str
    port: int


class VoterSet:
    """The voters by node id. Immutable."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters = {voter.key.id: voter for voter in voters}

    @property
    def voters(self) -> Mapping[int, Voter]:
        """By node id."""
        return self._voters

    @property
    def majority(self) -> int:
        """The number of voters that are a majority."""
        return len(self._voters) // 2 + 1

    def contains(self, key: ReplicaKey) -> bool:
        """Whether the replica is a voter. Only node ids count if the voter has no directory id."""
        voter = self._voters.get(key.id)
        return voter is not None and voter.key.directory_id in (bytes(16), key.directory_id)

    def is_only(self, key: ReplicaKey) -> bool:
        """Whether the replica is the only voter."""
        return len(self._voters) == 1 and self.contains(key)

    def destination(self, node_id: int) -> Destination | None:
        """The address of the voter: its first endpoint. None if either does not exist."""
        voter = self._voters.get(node_id)
        if voter is None or not voter.endpoints:
            return None
        endpoint = voter.endpoints[0]
        return Destination(node_id, endpoint.host, endpoint.port)

    def without_voter(self, node_id: int) -> VoterSet:
        """Return the set without the voter."""
        return VoterSet(each for key, each in self._voters.items() if key != node_id)

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return the set with the voter replaced or added."""
        return VoterSet({**self._voters, voter.key.id: voter}.values())

    def committed(self, flushed: Mapping[int, int]) -> int:
        """The offset up to which a majority has flushed its log; `flushed` by node id."""
        assert self._voters, "a quorum has voters"
        offsets = sorted((flushed.get(voter_id, -1) for voter_id in self._voters), reverse=True)
        return offsets[self.majority - 1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and other._voters == self._voters

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._voters)))

    def __len__(self) -> int:
        return len(self._voters)

    def __repr__(self) -> str:
        return f"VoterSet({list(self._voters.values())})"


class VoterHistory:
    """The voter sets of a log by the offsets of their records (Kafka's VoterSetHistory).

    A voter set takes effect when its record is appended, before the record is committed. If the
    record is truncated, the previous set takes effect again.
    """

    __slots__ = ("_first", "_later")

    def __init__(self, first: VoterSet) -> None:
        """`first` are the voters before the first record: of the snapshot, or configured."""
        self._first = first
        self._later: list[tuple[int, VoterSet]] = []

    @property
    def latest(self) -> VoterSet:
        """The voters at the end of the log."""
        return self._later[-1][1] if self._later else self._first

    @property
    def latest_offset(self) -> int:
        """The offset of the newest record; -1 if the voters are not from a record of the log."""
        return self._later[-1][0] if self._later else -1

    def at(self, end_offset: int) -> VoterSet:
        """The voters of the log up to `end_offset`, exclusive."""
        found = [voters for offset, voters in self._later if offset < end_offset]
        return found[-1] if found else self._first

    def add(self, offset: int, voters: VoterSet) -> None:
        """Add the voters of a record at the end of the log."""
        assert offset > self.latest_offset, "records are appended in order"
        self._later.append((offset, voters))

    def restart(self, first: VoterSet) -> None:
        """Start again with these voters, because a snapshot has replaced the log."""
        self._first = first
        self._later.clear()

    def truncate_to(self, end_offset: int) -> None:
        """Forget the records at `end_offset` and after it."""
        assert end_offset >= 0, "an offset in the log"
        self._later = [each for each in self._later if each[0] < end_offset]

    def start_at(self, start_offset: int) -> None:
        """Forget the records before `start_offset` except the newest, which a snapshot contains."""
        self._first = self.at(start_offset)
        self._later = [each for each in self._later if each[0] >= start_offset]
