"""What a connection may do, kept for the fast paths of Produce, Fetch and OffsetCommit.

Only allowed operations are kept: a denied one is checked and logged each time. The verdicts are
dropped when the ACLs or the principal of the connection change.
"""

from __future__ import annotations

from odradek.model.acl import AclOperation, AclResourceType

NAMES_MAX = 10_000
"""Maximum number of names that a connection keeps for an operation. After that they are dropped."""


class Verdicts:
    """The names of resources that a principal may write or read."""

    __slots__ = ("_names", "generation", "principal")

    def __init__(self, principal: str, generation: int) -> None:
        """`generation` is `StandardAuthorizer.generation`."""
        self.principal = principal
        self.generation = generation
        self._names: dict[tuple[AclOperation, AclResourceType], set[str | bytes]] = {}

    def names(self, operation: AclOperation, resource_type: AclResourceType) -> set[str | bytes]:
        """Return the names for which the operation is known to be allowed.

        The caller adds further names to the set.

        If a request identifies a topic by its id, the set contains the topic id instead of the
        name.
        """
        key = operation, resource_type
        names = self._names.get(key)
        if names is None or len(names) >= NAMES_MAX:
            names = self._names[key] = set()
        return names
