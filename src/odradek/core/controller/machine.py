"""The active controller of one epoch, without IO.

The machine has the state after all decisions, whether their records are committed or not: the
metadata image, the indexes of its partitions and ACLs, the heartbeats of the brokers, and the
deadlines of periodic work. A new machine is created when a node becomes the active controller, and
dropped when the node stops leading. So decisions that are not committed are forgotten: the next
machine begins with the committed metadata.

The caller (`odradek.broker.controller.quorum_controller`) appends the records. For a request:

1. `decide` returns the decision.
2. The caller appends each of its `batches` and calls `replay` with it. If an append fails, the
   batches before it remain.
3. The caller calls `decided`, and sends the response when the records are committed.

When `deadline_ms` has passed, the caller calls `due` and processes its decision in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import Secret
from odradek.core.controller.acl_ids import AclIds
from odradek.core.controller.decisions import DECISIONS
from odradek.core.controller.heartbeats import BrokerHeartbeats
from odradek.core.controller.partition_index import PartitionIndex
from odradek.core.controller.periodic import (
    RETRY_MS,
    Intervals,
    PeriodicWork,
    fence_stale_broker,
)
from odradek.core.controller.state import (
    RECORDS_PER_BATCH_MAX,
    ControllerState,
    CountPartitions,
    Decision,
    RandomBytes,
    unlimited,
)
from odradek.core.controller.token_ids import TokenIds
from odradek.core.metadata.batch_loader import BatchLoader, Change
from odradek.core.metadata.image import MetadataImage
from odradek.wire.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.generated.fence_broker_record import FenceBrokerRecord
from odradek.wire.generated.register_broker_record import RegisterBrokerRecord
from odradek.wire.generated.unregister_broker_record import UnregisterBrokerRecord
from odradek.wire.primitives import Message


class Moment(NamedTuple):
    """The time, the next offset and the configuration on which a decision is based."""

    now_ms: int
    """Monotonic time."""
    wall_ms: int
    """Milliseconds since 1970."""
    next_offset: int
    """The offset of the next record that is appended."""
    config: BrokerConfig
    """The configuration of this node, with the dynamic settings of the image."""
    kraft_version: int
    voter_count: int
    kraft_upgrade_problem: str | None = None
    """Why kraft.version cannot be raised to 1; only set for UpdateFeatures."""
    count_partitions: CountPartitions = unlimited
    """Counts the partitions that the request creates or deletes."""
    requester: str = ""
    """The principal of the client that sends the request; empty without a client."""


class ControllerMachine:
    """The state of the active controller."""

    def __init__(
        self,
        committed: BatchLoader,
        intervals: Intervals,
        now_ms: int,
        *,
        cluster_id: str,
        random_bytes: RandomBytes,
        supported_features: Mapping[str, tuple[int, int]],
        token_secret: Secret | None = None,
    ) -> None:
        """Begin with the committed metadata. This object owns `committed`.

        `token_secret` is `delegation.token.secret.key`. Without it, delegation tokens are disabled.
        """
        image = committed.image
        self._loader = committed
        self._index = PartitionIndex(image.topics)
        self._acl_ids = AclIds(image.acls)
        self._token_ids = TokenIds(token_secret, image.delegation_tokens)
        self._heartbeats = BrokerHeartbeats(
            intervals.session_timeout_ms, image.cluster.brokers.values(), image.offset, now_ms
        )
        self._periodic = PeriodicWork(intervals, now_ms)
        self._periodic.on_appended(self._index, image, now_ms)
        self._not_before_ms = now_ms
        self._cluster_id = cluster_id
        self._random_bytes = random_bytes
        self._supported_features = supported_features

    @property
    def image(self) -> MetadataImage:
        """The metadata after all decisions."""
        return self._loader.image

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open (KIP-868)."""
        return self._loader.transaction_start_offset >= 0

    def state(self, moment: Moment) -> ControllerState:
        """Return the input of a decision."""
        return ControllerState(
            image=self._loader.image,
            config=moment.config,
            cluster_id=self._cluster_id,
            next_offset=moment.next_offset,
            random_bytes=self._random_bytes,
            supported_features=self._supported_features,
            kraft_version=moment.kraft_version,
            kraft_upgrade_problem=moment.kraft_upgrade_problem,
            index=self._index,
            acl_ids=self._acl_ids,
            heartbeats=self._heartbeats,
            token_ids=self._token_ids,
            now_ms=moment.now_ms,
            wall_ms=moment.wall_ms,
            requester=moment.requester,
            count_partitions=moment.count_partitions,
        )

    # -- decisions --------------------------------------------------------------------------------

    def decide(self, moment: Moment, request: Any, version: int) -> Decision[Any]:
        """Return the decision about a request.

        Raises:
            ApiError: the whole request fails.
        """
        decision = DECISIONS[request.API_KEY](self.state(moment), request, version)
        if decision.heard is not None:
            # Even if the records cannot be appended, the broker is alive.
            heard = decision.heard
            self._heartbeats.contact(heard.broker_id, heard.broker_epoch, moment.now_ms)
        return decision

    def decided(self, decision: Decision[Any], end_offset: int) -> None:
        """Apply the end of a decision whose records were appended. They end before `end_offset`."""
        if decision.heard is not None:
            self._heartbeats.hear(decision.heard, end_offset)

    def end_session(self, broker_id: int) -> None:
        """End the session of a broker that is known to have stopped, so that it may register."""
        self._heartbeats.end_session(broker_id)

    def replay(
        self, records: Sequence[Message], base_offset: int, epoch: int, now_ms: int
    ) -> Change | None:
        """Apply a batch of records that was appended at `base_offset`.

        Return the change of the image; None if the image did not change.

        Raises:
            ReplayError: the records contradict the image.
        """
        self._loader.load(records, base_offset, epoch)
        change = self._loader.flush()
        if change is not None:
            self._index.update(change[0])
            self._acl_ids.update(change[0])
            self._token_ids.update(change[0])
        for offset, record in enumerate(records, base_offset):
            self._replay_registration(record, offset)
        self._periodic.on_appended(self._index, self._loader.image, now_ms)
        return change

    def _replay_registration(self, record: Message, offset: int) -> None:
        match record:
            case RegisterBrokerRecord():
                self._heartbeats.on_registered(record.broker_id, record.broker_epoch, offset)
            case UnregisterBrokerRecord():
                self._heartbeats.on_unregistered(record.broker_id)
            case BrokerRegistrationChangeRecord():
                if record.fenced == 1:
                    self._heartbeats.on_fenced(record.broker_id)
            case FenceBrokerRecord():
                self._heartbeats.on_fenced(record.id)
            case _:
                pass

    def share(self, committed: BatchLoader) -> None:
        """Continue with the loader's state, which is equal because all records are committed.

        So the controller and the publishers share one image. Its offset may be higher, because only
        the loader counts control records.
        """
        assert committed.image.offset >= self._loader.image.offset, "all records are committed"
        self._loader = committed

    # -- periodic work ----------------------------------------------------------------------------

    def deadline_ms(self, moment: Moment) -> int | None:
        """Return the time at which `due` must be called; None if there is nothing to wait for."""
        deadlines = self._periodic.deadlines(moment.voter_count)
        session_ms = self._heartbeats.deadline_ms
        if session_ms is not None:
            deadlines.append(session_ms)
        return max(min(deadlines), self._not_before_ms) if deadlines else None

    def due(self, moment: Moment) -> Decision[str] | None:
        """Return the next decision that is due; None if none is due.

        The response is a text for the log; it may be empty.
        """
        state = self.state(moment)
        stale = self._heartbeats.expired(moment.now_ms)
        if stale is not None:
            broker = self.image.cluster.brokers.get(stale[0])
            if broker is not None and broker.epoch == stale[1] and not broker.fenced:
                return fence_stale_broker(state, broker.id)
            # A fenced broker has stopped sending heartbeats.
            self._heartbeats.end_session(stale[0])
            return Decision([], "")
        return self._periodic.due(state, moment.voter_count)

    def postpone(self, now_ms: int) -> None:
        """Repeat the periodic work later, because its records could not be appended."""
        self._not_before_ms = now_ms + RETRY_MS


def batches(decision: Decision[Any]) -> Iterator[list[Message]]:
    """Yield the records of a decision in the batches in which they are appended."""
    records = decision.records
    if decision.is_atomic:
        if records:
            yield records
        return
    for start in range(0, len(records), RECORDS_PER_BATCH_MAX):
        yield records[start : start + RECORDS_PER_BATCH_MAX]
