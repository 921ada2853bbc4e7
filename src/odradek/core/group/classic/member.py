"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from odradek.wire.generated.describe_groups_response import DescribedGroupMember

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of the protocols that a member supports, in its order of preference."""

NO_ASSIGNMENT = b""


class ClassicMember:
    """One member. Its protocols and timeouts come from its latest JoinGroup."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = NO_ASSIGNMENT,
        *,
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.join_ticket: Any = None
        """The ticket of the JoinGroup that waits for a response, or None."""
        self.sync_ticket: Any = None
        """The ticket of the SyncGroup that waits for a response, or None."""
        self.is_new = is_new
        """Whether the first JoinGroup waits for a response (at most `NEW_MEMBER_TIMEOUT_MS`)."""

    @property
    def is_static(self) -> bool:
        """Whether the member has an instance id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether the member need not send heartbeats, because it waits for a response."""
        if self.is_new:
            return False
        return self.join_ticket is not None or self.sync_ticket is not None

    def set_join_ticket(self, ticket: Any) -> None:
        """Set the ticket of the JoinGroup that waits, or None.

        Only `ClassicGroup` may call this, because the group counts these tickets.
        """
        self.join_ticket = ticket

    def set_sync_ticket(self, ticket: Any) -> None:
        """Set the ticket of the SyncGroup that waits, or None."""
        self.sync_ticket = ticket

    def update(
        self, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Set the values of the latest JoinGroup."""
        self.protocols = protocols
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms

    def enter_generation(self) -> None:
        """The member has got the response to its JoinGroup, so it is no longer new."""
        self.is_new = False

    def assign(self, assignment: bytes) -> None:
        """Set the assignment that the leader has sent for the member."""
        self.assignment = assignment

    @property
    def protocol_names(self) -> list[str]:
        """The names of the supported protocols."""
        return [name for name, _ in self.protocols]

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol. The member must support the protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")

    def vote(self, candidates: Collection[str]) -> str:
        """Return the protocol that the member prefers among the candidates."""
        return next(name for name, _ in self.protocols if name in candidates)

    def describe(self, protocol: str | None) -> DescribedGroupMember:
        """Describe the member for DescribeGroups. If `protocol` is None, omit the metadata."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata(protocol),
            member_assignment=self.assignment,
        )
