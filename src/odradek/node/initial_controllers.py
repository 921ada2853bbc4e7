"""Parses the first voters of a quorum, `id@host:port:directory, ...` (Kafka's DynamicVoters).

Every node of the cluster is formatted with the same list. The directory ids are chosen before the
nodes are formatted, and each voter is formatted with its own.
"""

from __future__ import annotations

import re

from odradek.core.metadata.versions import KRAFT_VERSION, SUPPORTED_FEATURES
from odradek.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from odradek.model import uuids

_VOTER = re.compile(r"(\d{1,10})@(\[[^\]]+\]|[^\[\]:@]+):(\d{1,5}):(.+)", re.ASCII)


def parse_initial_controllers(text: str, listener_name: str) -> VoterSet:
    """Return the voters. `listener_name` is the name of their controller listener.

    Raises:
        ValueError: the message says what is wrong.
    """
    voters: dict[int, Voter] = {}
    for entry in (each.strip() for each in text.split(",")):
        if not entry:
            continue
        found = _VOTER.fullmatch(entry)
        if found is None or int(found[3]) > 65535 or int(found[1]) > 2**31 - 1:
            raise ValueError(f"{entry!r} does not have the form id@host:port:directory")
        node_id, host, port = int(found[1]), found[2].strip("[]"), int(found[3])
        if node_id in voters:
            raise ValueError(f"node {node_id} is listed twice")
        low, high = SUPPORTED_FEATURES[KRAFT_VERSION]
        key = ReplicaKey(node_id, _directory_id(found[4]))
        voters[node_id] = Voter(key, (VoterEndpoint(listener_name, host, port),), low, high)
    if not voters:
        raise ValueError("no controllers are listed")
    return VoterSet(voters[node_id] for node_id in sorted(voters))


def _directory_id(text: str) -> bytes:
    try:
        directory_id = uuids.from_text(text)
    except ValueError:
        directory_id = uuids.ZERO
    if uuids.is_reserved(directory_id):
        raise ValueError(
            f"{text!r} is not a directory id: a directory id has 22 characters of URL-safe base64, "
            "and the first 100 ids are reserved"
        )
    return directory_id
