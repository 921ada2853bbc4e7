"""The ids of ACLs by their contents, so that the controller finds an ACL without a scan.

Like `PartitionIndex`, it is built once, and each change of the metadata updates it.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import AccessControlEntry


class AclIds:
    """The ids of the ACLs of an image."""

    def __init__(self, acls: Mapping[bytes, AccessControlEntry]) -> None:
        """Begin with the ACLs of an image."""
        self._by_entry: dict[AccessControlEntry, dict[bytes, None]] = {}
        for entry_id, entry in acls.items():
            self._add(entry_id, entry)

    def of(self, entry: AccessControlEntry) -> list[bytes]:
        """Return the ids of an ACL. Only logs of other software have several ids for one ACL."""
        return list(self._by_entry.get(entry, ()))

    def update(self, delta: MetadataDelta) -> None:
        """Apply a change of the metadata."""
        for entry_id, entry in delta.acls.changed.items():
            before = delta.acls.before.get(entry_id)
            if before is not None:
                self._remove(entry_id, before)
            if entry is not None:
                self._add(entry_id, entry)

    def _add(self, entry_id: bytes, entry: AccessControlEntry) -> None:
        self._by_entry.setdefault(entry, {})[entry_id] = None

    def _remove(self, entry_id: bytes, entry: AccessControlEntry) -> None:
        ids = self._by_entry[entry]
        del ids[entry_id]
        if not ids:
            del self._by_entry[entry]
