"""The contents of `meta.properties`, which says what node and cluster a log directory belongs to.

The rules are the rules of Kafka's MetaProperties and MetaPropertiesVersion. Version 0, which a file
without `version` has, names the node `broker.id`: directories of clusters that were migrated from
ZooKeeper have it for ever. Releases before 3.7 wrote no `directory.id` (KIP-858).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from odradek.config.properties import format_properties
from odradek.model import uuids

VERSION = 1
_NODE_ID = {0: "broker.id", 1: "node.id"}
"""The name of the node's id, by version."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The contents of one file."""

    version: int
    cluster_id: str
    node_id: int
    directory_id: bytes | None
    """None if a release before 3.7 wrote the file."""
    others: Mapping[str, str]
    """Names and values that Apache Kafka does not know."""

    def with_directory_id(self, directory_id: bytes) -> MetaProperties:
        """Return the same contents with an id of the directory."""
        return replace(self, directory_id=directory_id)

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        known = {
            "version": str(self.version),
            "cluster.id": self.cluster_id,
            _NODE_ID[self.version]: str(self.node_id),
        }
        if self.directory_id is not None:
            known["directory.id"] = uuids.to_text(self.directory_id)
        return format_properties({**known, **self.others})


def decode(content: Mapping[str, str]) -> MetaProperties:
    """Return the contents of a file, from its names and values.

    Raises:
        ValueError: the message says what is missing or wrong.
    """
    others = dict(content)
    version = _number(others.pop("version", "0"), "version")
    if version not in _NODE_ID:
        raise ValueError(f"version {version} is not known; a newer release has written it")
    name = _NODE_ID[version]
    node_id, cluster_id = others.pop(name, None), others.pop("cluster.id", None)
    for key, value in ((name, node_id), ("cluster.id", cluster_id)):
        if not value:
            raise ValueError(f"version {version} has no {key}; restore it from a backup")
    assert node_id is not None
    assert cluster_id is not None
    text = others.pop("directory.id", None)
    directory_id = None if text is None else _directory_id(text)
    return MetaProperties(version, cluster_id, _number(node_id, name), directory_id, others)


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is {text}, which is no number") from None


def _directory_id(text: str) -> bytes:
    try:
        return uuids.from_text(text)
    except ValueError:
        raise ValueError(
            f"directory.id is {text}, which is no id of a directory: remove the line, and the next "
            "start chooses an id"
        ) from None
