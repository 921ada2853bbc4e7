"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from odradek.wire.generated.describe_groups_response import DescribedGroupMember

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of the protocols that a member can speak, the one it likes best first."""

NO_ASSIGNMENT = b""


class ClassicMember:
    """One member. `protocols` and timeouts are those of its latest JoinGroup."""

    __slots__ = (
        "assignment", "client_host", "client_id", "group_instance_id", "is_new", "join_ticket",
        "member_id", "protocol_type", "protocols", "rebalance_timeout_ms", "session_timeout_ms",
        "sync_ticket",
    )  # fmt: skip

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
        """Its unanswered JoinGroup; set by the group only, which counts them."""
        self.sync_ticket: Any = None
        """Its unanswered SyncGroup."""
        self.is_new = False
        """It waits in its first JoinGroup: it is dropped if that takes too long."""

    @property
    def is_static(self) -> bool:
        """Whether the member comes back under its instance id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether it need not send heartbeats now: it waits for us."""
        if self.is_new:
            return False
        return self.join_ticket is not None or self.sync_ticket is not None

    @property
    def protocol_names(self) -> list[str]:
        """What it can speak."""
        return [name for name, _ in self.protocols]

    def metadata(self, protocol: str | None) -> bytes:
        """What it says under a protocol, which must be one of its own."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} does not speak {protocol}")

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that it likes best."""
        return next(name for name, _ in self.protocols if name in candidates)

    def describe(self, protocol: str | None) -> DescribedGroupMember:
        """As DescribeGroups shows it; metadata only for a given protocol."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata(protocol),
            member_assignment=self.assignment,
        )
