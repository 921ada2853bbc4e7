"""The calls of both share consumers, blocking and asyncio, that wait for nobody."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Literal

from odradek.client.deadline import monotonic_ms
from odradek.client.share.acknowledgements import AcknowledgementResult, AcknowledgeType
from odradek.client.share.acquired import ShareRecord
from odradek.client.share.leader import ShareLimits
from odradek.client.share.machine import RecordKey, ShareMachine
from odradek.client.share.membership import ShareMembership
from odradek.model.topic_partition import TopicPartition

Mode = Literal["explicit", "implicit"]

CLOSE_TIMEOUT_MS = 5_000
"""How long `close` waits for the brokers."""
ITERATION_WAIT_MS = 1_000
"""How long the iteration waits for records before it looks again whether to end."""


class DirectShareCalls:
    """The machines of a share consumer, and what it has besides calls that wait."""

    def __init__(
        self,
        group: str,
        topics: Iterable[str],
        mode: Mode,
        limits: ShareLimits | None,
        rack: str | None,
    ) -> None:
        """Raise a ValueError if `mode` is unknown, or there is no topic."""
        if mode not in ("explicit", "implicit"):
            raise ValueError(f"mode {mode!r} is not explicit or implicit")
        member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._mode = mode
        self._limits = limits or ShareLimits()
        self._membership = ShareMembership(group, member_id, topics, rack)
        if not self._membership.topics:
            raise ValueError("a share consumer needs at least one topic")
        self._machine = ShareMachine(group, member_id, self._limits, is_explicit=mode == "explicit")

    def _direct_call(self) -> AbstractContextManager[object]:
        """Return what surrounds a change of the machine."""
        raise NotImplementedError

    def _check_usable(self) -> None:
        """Raise an error if the consumer is closed."""
        raise NotImplementedError

    # -- what it is -----------------------------------------------------------------------------

    @property
    def group(self) -> str:
        """The id of the share group."""
        return self._membership.group

    @property
    def member_id(self) -> str:
        """The id that this member has chosen."""
        return self._membership.member_id

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions from which this member gets records. Others may have them, too."""
        return self._machine.partitions

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long an acquisition lock lasts; None before the first response of a broker."""
        return self._machine.acquisition_lock_timeout_ms

    def lock_remaining_ms(self, record: ShareRecord) -> int:
        """Return for how long no other consumer gets the record; 0 if the lock may have ended."""
        return self._machine.lock_remaining_ms(key_of(record), monotonic_ms())

    # -- acknowledgements -----------------------------------------------------------------------

    def accept(self, record: ShareRecord) -> None:
        """Acknowledge that the record was processed. It is not delivered again.

        Raises:
            ValueError: the record does not wait for an acknowledgement, or the mode is implicit.
        """
        self._acknowledge_explicitly(record, AcknowledgeType.ACCEPT)

    def release(self, record: ShareRecord) -> None:
        """Give the record back. It is delivered again, unless this was its last delivery.

        Raises:
            ValueError: see `accept`.
        """
        self._acknowledge_explicitly(record, AcknowledgeType.RELEASE)

    def reject(self, record: ShareRecord) -> None:
        """Give the record up, because it can never be processed. It is not delivered again.

        Raises:
            ValueError: see `accept`.
        """
        self._acknowledge_explicitly(record, AcknowledgeType.REJECT)

    def _acknowledge_explicitly(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        self._check_usable()
        if self._mode != "explicit":
            raise ValueError('records are accepted by poll; use mode="explicit" to do it yourself')
        self._acknowledge(record, kind)

    def _acknowledge(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        with self._direct_call():
            self._machine.acknowledge(key_of(record), kind, monotonic_ms())

    # -- the iteration --------------------------------------------------------------------------

    def _may_deliver(self, record: ShareRecord) -> bool:
        """Whether the iteration may return a record. If its lock may have ended, it is given back."""
        if self.lock_remaining_ms(record):
            return True
        self._acknowledge(record, AcknowledgeType.RELEASE)
        return False

    def _was_processed(self, record: ShareRecord) -> None:
        """Accept a record that the iteration has returned, if the mode is implicit."""
        if self._mode == "implicit" and self._machine.is_delivered(key_of(record)):
            self._acknowledge(record, AcknowledgeType.ACCEPT)


def key_of(record: ShareRecord) -> RecordKey:
    """Return what names a record."""
    return record.topic, record.partition, record.offset


def check_renewed(records: Iterable[ShareRecord], results: Iterable[AcknowledgementResult]) -> None:
    """Raise the error of the first result that concerns one of the records."""
    renewed = {key_of(record) for record in records}
    for topic, partition, types, error in results:
        if error is not None and any((topic, partition, offset) in renewed for offset in types):
            raise error
