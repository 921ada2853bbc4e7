"""Control records of the metadata log: leader changes, kraft.version, voters."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.raft.log_view import DYNAMIC_VERSION, STATIC_VERSION
from odradek.core.raft.voters import (
    ReplicaKey,
    Voter,
    VoterEndpoint,
    VoterHistory,
    VoterSet,
)
from odradek.records.batch import RecordBatch
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import ControlType, control_key, control_type
from odradek.records.record import iterate_records
from odradek.wire.generated import voters_record as wire
from odradek.wire.generated.kraft_version_record import KRaftVersionRecord
from odradek.wire.generated.leader_change_message import LeaderChangeMessage
from odradek.wire.generated.leader_change_message import Voter as LeaderVoter
from odradek.wire.generated.snapshot_footer_record import SnapshotFooterRecord
from odradek.wire.generated.snapshot_header_record import SnapshotHeaderRecord
from odradek.wire.primitives import Message

KRAFT_VERSION_STATIC = STATIC_VERSION
"""The voters are those of controller.quorum.voters."""
KRAFT_VERSION_DYNAMIC = DYNAMIC_VERSION
"""The voters are in the log (KIP-853)."""

ControlMessage = tuple[ControlType, Message]

_CLASSES: dict[ControlType, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: wire.VotersRecord,
}


def control_batch_of(
    messages: Iterable[ControlMessage], base_offset: int, epoch: int, now_ms: int
) -> bytearray:
    """Encode one batch of control records. All have version 0, the only one that Kafka reads."""
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=epoch, is_control=True)
    for kind, message in messages:
        builder.append(now_ms, control_key(kind), message.encode(0))
    return builder.build()


def control_messages(batch: RecordBatch) -> list[ControlMessage]:
    """Return the control records of a batch, without those of unknown types.

    Raises:
        InvalidRecords: the batch cannot be read.
        MalformedMessage: a record does not match the type in its key.
    """
    found: list[ControlMessage] = []
    for record in iterate_records(batch):
        kind = control_type(record)
        cls = _CLASSES.get(kind)
        if cls is not None:
            found.append((kind, cls.decode(record.value or b"", 0)))
    return found


def leader_change(leader_id: int, voters: VoterSet, granting: Iterable[int]) -> ControlMessage:
    """The record that begins an epoch."""
    message = LeaderChangeMessage(
        leader_id=leader_id,
        voters=[LeaderVoter(voter_id=voter_id) for voter_id in voters.voters],
        granting_voters=[LeaderVoter(voter_id=voter_id) for voter_id in granting],
    )
    return ControlType.LEADER_CHANGE, message


def voters_messages(voters: VoterSet) -> list[ControlMessage]:
    """Return the records for kraft.version 1 and the voters."""
    entries = [
        wire.Voter(
            voter_id=voter.key.id,
            voter_directory_id=voter.key.directory_id,
            endpoints=[wire.Endpoint(**each._asdict()) for each in voter.endpoints],
            kraft_version_feature=wire.KRaftVersionFeature(
                min_supported_version=voter.kraft_version_min,
                max_supported_version=voter.kraft_version_max,
            ),
        )
        for voter in voters.voters.values()
    ]
    return [
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=KRAFT_VERSION_DYNAMIC)),
        (ControlType.KRAFT_VOTERS, wire.VotersRecord(voters=entries)),
    ]


class QuorumSettings:
    """kraft.version and the voters, from the control records of the log.

    The newest records count, committed or not. `replay` is called after each append and
    `truncate_to` after each truncation, so that the settings are always those of the log.
    """

    __slots__ = ("_versions", "history")

    def __init__(self, static_voters: VoterSet) -> None:
        self._versions = [(-1, KRAFT_VERSION_STATIC)]
        """The levels of kraft.version, with the offsets of their records."""
        self.history = VoterHistory(static_voters)
        """The voters; those of the configuration until the log contains a voters record."""

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version."""
        return self._versions[-1][1]

    @property
    def voters(self) -> VoterSet:
        """The voters."""
        return self.history.latest

    @property
    def voters_offset(self) -> int:
        """The offset of the voters record; -1: in a snapshot, or there is none."""
        return self.history.latest_offset

    def replay(self, kind: ControlType, message: Message, offset: int) -> None:
        """Apply a control record; `offset` is -1 for those of a snapshot."""
        if isinstance(message, KRaftVersionRecord):
            assert kind is ControlType.KRAFT_VERSION
            if offset < 0:
                self._versions.clear()
            self._versions.append((offset, message.kraft_version))
        elif isinstance(message, wire.VotersRecord):
            if offset < 0:
                self.history.restart(_voter_set(message))
            else:
                self.history.add(offset, _voter_set(message))

    def truncate_to(self, end_offset: int) -> None:
        """The records of the log at `end_offset` and after it are removed."""
        self._versions = [each for each in self._versions if each[0] < end_offset]
        self.history.truncate_to(end_offset)

    def messages(self, end_offset: int | None = None) -> list[ControlMessage]:
        """Return the records for the settings of the log up to `end_offset`, or up to its end.

        None for kraft.version 0.
        """
        versions = [
            level for offset, level in self._versions if end_offset is None or offset < end_offset
        ]
        if versions[-1] == KRAFT_VERSION_STATIC:
            return []
        voters = self.voters if end_offset is None else self.history.at(end_offset)
        return voters_messages(voters)


def _voter_set(record: wire.VotersRecord) -> VoterSet:
    return VoterSet(
        Voter(
            ReplicaKey(each.voter_id, bytes(each.voter_directory_id)),
            tuple(VoterEndpoint(e.name, e.host, e.port) for e in each.endpoints),
            each.kraft_version_feature.min_supported_version,
            each.kraft_version_feature.max_supported_version,
        )
        for each in record.voters
    )
