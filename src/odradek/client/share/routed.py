"""A member of a share group that a driver drives: heartbeats, assignment and requests over `Routes`.

    driver:  poll --> ShareGroupHeartbeat, ShareFetch, ShareAcknowledge
    user:    take, acknowledge, take_error (what an await of the user raises)

`ShareMembership` and `ShareMachine` decide. A request to a broker waits here until the link to it is ready;
if that takes too long, it has failed. Acknowledgements are sent when they are `ACKNOWLEDGE_AFTER_MS` old, or
with the next request for records. With `renews`, locks of which less than half is left begin again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.client.address import Address
from odradek.client.core.asks import Ask, Link
from odradek.client.core.coordinator_asks import CoordinatorAsks
from odradek.client.core.routes import Routes
from odradek.client.errors import (
    BrokerError,
    ClientError,
    DisconnectedError,
    UnsupportedVersionError,
)
from odradek.client.share.acknowledgements import AcknowledgeType, TopicIdPartition
from odradek.client.share.leader import ShareRequest
from odradek.client.share.machine import ACKNOWLEDGE_AFTER_MS, REQUEST_EXTRA_MS, ShareMachine
from odradek.client.share.membership import OLD_BROKER_ADVICE, ShareMembership
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.share_acknowledge_response import ShareAcknowledgeResponse
from odradek.wire.generated.share_fetch_request import ShareFetchRequest
from odradek.wire.generated.share_fetch_response import ShareFetchResponse
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

_SHARE = "share"
"""The purpose of links: a session belongs to its connection."""
_LINK_MS_MAX = 10_000
"""How long a request waits for its link."""


class RoutedShare:
    """One member of a share group, with its requests."""

    def __init__(
        self,
        routes: Routes,
        membership: ShareMembership,
        machine: ShareMachine,
        *,
        timeout_ms: int,
        wait_ms_max: int,
        renews: bool,
    ) -> None:
        """Errors that may pass are raised after `timeout_ms`. A broker waits for `wait_ms_max`."""
        self.next_deadline_ms: int | None = None
        self.is_joined = False
        """Whether the user has begun to poll."""
        self._routes = routes
        self._membership = membership
        self._machine = machine
        self._asks = CoordinatorAsks(routes, membership.group)
        self._timeout_ms = timeout_ms
        self._request_ms = wait_ms_max + REQUEST_EXTRA_MS
        self._renews = renews
        self._held: dict[int, tuple[ShareRequest, int]] = {}
        """The requests that wait for their links, and until when."""
        self._in_flight: set[int] = set()
        self._losses: dict[int, int] = {}
        """How often the link to a node was lost before the last request to it."""
        self._last: ShareGroupHeartbeatRequest | None = None
        """The heartbeat that leaves the group."""
        self._is_leaving = False
        self._is_beating = False
        self._failing_since_ms: int | None = None
        self._error: ClientError | None = None

    # -- the user -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Join the group, unless the member has joined."""
        self.is_joined = True

    def take_error(self) -> ClientError | None:
        """Return the error that the user must know, once."""
        error, self._error = self._error, None
        return error

    @property
    def has_error(self) -> bool:
        """Whether `take_error` returns one."""
        return self._error is not None

    def leave(self) -> None:
        """Send the acknowledgements, release all other records, and leave the group."""
        self._is_leaving = True
        self._machine.close()
        self._last = self._membership.leave()

    @property
    def has_left(self) -> bool:
        """Whether no broker has to be told anything more."""
        return self._machine.is_idle and self._last is None

    # -- what is due ----------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        if not self.is_joined:
            return []
        found: list[Ask] = []
        try:
            found += self._heartbeat(now_ms)
        except ClientError as error:  # the coordinator cannot be looked up
            self._fail(error, now_ms)
        if not self._is_leaving:
            self._assign(now_ms)
            self._renew(now_ms)
        self._look_for_losses(now_ms)
        self._machine.hurry(now_ms - ACKNOWLEDGE_AFTER_MS)
        for node_id, request in self._machine.requests(now_ms):
            self._held[node_id] = request, now_ms + _LINK_MS_MAX
            self._losses.setdefault(node_id, self._routes.losses((node_id, _SHARE)))
        found += self._sendable(now_ms)
        self._take_machine_error(now_ms)
        waits = [self._machine.wait_ms(now_ms), self._membership.wait_ms(now_ms)]
        waits += [until_ms - now_ms for _, until_ms in self._held.values()]
        if self._machine.has_acknowledgements or self._renews:
            waits.append(ACKNOWLEDGE_AFTER_MS)
        due = [each for each in waits if each is not None and each > 0]
        self.next_deadline_ms = now_ms + min(due) if due else None
        return found

    def _heartbeat(self, now_ms: int) -> list[Ask]:
        is_due = self._last is not None or self._membership.wait_ms(now_ms) == 0
        if self._is_beating or not is_due:
            return []
        link = self._asks.link()
        if link is None:
            return []
        if self._last is not None:
            return [self._ask_coordinator(link, self._last, self._left)]
        request = self._membership.request(now_ms)
        return [] if request is None else [self._ask_coordinator(link, request, self._beaten)]

    def _ask_coordinator(
        self, link: Link, request: ShareGroupHeartbeatRequest, outcome: Any
    ) -> Ask:
        self._is_beating = True

        def ended(response: Any, error: ClientError | None, now_ms: int) -> None:
            self._is_beating = False
            outcome(response, error, now_ms)

        # `ShareMembership` reads the error of a response.
        return self._asks.ask(
            link, request, ShareGroupHeartbeatResponse, ended, _no_error, REQUEST_EXTRA_MS
        )

    def _left(self, _response: Any, _error: ClientError | None, _now_ms: int) -> None:
        """The coordinator knows, or removes the member after its session."""
        self._last = None

    def _beaten(
        self, response: ShareGroupHeartbeatResponse | None, error: ClientError | None, now_ms: int
    ) -> None:
        if self._is_leaving:
            return
        try:
            if response is None:
                assert error is not None, "there is a response or an error"
                self._membership.failed(now_ms, error)
                self._fail(error, now_ms)
            elif self._membership.answered(response, now_ms):
                self._asks.forget()
            elif not response.error_code:
                self._failing_since_ms = None
        except UnsupportedVersionError as refusal:
            self._error = UnsupportedVersionError(str(refusal), OLD_BROKER_ADVICE)
        except ClientError as refusal:
            self._error = refusal

    def _assign(self, now_ms: int) -> None:
        """Tell the machine the assigned partitions with their leaders."""
        routes = self._routes
        names = self._membership.topics
        is_stale = self._machine.take_is_metadata_stale()
        for partition, leader, epoch, host, port, _rack in self._machine.take_hints():
            key = TopicPartition(partition.topic, partition.partition)
            routes.move_leader(key, leader, epoch, None if host is None else Address(host, port))
        by_id = {}
        for name in names:
            if is_stale:
                routes.forget_topic(name)
            topic = routes.topic(name, now_ms)
            if topic is not None:
                by_id[topic.id] = topic
        wanted: dict[TopicIdPartition, int] = {}
        for topic_id, index in self._membership.assigned:
            topic = by_id.get(topic_id)
            if topic is None:  # new, or made again
                for name in names:
                    routes.forget_topic(name)
                continue
            leader = routes.leader(TopicPartition(topic.name, index))
            if leader >= 0:
                wanted[TopicIdPartition(topic_id, index, topic.name)] = leader
        self._machine.assign(wanted)

    def _renew(self, now_ms: int) -> None:
        if self._renews:
            for key in self._machine.ending(now_ms):
                self._machine.acknowledge(key, AcknowledgeType.RENEW, now_ms)

    def _look_for_losses(self, now_ms: int) -> None:
        """Note the sessions that have ended with their connections."""
        for node_id, losses in list(self._losses.items()):
            if node_id not in self._in_flight and self._routes.losses((node_id, _SHARE)) != losses:
                self._held.pop(node_id, None)
                reason = self._routes.last_error or DisconnectedError("the connection is lost")
                error = DisconnectedError(f"the connection to node {node_id} is lost: {reason}")
                self._lose(node_id, error, now_ms)

    def _sendable(self, now_ms: int) -> Iterator[Ask]:
        for node_id, (request, until_ms) in list(self._held.items()):
            link = node_id, _SHARE
            if self._routes.is_ready(link):
                del self._held[node_id]
                yield self._ask(link, request)
            elif now_ms >= until_ms:
                del self._held[node_id]
                error = DisconnectedError(f"the address of node {node_id} is not known")
                self._lose(node_id, error, now_ms)

    def _ask(self, link: Link, request: ShareRequest) -> Ask:
        node_id = link[0]
        self._in_flight.add(node_id)

        def answered(response: Any, now_ms: int) -> None:
            self._in_flight.discard(node_id)
            if not response.error_code:
                self._failing_since_ms = None
            self._machine.answered(node_id, response, now_ms)

        def failed(error: ClientError, now_ms: int) -> None:
            self._in_flight.discard(node_id)
            self._lose(node_id, error, now_ms)

        is_fetch = isinstance(request, ShareFetchRequest)
        return Ask(
            link,
            request,
            ShareFetchResponse if is_fetch else ShareAcknowledgeResponse,
            answered,
            failed,
            timeout_ms=self._request_ms,
        )

    # -- errors ---------------------------------------------------------------------------------

    def _lose(self, node_id: int, error: ClientError, now_ms: int) -> None:
        self._losses.pop(node_id, None)
        self._machine.failed(node_id, error, now_ms)
        self._fail(error, now_ms)

    def _take_machine_error(self, now_ms: int) -> None:
        error = self._machine.take_error()
        if error is not None:
            self._fail(error, now_ms)

    def _fail(self, error: ClientError, now_ms: int) -> None:
        """Keep an error for the user if it is permanent, or lasts too long."""
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        is_late = now_ms - self._failing_since_ms >= self._timeout_ms
        if not error.retriable or is_late:
            self._failing_since_ms = None
            self._error = error


def _no_error(_response: object) -> BrokerError | None:
    return None
