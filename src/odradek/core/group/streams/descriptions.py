"""Descriptions of the topologies of Streams groups (KIP-1331): nodes, stores and their connections.

The topology of a heartbeat has only topics. With version 1 of the heartbeat a member is asked for the
description when the group has none of the present topology, and it sends StreamsGroupTopologyDescriptionUpdate.
A group asks one member at a time: again after 30 seconds, and then after twice the time, up to an
hour.

Apache Kafka passes descriptions to a plugin and marks them as uncertain meanwhile (epoch -2). Here
the description is a record of `__consumer_offsets`, in one batch with the record of the epoch. So
both are stored or none, a description is there after a change of the coordinator, and it is deleted
together with its group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.config.broker_config import BrokerConfig
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.group.description_record import DescriptionValue
from odradek.core.group.group import Requester
from odradek.core.group.state import GroupState
from odradek.core.group.streams import records, status
from odradek.core.group.streams.group import StreamsGroup
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated import streams_group_describe_response as described
from odradek.wire.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from odradek.wire.generated.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from odradek.wire.generated.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
)
from odradek.wire.generated.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

KEPT_HERE: Final = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
"""The value of `group.streams.topology.description.plugin.class` with which descriptions are kept."""
RETRY_MIN_MS: Final = 30_000
RETRY_MAX_MS: Final = 3_600_000
JITTER: Final = 0.2
SOURCE, PROCESSOR, SINK = 1, 2, 3
NOT_STORED, AVAILABLE = 1, 3
"""Statuses in StreamsGroupDescribe. 0 means not asked, and 2 a failure of Apache Kafka's plugin."""

Request = StreamsGroupTopologyDescriptionUpdateRequest
Result = CoordinatorResult[StreamsGroupTopologyDescriptionUpdateResponse]


class _Asked(NamedTuple):
    """When a group has asked for a description."""

    topology_epoch: int
    attempts: int
    next_ms: int
    """No member is asked before this time."""


def validate(request: Request, config: BrokerConfig) -> None:
    """Check what does not depend on the group.

    Raises:
        ApiError: UNSUPPORTED_VERSION or INVALID_REQUEST.
    """
    if config.group_streams_topology_description_plugin_class != KEPT_HERE:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The broker keeps no descriptions of topologies: set "
            f"group.streams.topology.description.plugin.class to {KEPT_HERE}.",
        )
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
        if not value.strip():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


