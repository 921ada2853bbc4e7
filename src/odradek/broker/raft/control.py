"""Control records of the metadata log: leader changes, kraft.version, voters."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
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

KRAFT_VERSION_STATIC = 0
"""The voters are those of controller.quorum.voters."""
KRAFT_VERSION_DYNAMIC = 1
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
    """kraft.version and the voters, from the newest control records of the log."""

    __slots__ = ("kraft_version", "voters", "voters_offset")

    def __init__(self, static_voters: VoterSet) -> None:
        self.kraft_version = KRAFT_VERSION_STATIC
        self.voters = static_voters
        """The voters; those of the configuration until the log contains a voters record."""
        self.voters_offset = -1
        """The offset of the voters record; -1: in a snapshot, or there is none."""

    def replay(self, kind: ControlType, message: Message, offset: int) -> None:
        """Apply a control record; `offset` is -1 for those of a snapshot."""
        if isinstance(message, KRaftVersionRecord):
            assert kind is ControlType.KRAFT_VERSION
            self.kraft_version = message.kraft_version
        elif isinstance(message, wire.VotersRecord):
            self.voters = _voter_set(message)
            self.voters_offset = offset

    def messages(self) -> list[ControlMessage]:
        """Return the records for these settings; none for kraft.version 0."""
        if self.kraft_version == KRAFT_VERSION_STATIC:
            return []
        return voters_messages(self.voters)


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
