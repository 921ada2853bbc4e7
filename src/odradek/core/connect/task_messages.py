"""What the machines of tasks hear, and what they want done.

What has a `token` is answered with `Done`. Until then the machine wants nothing else that has one, except
while a source polls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from odradek.core.connect.config_log import TargetState
from odradek.core.connect.records import SinkRecord, SourceRecord
from odradek.core.connect.source_task import Offset, Partition, Submitted
from odradek.model.topic_partition import TopicPartition

# -- events -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """The task begins."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class ChangeState:
    """The task shall pause, or go on."""

    state: TargetState


@dataclass(frozen=True, slots=True)
class Stop:
    """The task shall stop."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The task is given up: it may not write offsets or states any more."""


@dataclass(frozen=True, slots=True)
class Done:
    """What has this token is done, or has failed."""

    token: int
    value: Any = None
    error: BaseException | None = None


class Written(NamedTuple):
    """A record was written at `offset`, or not: then there is an error."""

    record: Outgoing
    offset: int = -1
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """Records of a source have been written, or not."""

    written: Sequence[Written]


@dataclass(frozen=True, slots=True)
class SinkAsked:
    """What the code of a sink has asked for (`SinkTaskContext`) since the last call."""

    seek: Mapping[TopicPartition, int]
    paused: Collection[TopicPartition] | None
    """The partitions to pause; None if that has not changed."""
    timeout_ms: int | None
    wants_commit: bool


Event = Begin | Tick | ChangeState | Stop | Cancel | Done | Delivered | SinkAsked

# -- data -------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """A record as bytes."""

    record: SourceRecord
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Converted(NamedTuple):
    """Records as bytes; None for those that are dropped. With an error, the rest cannot be converted."""

    items: Sequence[Encoded | None]
    error: Exception | None = None


class Outgoing(NamedTuple):
    """A record to send. `record` is as the task has made it."""

    encoded: Encoded
    record: SourceRecord
    submitted: Submitted | None


class Polled(NamedTuple):
    """What a sink has read from a partition."""

    place: TopicPartition
    records: Sequence[SinkRecord]
    next_offset: int


class Change(Enum):
    """What happens to partitions of a sink."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    """They can still be committed."""
    LOST = "lost"


class Rebalanced(NamedTuple):
    """Partitions come or go, while a sink polls. `positions` are where reading begins."""

    change: Change
    positions: Mapping[TopicPartition, int]


# -- effects without an answer ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tell:
    """Write the state of the task."""

    state: str


@dataclass(frozen=True, slots=True)
class Warn:
    """Log an error after which the task goes on."""

    text: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class Release:
    """Call `stop` of a source beside `poll`, which has not returned for long."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The task has ended. With an error it has failed."""

    error: Exception | None = None


# -- effects with an answer -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asking:
    """What is answered with `Done`."""

    token: int


@dataclass(frozen=True, slots=True)
class MakeTask(Asking):
    """Make the task, and initialize it. The answer of a source is whether it hears of written records."""


@dataclass(frozen=True, slots=True)
class StartTask(Asking):
    """Call `start`."""


@dataclass(frozen=True, slots=True)
class StopTask(Asking):
    """Call `stop`."""


@dataclass(frozen=True, slots=True)
class OpenOffsets(Asking):
    """Open the store of offsets. The answer is the name of its topic, or None."""


@dataclass(frozen=True, slots=True)
class OpenProducer(Asking):
    """Make the producer."""


@dataclass(frozen=True, slots=True)
class Poll(Asking):
    """Call `poll`. The answer is a list of records."""


@dataclass(frozen=True, slots=True)
class Convert(Asking):
    """Convert records. The answer is `Converted`."""

    records: Sequence[SourceRecord]


@dataclass(frozen=True, slots=True)
class Send(Asking):
    """Give records to the producer. `Delivered` tells later what has become of them."""

    records: Sequence[Outgoing]


@dataclass(frozen=True, slots=True)
class Flush(Asking):
    """Wait until all records are written or have failed, but not for ever."""


@dataclass(frozen=True, slots=True)
class TellWritten(Asking):
    """Call `commit_record`, with the offset of each record; None if it was dropped."""

    told: Sequence[tuple[SourceRecord, int | None]]


@dataclass(frozen=True, slots=True)
class StoreOffsets(Asking):
    """Write offsets to their topic."""

    offsets: Sequence[tuple[Partition, Offset]]


@dataclass(frozen=True, slots=True)
class CommitTask(Asking):
    """Call `commit`."""


@dataclass(frozen=True, slots=True)
class Fence(Asking):
    """Let the leader fence the tasks of earlier configurations."""


@dataclass(frozen=True, slots=True)
class TakeId(Asking):
    """Fence the earlier producer of this task. The answer is False if that takes longer."""


@dataclass(frozen=True, slots=True)
class CheckTask(Asking):
    """Check that the task is still this worker's, with its newest configuration."""


@dataclass(frozen=True, slots=True)
class BeginTransaction(Asking):
    """Begin a transaction."""


@dataclass(frozen=True, slots=True)
class CommitTransaction(Asking):
    """Write offsets, and commit the transaction."""

    offsets: Sequence[tuple[Partition, Offset]]


@dataclass(frozen=True, slots=True)
class AbortTransaction(Asking):
    """Abort the transaction."""


@dataclass(frozen=True, slots=True)
class CopyOffsets(Asking):
    """Write committed offsets to the worker's topic, too, if the connector has its own."""

    offsets: Sequence[tuple[Partition, Offset]]


@dataclass(frozen=True, slots=True)
class FindTopics(Asking):
    """Return the topics that match the pattern of a sink, sorted; None if they cannot be listed."""


@dataclass(frozen=True, slots=True)
class Subscribe(Asking):
    """Make the consumer."""

    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class Unsubscribe(Asking):
    """Close the consumer."""


@dataclass(frozen=True, slots=True)
class Read(Asking):
    """Read records. The answer is `Polled`, `Rebalanced`, or None."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class GoOn(Asking):
    """The last `Rebalanced` is worked on; go on with `Read`. The answer is that of `Read`.

    With an error, the work has failed, and the task is about to end.
    """

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class PauseReading(Asking):
    """Read these partitions only when they are resumed."""

    partitions: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class ResumeReading(Asking):
    """Read these partitions again."""

    partitions: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Seek(Asking):
    """Read on from these offsets."""

    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OpenPartitions(Asking):
    """Call `open`. The task has all of `assigned` then."""

    partitions: Sequence[TopicPartition]
    assigned: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class ClosePartitions(Asking):
    """Call `close`. The task has `assigned` afterwards."""

    partitions: Sequence[TopicPartition]
    assigned: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Put(Asking):
    """Call `put`."""

    records: Sequence[SinkRecord]


@dataclass(frozen=True, slots=True)
class FlushDeadLetters(Asking):
    """Wait until all dead letters are written."""


@dataclass(frozen=True, slots=True)
class PreCommit(Asking):
    """Call `pre_commit`. The answer is what may be committed."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class CommitOffsets(Asking):
    """Commit offsets of the group."""

    offsets: Mapping[TopicPartition, int]


Effect = Tell | Warn | Release | Ended | Asking
