"""StreamsGroupHeartbeat, with which members join, get tasks, revoke tasks and leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.group import GroupType, Requester
from odradek.core.group.modern.assignment import JOIN_EPOCH, LEAVE_EPOCH
from odradek.core.group.modern.timeouts import Timeouts
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.core.group.streams import keys, records, status
from odradek.core.group.streams.configuration import ConfiguredTopology, configure
from odradek.core.group.streams.endpoints import partitions_by_endpoint
from odradek.core.group.streams.group import NEVER_VALIDATED, StreamsGroup
from odradek.core.group.streams.member import Endpoint, StreamsMember
from odradek.core.group.streams.reconcile import Reconciliation
from odradek.core.group.streams.targets import (
    RACK_TAGS,
    STANDBY_REPLICAS,
    StreamsTargets,
    Target,
)
from odradek.core.group.streams.tasks import NONE_HELD, Tasks, contained, task_set
from odradek.core.group.streams.topology import Topology, topology_value
from odradek.core.group.streams.validation import STATIC_LEAVE_EPOCH
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated import streams_group_heartbeat_request as wire
from odradek.wire.generated.create_topics_request import CreatableTopic
from odradek.wire.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from odradek.wire.generated.streams_group_heartbeat_response import (
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

METADATA_REFRESH_MS: Final = 2**31 - 1
"""The interval at which a group's topics are hashed again even if no topic has changed."""
TAGS_VERSION: Final = 1
"""From this version on, the response says which tags a member lacks."""
NO_TOPICS: Final[Mapping[str, CreatableTopic]] = {}