class Descriptions:
    """The descriptions of the groups of one partition."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._stored: dict[str, DescriptionValue] = {}
        """By group id."""
        self._asked: dict[str, _Asked] = {}
        """By group id. Not in the log."""
        self.counts = Counter[str]()
        """How often a description was stored ("set-success"), could not be stored ("set-error"), and
        was read ("get-success"), for metrics."""

    def set(self, group_id: str, value: DescriptionValue | None) -> None:
        """Replay the record of a description."""
        if value is None:
            self._state.journal.remove(self._stored, group_id)
        else:
            self._state.journal.put(self._stored, group_id, value)

    def forget(self, group_id: str) -> None:
        """Forget a deleted group. A coordinator of Apache Kafka does not delete our record."""
        self.set(group_id, None)
        self._asked.pop(group_id, None)

    # -- from members ---------------------------------------------------------------------------

    def ask(
        self,
        request: StreamsGroupHeartbeatRequest,
        requester: Requester,
        response: StreamsGroupHeartbeatResponse,
    ) -> None:
        """Ask the member for a description if it is needed and no other member is asked."""
        group = self._state.groups.get(request.group_id)
        if (
            requester.api_version < 1
            or request.member_epoch < 0
            or self._state.config.group_streams_topology_description_plugin_class != KEPT_HERE
            or any(each.status_code == status.STALE_TOPOLOGY for each in response.status or ())
        ):
            return
        epoch, known = records.NO_DESCRIPTION, records.DescriptionEpochs()
        if request.topology is not None:
            epoch = request.topology.epoch
        if isinstance(group, StreamsGroup) and group.topology is not None:
            epoch, known = group.topology.epoch, group.description_epochs
        if epoch < 0 or epoch == known.failed or self._is_stored(request.group_id, epoch, known):
            return
        asked, now_ms = self._asked.get(request.group_id), self._state.clock.now_ms()
        attempts = 0
        if asked is not None and asked.topology_epoch == epoch:
            if now_ms < asked.next_ms:
                return
            attempts = asked.attempts + 1
        delay_ms = min(RETRY_MIN_MS << min(attempts, 16), RETRY_MAX_MS)
        share = int.from_bytes(self._state.random_bytes(2)) / 0xFFFF
        delay_ms = int(delay_ms * (1 - JITTER + 2 * JITTER * share))
        self._asked[request.group_id] = _Asked(epoch, attempts, now_ms + delay_ms)
        response.topology_description_required = True
        self._state.note(request.group_id, f"{request.member_id} is asked to describe the topology")

    def _is_stored(
        self, group_id: str, topology_epoch: int, known: records.DescriptionEpochs
    ) -> bool:
        """Whether the description of a topology is here. A coordinator of Apache Kafka had its own."""
        found = self._stored.get(group_id)
        return known.stored == topology_epoch and (
            found is not None and found.topology_epoch == topology_epoch
        )

    def update(self, request: Request) -> Result:
        """Process StreamsGroupTopologyDescriptionUpdate. `validate` must have accepted the request.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or INVALID_REQUEST.
        """
        group = self._group(request)
        group.member(request.member_id)
        epoch = -1 if group.topology is None else group.topology.epoch
        if request.topology_epoch != epoch:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"The topology has epoch {epoch}, not {request.topology_epoch}.",
            )
        _check(request.topology_description)
        epochs = group.description_epochs._replace(stored=epoch)
        log = [records.description(group.group_id, request), _epochs(group, epochs)]
        self._asked.pop(group.group_id, None)
        return CoordinatorResult(log, StreamsGroupTopologyDescriptionUpdateResponse())

    def on_stored(self) -> None:
        """Count a description that the log has taken."""
        self.counts["set-success"] += 1

    def refuse(self, request: Request) -> Result:
        """Note that the description of this topology cannot be stored, so that nobody sends it again."""
        group = self._group(request)
        epochs = group.description_epochs
        failed = max(epochs.failed, request.topology_epoch)
        self.counts["set-error"] += 1
        response = StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
            error_message="The description is too large for the topic __consumer_offsets.",
        )
        return CoordinatorResult([_epochs(group, epochs._replace(failed=failed))], response)

    def _group(self, request: Request) -> StreamsGroup:
        group = self._state.group(request.group_id)
        if not isinstance(group, StreamsGroup):
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a streams group."
            )
        return group

    # -- for administrators ---------------------------------------------------------------------

    def attach(self, group: StreamsGroup, response: described.DescribedGroup) -> None:
        """Add the description of the present topology to the description of a group."""
        response.topology_description_status = NOT_STORED
        stored, topology = self._stored.get(group.group_id), group.topology
        is_enabled = self._state.config.group_streams_topology_description_plugin_class == KEPT_HERE
        if (
            is_enabled
            and stored is not None
            and topology is not None
            and stored.topology_epoch == topology.epoch == group.description_epochs.stored
        ):
            response.topology_description = _description(stored.topology_description)
            response.topology_description_status = AVAILABLE
            self.counts["get-success"] += 1


def _epochs(group: StreamsGroup, epochs: records.DescriptionEpochs) -> CoordinatorRecord:
    return records.group_metadata(
        group.group_id,
        group.group_epoch,
        group.metadata_hash,
        group.validated_topology_epoch,
        group.last_assignment_configs,
        epochs,
    )


def _check(description: TopologyDescription) -> None:
    """Check the types of all nodes."""
    for subtopology in description.subtopologies:
        for node in subtopology.nodes:
            _check_type(node)
    for store in description.global_stores:
        _check_type(store.source)
        _check_type(store.processor)
        if store.source.node_type != SOURCE or store.processor.node_type != PROCESSOR:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "A global store must have a source node and a processor node.",
            )


def _check_type(node: TopologyDescriptionNode) -> None:
    if node.node_type not in (SOURCE, PROCESSOR, SINK):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Node {node.name} has the unknown type {node.node_type}."
        )


def _description(stored: TopologyDescription) -> described.TopologyDescription:
    return described.TopologyDescription(
        subtopologies=[
            described.TopologyDescriptionSubtopology(
                subtopology_id=each.subtopology_id, nodes=[_node(node) for node in each.nodes]
            )
            for each in stored.subtopologies
        ],
        global_stores=[
            described.TopologyDescriptionGlobalStore(
                source=_node(each.source), processor=_node(each.processor)
            )
            for each in stored.global_stores
        ],
    )


def _node(node: TopologyDescriptionNode) -> described.TopologyDescriptionNode:
    """Return a node with the fields of its type, without duplicates."""
    kind = node.node_type
    return described.TopologyDescriptionNode(
        name=node.name,
        node_type=kind,
        source_topics=_distinct(node.source_topics if kind == SOURCE else ()),
        sink_topic=node.sink_topic if kind == SINK else None,
        stores=_distinct(node.stores if kind == PROCESSOR else ()),
        successors=_distinct(node.successors),
    )


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
