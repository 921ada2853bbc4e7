"""The file `quorum-state`: one line of JSON, replaced in one step before a vote counts.

With kraft.version 0 the file has `data_version` 0 and contains the voters. With kraft.version 1 it
has `data_version` 1 and contains the directory id of the replica that got the vote. Both formats
are read.
"""

from __future__ import annotations

import json
from typing import Any

from odradek.broker.raft.control import KRAFT_VERSION_STATIC
from odradek.core.raft.election import ElectionState
from odradek.core.raft.voters import ReplicaKey, VoterSet
from odradek.env.file_system import FileSystem, read_file, replace_file
from odradek.log.errors import DamagedFile
from odradek.model import uuids

QUORUM_STATE = "quorum-state"
NOT_VOTED = -1


def read_election(file_system: FileSystem, path: str) -> ElectionState:
    """Return the state in the file; epoch 0 if there is no file.

    Raises:
        DamagedFile: the file is not valid.
        OSError: the device failed.
    """
    try:
        content = json.loads(read_file(file_system, path))
        version = content["data_version"]
        if version not in (0, 1):
            raise DamagedFile(f"{path} has data_version {version}; 0 and 1 are known")
        return _election(content)
    except FileNotFoundError:
        return ElectionState()
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} cannot be read: {error!r}") from error


def _election(content: dict[str, Any]) -> ElectionState:
    voted = None
    if content["votedId"] != NOT_VOTED:
        directory = content.get("votedDirectoryId")
        directory_id = uuids.from_text(directory) if directory else uuids.ZERO
        voted = ReplicaKey(int(content["votedId"]), directory_id)
    return ElectionState(int(content["leaderEpoch"]), int(content["leaderId"]), voted)


def write_election(
    file_system: FileSystem,
    path: str,
    election: ElectionState,
    kraft_version: int,
    voters: VoterSet,
) -> None:
    """Replace the file. The new file survives a crash when this function returns.

    Raises:
        OSError: the device failed; the old file is still there.
    """
    voted_id = election.voted.id if election.voted is not None else NOT_VOTED
    content: dict[str, Any] = {
        "leaderId": election.leader_id,
        "leaderEpoch": election.epoch,
        "votedId": voted_id,
    }
    if kraft_version == KRAFT_VERSION_STATIC:
        content = {"clusterId": "", **content, "appliedOffset": 0}
        content["currentVoters"] = [{"voterId": voter_id} for voter_id in voters.voters]
        content["data_version"] = 0
    else:
        directory_id = election.voted.directory_id if election.voted is not None else uuids.ZERO
        content["votedDirectoryId"] = uuids.to_text(directory_id)
        content["data_version"] = 1
    replace_file(file_system, path, json.dumps(content, separators=(",", ":")).encode())
