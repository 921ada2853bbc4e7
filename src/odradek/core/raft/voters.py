"""The voters of the quorum, and majorities of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: a node with one disk. Another disk is another replica."""

    id: int
    directory_id: bytes
    """`ZERO` if it is unknown, as in quorums of kraft.version 0."""


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
        """How many voters must agree."""
        return len(self._voters) // 2 + 1

    def contains(self, key: ReplicaKey) -> bool:
        """Whether the replica votes; a voter without a directory id is known by its node id."""
        voter = self._voters.get(key.id)
        return voter is not None and voter.key.directory_id in (bytes(16), key.directory_id)

    def is_only(self, key: ReplicaKey) -> bool:
        """Whether the replica is the only voter."""
        return len(self._voters) == 1 and self.contains(key)

    def with_voter(self, voter: Voter) -> VoterSet:
        """The set with one voter replaced or added."""
        return VoterSet({**self._voters, voter.key.id: voter}.values())

    def committed(self, flushed: Mapping[int, int]) -> int:
        """The offset up to which a majority has flushed its log; `flushed` by node id."""
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
