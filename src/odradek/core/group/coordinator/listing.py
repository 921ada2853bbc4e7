"""ListGroups, DescribeGroups, ConsumerGroupDescribe and DeleteGroups."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.group.classic.group import ClassicGroup, ClassicState
from odradek.core.group.consumer import description
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.modern.describing import described
from odradek.core.group.offsets.deletion import Deletion
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.consumer_group_describe_response import (
    DescribedGroup as DescribedConsumerGroup,
)
from odradek.wire.generated.delete_groups_response import DeletableGroupResult
from odradek.wire.generated.describe_groups_response import DescribedGroup
from odradek.wire.generated.list_groups_response import ListedGroup

NOT_FOUND_VERSION = 6
"""From this version on, DescribeGroups returns GROUP_ID_NOT_FOUND for groups that do not exist.

Earlier versions return a group in the state Dead.
"""


class Listing:
    """Lists and describes groups of all types, and deletes groups without members."""

    def __init__(self, state: GroupState, deletion: Deletion) -> None:
        self._state = state
        self._deletion = deletion

    def list_groups(
        self, states_filter: Iterable[str], types_filter: Iterable[str]
    ) -> list[ListedGroup]:
        """Return the groups with one of the states and one of the types.

        An empty filter accepts all groups.
        """
        # Apache Kafka filters the state NotReady as not_ready.
        states = {each.strip().lower().replace("_", "") for each in states_filter}
        types = {each.lower() for each in types_filter}
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type_name,
                group_state=group.state_name,
                group_type=group.type.value,
            )
            for group in self._state.groups.values()
            if (not states or group.state_name.lower() in states)
            and (not types or group.type.value in types)
        ]

    def describe(self, group_ids: Iterable[str], api_version: int) -> list[DescribedGroup]:
        """Describe classic groups. Groups of other types get the same error as missing groups."""
        return [self._describe(group_id, api_version) for group_id in group_ids]

    def _describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self._state.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
            if api_version >= NOT_FOUND_VERSION:
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                described.error_message = (
                    f"Group {group_id} not found."
                    if group is None
                    else f"Group {group_id} is not a classic group."
                )
            return described
        protocol = group.protocol_name if group.state is ClassicState.STABLE else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type_name,
            protocol_data=protocol or "",
            members=[each.describe(protocol) for each in group.members.values()],
        )

    def describe_consumer_groups(
        self, group_ids: Iterable[str], default_assignor: str
    ) -> list[DescribedConsumerGroup]:
        """Describe consumer groups. Groups of other types get the same error as missing groups."""
        topics = self._state.image.topics
        return described(
            self._state,
            group_ids,
            ConsumerGroup,
            lambda group: description.describe(group, default_assignor, topics),
            DescribedConsumerGroup,
        )

    def delete(self, group_ids: Collection[str]) -> CoordinatorResult[list[DeletableGroupResult]]:
        """Delete groups without members, and their offsets. Other groups get an error."""
        records: list[CoordinatorRecord] = []
        results = []
        for group_id in group_ids:
            result = DeletableGroupResult(group_id=group_id)
            results.append(result)
            try:
                group = self._state.group(group_id)
                group.validate_delete()
            except ApiError as error:
                result.error_code = error.code
                result.error_message = error.message
                continue
            records.extend(self._deletion.tombstones(group_id))
            records.extend(group.tombstones())
            group.cancel_timers(self._state.timers)
            self._state.note(group_id, "deleted by request")
        return CoordinatorResult(records, results)
