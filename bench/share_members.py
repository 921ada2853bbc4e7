"""Members of a share group on plain sockets, all in one thread.

Each member has one connection. It sends a ShareFetch, and accepts the records of the response with
its next ShareFetch, as Apache Kafka's share consumer does with implicit acknowledgement. Every
record must be acquired and accepted exactly once.
"""

from __future__ import annotations

import selectors
import time
from types import TracebackType
from typing import Final, Self, cast

from compat.lab.broker import BrokerFailed
from compat.lab.wire_client import WireClient, decode_response

from odradek.records.builder import RecordBatchBuilder
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse
from odradek.wire.generated.share_fetch_request import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from odradek.wire.generated.share_fetch_response import AcquiredRecords, ShareFetchResponse
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

FETCH_VERSION: Final = 1
ACCEPT: Final = 1
WAIT_MS_MAX: Final = 500
NOT_READY: Final = (14, 15, 16)
"""Errors of a coordinator that loads, or whose topic does not exist yet."""
LEAVE_EPOCH: Final = -1
PATIENCE_SECONDS: Final = 60.0


class Member:
    """One member and its connection."""

    def __init__(self, port: int, group: str, name: str, topic_id: bytes) -> None:
        self.wire = WireClient(port)
        self._group = group
        self._name = name
        self._topic_id = topic_id
        self._session_epoch = 0

    def join(self, topic: str) -> None:
        """Join the group, and wait until the partition is assigned to the member."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        epoch, assigned = 0, False
        while not assigned:
            if time.monotonic() > deadline:
                raise BrokerFailed(f"{self._name} gets no partition")
            response = self._heartbeat(epoch, [topic] if epoch == 0 else None)
            if response.error_code in NOT_READY:
                find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
                self.wire.call("FindCoordinator", 4, find, FindCoordinatorResponse)
                time.sleep(0.05)
                continue
            if response.error_code:
                raise BrokerFailed(f"{self._name} cannot join: error {response.error_code}")
            epoch = response.member_epoch
            assignment = response.assignment
            assigned = assignment is not None and bool(assignment.topic_partitions)
            if not assigned:
                time.sleep(0.05)

    def leave(self) -> None:
        """Leave the group."""
        self._heartbeat(LEAVE_EPOCH, None)

    def _heartbeat(self, epoch: int, topics: list[str] | None) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._name,
            member_epoch=epoch,
            subscribed_topic_names=topics,
        )
        return self.wire.call("ShareGroupHeartbeat", 1, request, ShareGroupHeartbeatResponse)

    def fetch(self, accepted: list[AcquiredRecords], records_max: int) -> None:
        """Send a ShareFetch that accepts records. Do not wait for the response."""
        partition = FetchPartition(
            partition_index=0,
            acknowledgement_batches=[
                AcknowledgementBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    acknowledge_types=[ACCEPT],
                )
                for each in accepted
            ],
        )
        is_needed = self._session_epoch == 0 or accepted
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=self._session_epoch,
            max_wait_ms=WAIT_MS_MAX,
            min_bytes=1,
            max_records=records_max,
            batch_size=records_max,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[partition])]
            if is_needed
            else [],
        )
        self._session_epoch += 1
        self.wire.send(self.wire.frame("ShareFetch", FETCH_VERSION, request))

    def receive(self) -> list[AcquiredRecords]:
        """Return the acquired records of the next response.

        Raises:
            BrokerFailed: the response has an error.
        """
        response = decode_response(
            "ShareFetch", FETCH_VERSION, self.wire.receive(), ShareFetchResponse
        )
        parts = [part for topic in response.responses for part in topic.partitions]
        codes = [response.error_code]
        codes += [code for part in parts for code in (part.error_code, part.acknowledge_error_code)]
        if any(codes):
            raise BrokerFailed(f"{self._name} gets the errors {codes}")
        return [each for part in parts for each in part.acquired_records]


class Arrivals:
    """Single records that are written at a constant rate."""

    def __init__(self, port: int, topic: str, value_bytes: int, rate: int) -> None:
        self.wire = WireClient(port)
        self._topic = topic
        self._value = bytes(value_bytes)
        self._interval = 1 / rate
        self._next = time.monotonic()
        self.sent = 0

    def wait_seconds(self) -> float:
        """Return the time until the next record is due."""
        return max(0.0, self._next - time.monotonic())

    def send_due(self) -> None:
        """Write the next record, if it is due. Do not wait for the response."""
        if time.monotonic() < self._next:
            return
        builder = RecordBatchBuilder()
        builder.append(time.time_ns() // 1_000_000, None, self._value)
        data = PartitionProduceData(index=0, records=builder.build())
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        self.wire.send(self.wire.frame("Produce", 9, request))
        self._next += self._interval
        self.sent += 1

    def receive(self) -> None:
        """Read a response.

        Raises:
            BrokerFailed: a record was not written.
        """
        response = decode_response("Produce", 9, self.wire.receive(), ProduceResponse)
        code = response.responses[0].partition_responses[0].error_code
        if code:
            raise BrokerFailed(f"a record was not written: error {code}")


class Members:
    """The members of a group on partition 0 of a topic. Use it in a `with` statement."""

    def __init__(self, port: int, group: str, topic: str, count: int) -> None:
        self._port = port
        self._topic = topic
        with WireClient(port) as wire:
            topic_id = _topic_id(wire, topic)
        self._members = [
            Member(port, group, f"{group}-{number}", topic_id) for number in range(count)
        ]
        self.requests = 0
        """Number of responses to ShareFetch."""
        self._counts = bytearray()
        """How often each offset was accepted."""

    def __enter__(self) -> Self:
        try:
            for member in self._members:
                member.join(self._topic)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                for member in self._members:
                    member.leave()
        finally:
            self._close()

    def _close(self) -> None:
        for member in self._members:
            member.wire.close()

    def consume(self, records: int, records_max: int, arrivals: Arrivals | None = None) -> None:
        """Accept all records; each member fetches at most `records_max` at once.

        With `arrivals`, the records are written meanwhile.

        Raises:
            BrokerFailed: a response has an error, or a record was not accepted exactly once.
        """
        self._counts = bytearray(records)
        held: dict[Member, list[AcquiredRecords]] = {}
        left = records
        deadline = time.monotonic() + PATIENCE_SECONDS
        with selectors.DefaultSelector() as selector:
            for member in self._members:
                member.wire.socket.settimeout(PATIENCE_SECONDS)
                selector.register(member.wire.socket, selectors.EVENT_READ, member)
                member.fetch([], records_max)
            if arrivals is not None:
                selector.register(arrivals.wire.socket, selectors.EVENT_READ, arrivals)
            while left:
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"{left} of {records} records were not accepted")
                is_arriving = arrivals is not None and arrivals.sent < records
                wait = arrivals.wait_seconds() if arrivals is not None and is_arriving else 1.0
                for ready, _ in selector.select(wait):
                    if ready.data is arrivals and arrivals is not None:
                        arrivals.receive()
                        continue
                    member = cast("Member", ready.data)
                    acquired = member.receive()
                    self.requests += 1
                    left -= self._accepted(held.pop(member, []))
                    if acquired:
                        held[member] = acquired
                    member.fetch(acquired, records_max)
                if arrivals is not None and is_arriving:
                    arrivals.send_due()
            for member in self._members:  # the last fetches, which find nothing
                if member.receive():
                    raise BrokerFailed("there are more records than were written")
                self.requests += 1

    def _accepted(self, batches: list[AcquiredRecords]) -> int:
        """Count accepted records; return their number."""
        total = 0
        for batch in batches:
            if batch.delivery_count != 1:
                raise BrokerFailed(f"{batch} was delivered before")
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self._counts[offset] += 1
                if self._counts[offset] > 1:
                    raise BrokerFailed(f"offset {offset} was accepted twice")
                total += 1
        return total


def _topic_id(wire: WireClient, topic: str) -> bytes:
    asked = [MetadataRequestTopic(name=topic)]
    response = wire.call("Metadata", 12, MetadataRequest(topics=asked), MetadataResponse)
    found: bytes = response.topics[0].topic_id
    return found