class Outcome(NamedTuple):
    """The response, and the internal topics that must be created, by name."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: Mapping[str, CreatableTopic] = NO_TOPICS


class StreamsHeartbeat:
    """Processes heartbeats of Streams groups. See the package for the steps."""

    def __init__(self, state: GroupState, topics: Topics, targets: StreamsTargets) -> None:
        self._state = state
        self._topics = topics
        self._targets = targets
        self._timeouts = Timeouts(state, keys.MEMBERS, "tasks", self.dismiss)

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, requester: Requester
    ) -> CoordinatorResult[Outcome]:
        """Process a heartbeat. `validate` must have accepted the request.

        Raises:
            ApiError: the request is rejected. Then the group does not change.
        """
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request)
        log: list[CoordinatorRecord] = []
        is_joining = request.member_epoch == JOIN_EPOCH
        group = self._group_to_join(request, log) if is_joining else self._group(request)
        former = group.static_member(request.instance_id)
        before = self._member(group, request, log)
        after = _wish(before, request, requester)
        has_changed = _take_facts(group, former, before, after, log)
        topology = self._topology(group, request, log)
        statuses = _stale_topology(group, after)
        metadata_hash, configured, is_new = self._configured(group, topology)
        validated_epoch = NEVER_VALIDATED
        if configured.is_ready:
            validated_epoch = topology.epoch
            _check_tasks(request, configured)
        if request.task_offsets is not None or request.task_end_offsets is not None:
            _take_offsets(group, request)
        settings = self._state.settings(group.group_id)
        tags = settings.streams_rack_aware_assignment_tags
        configs = _configs(settings.streams_num_standby_replicas, tags)
        group_epoch = group.group_epoch
        if (
            has_changed
            or is_new
            or validated_epoch != group.validated_topology_epoch
            or configs != group.last_assignment_configs
        ):
            group_epoch += 1
            log.append(
                records.group_metadata(
                    group.group_id,
                    group_epoch,
                    metadata_hash,
                    validated_epoch,
                    configs,
                    group.description_epochs,
                )
            )
            self._state.note(group.group_id, f"epoch {group_epoch}: members or topics changed")
            self._state.rebalances[GroupType.STREAMS] += 1
            deadline_ms = self._state.clock.now_ms() + METADATA_REFRESH_MS
            group.refresh_metadata_at(deadline_ms, group_epoch)
        if not group.members:
            self._targets.begin_delay(group.group_id)
        target = self._targets.update(group, group_epoch, after, configured, configs, log)
        if target.delay is not None:
            statuses.append(
                Status(status_code=status.ASSIGNMENT_DELAYED, status_detail=target.delay)
            )
        after = self._reconcile(group, after, target, request, log)
        self.expect_heartbeat(group.group_id, after.member_id)
        if request.shutdown_application:
            group.request_shutdown(after.member_id)
        replaced = None if former is None or former.member_id == after.member_id else former
        response = self._response(group, before, after, request, replaced)
        response.status = [*statuses, *_problems(group, configured)]
        if requester.api_version >= TAGS_VERSION:
            response.status += _missing_tags(after, tags)
        return CoordinatorResult(log, Outcome(response, configured.missing))

    # -- steps ----------------------------------------------------------------------------------

    def _group_to_join(
        self, request: StreamsGroupHeartbeatRequest, log: list[CoordinatorRecord]
    ) -> StreamsGroup:
        """Return the group, or a new group, which is registered by the replay of `log`."""
        group_id = request.group_id
        group = self._state.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            limit = self._state.config.group_streams_max_size
            is_known = (
                request.member_id in group.members
                or group.static_member(request.instance_id) is not None
            )
            if len(group.members) >= limit and not is_known:
                raise ApiError(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"The streams group has reached its maximum capacity of {limit} members.",
                )
            return group
        if isinstance(group, ClassicGroup) and group.is_empty:
            log.extend(group.tombstones())
            group.cancel_timers(self._state.timers)
        elif group is not None:
            raise _not_streams(group_id)
        return StreamsGroup(group_id, self._state.journal)

    def _group(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroup:
        group = self._state.group(request.group_id)
        if not isinstance(group, StreamsGroup):
            raise _not_streams(request.group_id)
        return group

    def _member(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        log: list[CoordinatorRecord],
    ) -> StreamsMember:
        """Return the member before the request. It is created, or replaces a static member that left.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID or
                UNRELEASED_INSTANCE_ID.
        """
        member_id, instance_id = request.member_id, request.instance_id
        if request.member_epoch != JOIN_EPOCH:
            if instance_id is None:
                member = group.member(member_id)
            else:
                member = _static_owner(group, instance_id, member_id)
            _check_epoch(member, request)
            return member
        former = group.static_member(instance_id)
        if former is None:
            return group.members.get(member_id) or StreamsMember(member_id)
        if former.member_epoch != STATIC_LEAVE_EPOCH:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Member {member_id} cannot join: instance id {instance_id} is in use by member "
                f"{former.member_id}.",
            )
        member = former._replace(
            member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
        )
        group_id = group.group_id
        self._state.note(group_id, f"{member_id} replaces {former.member_id}")
        log.extend(records.member_tombstones(group_id, former.member_id))
        log.append(records.member_metadata(group_id, member))
        target = group.target(former.member_id)
        log.append(records.target_assignment(group_id, member_id, target))
        log.append(records.current_assignment(group_id, member))
        return member

    def _topology(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        log: list[CoordinatorRecord],
    ) -> Topology:
        """Return the group's topology. If the group has none, it gets the topology of the request."""
        present = group.topology
        if request.topology is None:
            if present is None:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
            return present
        value = topology_value(request.topology)
        topology = Topology.of(value)
        if present is None:
            log.append(records.topology(group.group_id, value))
            return topology
        if present.epoch <= topology.epoch and present != topology:
            message = "Topology updates are not supported yet."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        return present

    def _configured(
        self, group: StreamsGroup, topology: Topology
    ) -> tuple[int, ConfiguredTopology, bool]:
        """Return the hash of the topics, the configured topology, and whether the hash changed."""
        configured = group.configured
        if (
            group.topology is not None
            and configured is not None
            and not group.has_stale_metadata(self._state.clock.now_ms())
        ):
            return group.metadata_hash, configured, False
        metadata_hash = self._topics.group_hash(topology.required_topics)
        has_changed = metadata_hash != group.metadata_hash
        if configured is None or has_changed or group.topology is None:
            configured = configure(topology, self._state.image.topics)
            group.set_configured(configured)
        return metadata_hash, configured, has_changed

    def _reconcile(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        target: Target,
        request: StreamsGroupHeartbeatRequest,
        log: list[CoordinatorRecord],
    ) -> StreamsMember:
        """Return the member after its next step; append a record if the member changes."""
        if member.is_reconciled_to(target.epoch):
            return member
        owned = None
        active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
        if active is not None and standby is not None and warmup is not None:
            owned = Tasks(task_set(active), task_set(standby), task_set(warmup))
        after = Reconciliation(group, member, target.epoch, target.tasks, owned).step()
        if after != member:
            log.append(records.current_assignment(group.group_id, after))
            self._timeouts.expect_revocation(group.group_id, after)
        return after

    def _response(
        self,
        group: StreamsGroup,
        before: StreamsMember,
        after: StreamsMember,
        request: StreamsGroupHeartbeatRequest,
        replaced: StreamsMember | None,
    ) -> StreamsGroupHeartbeatResponse:
        """Return the response. `replaced` is the static member that `after` replaces."""
        settings = self._state.settings(group.group_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=settings.streams_heartbeat_interval_ms,
            task_offset_interval_ms=settings.streams_task_offset_interval_ms,
            acceptable_recovery_lag=settings.streams_acceptable_recovery_lag,
        )
        has_other_tasks = after.assigned != before.assigned
        if request.member_epoch == JOIN_EPOCH or has_other_tasks:
            response.active_tasks = _task_ids(after.assigned.active)
            response.standby_tasks = _task_ids(after.assigned.standby)
            response.warmup_tasks = _task_ids(after.assigned.warmup)
        if after.endpoint != before.endpoint or (has_other_tasks and after.endpoint is not None):
            group.change_endpoints()
        if group.endpoints_epoch != request.endpoint_information_epoch:
            topics = self._state.image.topics
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                group, after, topics, replaced
            )
        if group.group_id in self._state.groups:  # a new group begins with the epoch 0
            response.endpoint_information_epoch = group.endpoints_epoch
        return response

    # -- leaving --------------------------------------------------------------------------------

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> CoordinatorResult[Outcome]:
        group = self._group(request)
        if request.shutdown_application:
            group.request_shutdown(request.member_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = _static_owner(group, request.instance_id, request.member_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                self._state.note(group.group_id, f"{member.member_id} leaves temporarily")
                record = records.current_assignment(group.group_id, _away(member))
                return CoordinatorResult([record], Outcome(response))
        self._state.note(group.group_id, f"{member.member_id} leaves")
        return CoordinatorResult(self._removal(group, member), Outcome(response))

    def _removal(self, group: StreamsGroup, member: StreamsMember) -> list[CoordinatorRecord]:
        """Return the records that remove a member; cancel its timers."""
        state = self._state
        keys.MEMBERS.cancel_all(state.timers, state.journal, group.group_id, member.member_id)
        epoch = records.group_metadata(
            group.group_id,
            group.group_epoch + 1,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.last_assignment_configs,
            group.description_epochs,
        )
        log = [*records.member_tombstones(group.group_id, member.member_id), epoch]
        if len(group.members) == 1:
            log.append(records.target_epoch(group.group_id, group.group_epoch + 1, 0))
        return log

    # -- timeouts -------------------------------------------------------------------------------

    def on_loaded(self, group: StreamsGroup) -> None:
        """Start the timeouts of all members."""
        for member in group.members.values():
            self.expect_heartbeat(group.group_id, member.member_id)
            if member.must_revoke:
                self._timeouts.expect_revocation(group.group_id, member)

    def expect_heartbeat(self, group_id: str, member_id: str) -> None:
        """Start or restart the session timeout of a member."""
        timeout_ms = self._state.settings(group_id).streams_session_timeout_ms
        self._timeouts.expect_heartbeat(group_id, member_id, timeout_ms)

    def dismiss(self, group_id: str, member_id: str, why: str) -> CoordinatorResult[None]:
        """Remove a member, if it still exists."""
        group = self._state.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or member_id not in group.members:
            return NOTHING
        self._state.note(group_id, f"{member_id} {why}")
        return CoordinatorResult(self._removal(group, group.members[member_id]), None)


def _check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Check the epoch of a member.

    The previous epoch is valid if the member has no other tasks than the assigned ones, because it
    may not have received the response with its new epoch.
    """
    epoch, assigned = request.member_epoch, member.assigned
    if epoch == member.member_epoch:
        return
    if (
        epoch < member.member_epoch
        and epoch == member.previous_member_epoch
        and contained(request.active_tasks, assigned.active)
        and contained(request.standby_tasks, assigned.standby)
        and contained(request.warmup_tasks, assigned.warmup)
    ):
        return
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member is in epoch {member.member_epoch}, not {epoch}. "
        "It must abandon all its tasks and rejoin.",
    )


def _static_owner(group: StreamsGroup, instance_id: str, member_id: str) -> StreamsMember:
    """Return the member with an instance id. It must have the member id `member_id`."""
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance id {instance_id} belongs to member {member.member_id} now, "
            f"not to {member_id}.",
        )
    return member


def _away(member: StreamsMember) -> StreamsMember:
    """Return a static member after it left temporarily. It keeps its tasks."""
    held = member.assigned
    active = {each: dict.fromkeys(partitions, 0) for each, partitions in held.active.items()}
    return member._replace(
        member_epoch=STATIC_LEAVE_EPOCH,
        assigned=held._replace(active=active),
        pending_revocation=NONE_HELD,
    )


def _take_facts(
    group: StreamsGroup,
    former: StreamsMember | None,
    before: StreamsMember,
    after: StreamsMember,
    log: list[CoordinatorRecord],
) -> bool:
    """Append the record of a member that is new or has changed. Return whether targets may change.

    `former` is the static member with the same instance id. It may return from another host.
    """
    if after == before and (former is not None or after.member_id in group.members):
        return False
    log.append(records.member_metadata(group.group_id, after))
    return former is None or _facts(before) != _facts(after)


def _configs(standby_replicas: int, tags: Sequence[str]) -> dict[str, str]:
    """Return the settings of an assignment."""
    configs = {STANDBY_REPLICAS: str(standby_replicas)}
    if tags:
        configs[RACK_TAGS] = ",".join(tags)
    return configs


def _facts(member: StreamsMember) -> tuple[object, ...]:
    """What changes the assignment if a static member has other values."""
    return member.topology_epoch, member.rack_id, member.client_tags, member.process_id


def _missing_tags(member: StreamsMember, tags: Iterable[str]) -> list[Status]:
    missing = [each for each in tags if each not in member.client_tags]
    if not missing:
        return []
    text = (
        "Missing required client tags for rack-aware standby assignment: "
        f"[{', '.join(missing)}]. Configure them via 'client.tag.<tagKey>' in your Streams config."
    )
    return [Status(status_code=status.MISSING_CLIENT_TAGS, status_detail=text)]


def _take_offsets(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> None:
    """Note the offsets of a member's tasks.

    Raises:
        ApiError: INVALID_REQUEST: a task occurs twice.
    """
    for offsets, note in (
        (request.task_offsets, group.set_task_offsets),
        (request.task_end_offsets, group.set_task_end_offsets),
    ):
        found: dict[tuple[str, int], int] = {}
        for each in offsets or ():
            task = each.subtopology_id, each.partition
            if task in found:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Task offsets contain a duplicate entry for subtopology {task[0]} and "
                    f"partition {task[1]}.",
                )
            found[task] = each.offset
        if offsets is not None:
            note(request.member_id, found)


def _wish(
    before: StreamsMember, request: StreamsGroupHeartbeatRequest, requester: Requester
) -> StreamsMember:
    """Return the member with the fields of the request. Omitted fields keep their value."""
    tags, endpoint, timeout_ms = (
        request.client_tags,
        request.user_endpoint,
        request.rebalance_timeout_ms,
    )
    by_key = before.client_tags if tags is None else {each.key: each.value for each in tags}
    if tags is not None and len(by_key) < len(tags):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "Two client tags have the same key.")
    place = None if endpoint is None else Endpoint(endpoint.host, endpoint.port)
    if place is None and request.member_epoch != JOIN_EPOCH:
        place = before.endpoint
    return before._replace(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=(
            before.topology_epoch if request.topology is None else request.topology.epoch
        ),
        client_id=requester.client_id,
        client_host=requester.host,
        process_id=before.process_id if request.process_id is None else request.process_id,
        client_tags=by_key,
        endpoint=place,
    )


def _check_tasks(request: StreamsGroupHeartbeatRequest, configured: ConfiguredTopology) -> None:
    """Check that the tasks of the request exist."""
    assert configured.subtopologies is not None
    asked: Iterable[wire.TaskIds] = (
        *(request.active_tasks or ()),
        *(request.standby_tasks or ()),
        *(request.warmup_tasks or ()),
    )
    for each in asked:
        subtopology = configured.subtopologies.get(each.subtopology_id)
        if subtopology is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Subtopology {each.subtopology_id} does not exist in the topology.",
            )
        for partition in each.partitions:
            if not 0 <= partition < subtopology.task_count:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Task {partition} for subtopology {each.subtopology_id} is invalid. Number of "
                    f"tasks for this subtopology: {subtopology.task_count}",
                )


def _stale_topology(group: StreamsGroup, member: StreamsMember) -> list[Status]:
    topology = group.topology
    if topology is None or member.topology_epoch >= topology.epoch:
        return []
    detail = (
        f"The member's topology epoch {member.topology_epoch} is behind the group's topology "
        f"epoch {topology.epoch}."
    )
    return [Status(status_code=status.STALE_TOPOLOGY, status_detail=detail)]


def _problems(group: StreamsGroup, configured: ConfiguredTopology) -> list[Status]:
    """Return the statuses for a topology that is not ready and for a requested shutdown."""
    found = []
    problem, requester = configured.problem, group.shutdown_requested_by
    if problem is not None:
        found.append(Status(status_code=problem.status, status_detail=problem.detail))
    if requester is not None:
        detail = (
            f"Streams group member {requester} encountered a fatal error and requested a shutdown "
            "for the entire application."
        )
        found.append(Status(status_code=status.SHUTDOWN_APPLICATION, status_detail=detail))
    return found


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=each, partitions=sorted(partitions))
        for each, partitions in tasks.items()
    ]


def _not_streams(group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
