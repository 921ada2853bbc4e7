"""Where a consumer is in one partition.

    starting --committed offset or seek--> reading <--the position is in the log-- validating
       |                                   |     ^                                     |
       +--no offset--> resetting <--out of range,  +----------a new leader-------------+
                          |         truncated
                          +--ListOffsets--> reading

`version` changes with every step that is not reading on. Answers that were asked for by an earlier version
are late, and ignored.
"""

from __future__ import annotations

from enum import Enum

from odradek.client.core.backoff import Backoff
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition

NO_EPOCH = -1
_NO_ID = bytes(16)


class Stage(Enum):
    """What a partition waits for."""

    STARTING = "starting"
    RESETTING = "resetting"
    VALIDATING = "validating"
    READING = "reading"


class FetchState:
    """The position of one partition, and what is fetched from it."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.stage = Stage.STARTING
        self.version = 0
        self.offset = -1
        """The position: the offset of the next record for the user; -1 if it is not known."""
        self.epoch = NO_EPOCH
        """The leader epoch of the record before the position."""
        self.fetch_offset = -1
        """The offset of the next fetch, behind what waits for the user."""
        self.reset_time = 0
        """The time that is looked up while the stage is RESETTING."""
        self.is_asked = False
        """Whether an offset is being looked up, or the position validated."""
        self.is_paused = False
        self.is_revoked = False
        """Whether the partition is about to be given up: nothing is fetched or handed out."""
        self.error: ClientError | None = None
        """What the user must hear of. Until then nothing is fetched."""
        self.retry_at_ms = 0
        self.leader_epoch = NO_EPOCH
        """The newest epoch of the leader that has been seen."""
        self.topic_id = _NO_ID
        self.replica = -1
        """The replica that the leader has named for reading (KIP-392); -1 for the leader."""
        self.replica_until_ms = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self._backoff: Backoff | None = None
        self._missing_since_ms = -1

    @property
    def has_position(self) -> bool:
        """Whether the position is known and can be trusted."""
        return self.stage == Stage.READING or self.stage == Stage.VALIDATING

    @property
    def may_deliver(self) -> bool:
        """Whether records may be handed out."""
        return (
            self.stage == Stage.READING
            and not self.is_paused
            and not self.is_revoked
            and self.error is None
        )

    @property
    def must_validate(self) -> bool:
        """Whether a new leader must confirm the position."""
        return self.stage == Stage.READING and self.leader_epoch >= 0 and self.epoch >= 0

    def may_fetch(self, now_ms: int) -> bool:
        """Whether records may be fetched."""
        return self.may_deliver and now_ms >= self.retry_at_ms

    # -- positions ------------------------------------------------------------------------------

    def _change(self, stage: Stage) -> None:
        self.version += 1
        self.stage = stage
        self.is_asked = False
        self.error = None

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Set the position. With the epoch of the record before, it is validated first."""
        self._change(Stage.READING if epoch == NO_EPOCH else Stage.VALIDATING)
        self.offset = self.fetch_offset = offset
        self.epoch = epoch
        self.retry_at_ms = 0

    def reset(self, time: int) -> None:
        """Go to the offset of a time, which is looked up."""
        self._change(Stage.RESETTING)
        self.offset = self.fetch_offset = -1
        self.epoch = NO_EPOCH
        self.reset_time = time

    def validate(self) -> None:
        """Read on only after the leader has confirmed the position. What was fetched is dropped."""
        self._change(Stage.VALIDATING)
        self.fetch_offset = self.offset

    def validated(self) -> None:
        """Read on."""
        self.stage = Stage.READING
        self.is_asked = False

    def asked(self) -> None:
        """Note that an offset is being looked up, or the position validated."""
        self.is_asked = True

    def check_failed(self) -> None:
        """Note that the position must be validated again."""
        self.is_asked = False

    def read_to(self, offset: int, epoch: int) -> None:
        """Move the position behind records that the user gets, or never sees."""
        self.offset = offset
        self.epoch = epoch

    def fetched_to(self, offset: int) -> None:
        """Note that records up to an offset wait for the user."""
        self.fetch_offset = offset
        self._backoff = None

    def refetch(self) -> None:
        """Drop what waits for the user, and fetch from the position again."""
        self.version += 1
        self.fetch_offset = self.offset

    def limits(self, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> None:
        """Note what the leader says about the log."""
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset

    # -- the user -------------------------------------------------------------------------------

    def pause(self, is_paused: bool) -> None:
        """Pause or resume. What was fetched is kept."""
        self.is_paused = is_paused

    def revoke(self) -> None:
        """Hand nothing out any more."""
        self.is_revoked = True

    def fail(self, error: ClientError) -> None:
        """Stop until the user has heard of an error."""
        self.error = error
        self.refetch()

    def told(self) -> ClientError | None:
        """Return the error, once. Then try again."""
        error, self.error = self.error, None
        self._missing_since_ms = -1
        return error

    # -- brokers --------------------------------------------------------------------------------

    def retry(self, now_ms: int, backoff: Backoff) -> None:
        """Pause after a failure. `backoff` is used if it is the first one."""
        if self._backoff is None:
            self._backoff = backoff
        self.retry_at_ms = now_ms + self._backoff.failed()

    def led_by(self, leader_epoch: int, topic_id: bytes) -> None:
        """Note the leader and the topic. A new leader says anew which replica to read from."""
        if leader_epoch != self.leader_epoch or topic_id != self.topic_id:
            self.replica = -1
        self.leader_epoch = leader_epoch
        self.topic_id = topic_id
        self._missing_since_ms = -1

    def missing(self, now_ms: int) -> int:
        """Note that the topic is unknown. Return since when, in ms."""
        if self._missing_since_ms < 0:
            self._missing_since_ms = now_ms
        return self._missing_since_ms

    def prefer(self, replica: int, until_ms: int) -> None:
        """Read from another replica until a time; -1 for the leader."""
        self.replica = replica
        self.replica_until_ms = until_ms
