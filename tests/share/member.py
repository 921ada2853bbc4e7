"""A member of a share group that sends its requests itself."""

from __future__ import annotations

from collections.abc import Sequence

from compat.lab.wire_client import WireClient, batch_headers

from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from odradek.wire.generated.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.wire.generated.share_acknowledge_response import ShareAcknowledgeResponse
from odradek.wire.generated.share_fetch_request import (
    AcknowledgementBatch as FetchAcknowledgement,
)
from odradek.wire.generated.share_fetch_request import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from odradek.wire.generated.share_fetch_response import PartitionData, ShareFetchResponse
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

GROUP_RESOURCE = 32
NOT_READY = (14, 15, 16)
"""The coordinator loads, or its topic does not exist yet."""
VERSION = 2

Batch = tuple[int, int, Sequence[int]]
"""First offset, last offset, types of acknowledgements."""


def configure(client: WireClient, group: str, **settings: str) -> None:
    """Set settings of a group; `_` stands for a dot."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=GROUP_RESOURCE,
                resource_name=group,
                configs=[
                    AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
                    for name, value in settings.items()
                ],
            )
        ]
    )
    response = client.call("IncrementalAlterConfigs", 1, request, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in response.responses] == [0], response.responses


class Member:
    """A member with one session for one topic."""

    def __init__(self, client: WireClient, group: str, member: str, topic_id: bytes) -> None:
        self.client = client
        self.group = group
        self.member = member
        self.topic_id = topic_id
        self.epoch = 0

    def join(self, *topics: str) -> None:
        """Join the group, and wait until the member has partitions of all topics."""
        epoch = 0
        assignment = None
        while assignment is None or len(assignment.topic_partitions) < len(topics):
            request = ShareGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member,
                member_epoch=epoch,
                subscribed_topic_names=list(topics) if epoch == 0 else None,
            )
            response = self.client.call(
                "ShareGroupHeartbeat", 1, request, ShareGroupHeartbeatResponse
            )
            if response.error_code in NOT_READY:
                find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
                self.client.call("FindCoordinator", 4, find, FindCoordinatorResponse)
                continue
            assert response.error_code == 0, response
            epoch = response.member_epoch
            assignment = response.assignment

    def fetch(
        self,
        *partitions: int,
        acknowledge: Sequence[Batch] = (),
        epoch: int | None = None,
        **fields: object,
    ) -> ShareFetchResponse:
        """Send a ShareFetch with the next epoch; acknowledge records of the first partition."""
        topic = FetchTopic(topic_id=self.topic_id)
        for number, index in enumerate(partitions):
            batches = [
                FetchAcknowledgement(first_offset=first, last_offset=last, acknowledge_types=types)
                for first, last, types in (acknowledge if number == 0 else ())
            ]
            topic.partitions.append(
                FetchPartition(partition_index=index, acknowledgement_batches=batches)
            )
        values: dict[str, object] = {
            "max_wait_ms": 0, "min_bytes": 1, "max_records": 500, "batch_size": 500,
        } | fields  # fmt: skip
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=[topic] if partitions else [],
            **values,  # type: ignore[arg-type]
        )
        response = self.client.call("ShareFetch", VERSION, request, ShareFetchResponse)
        if epoch is None and not response.error_code:
            self.epoch += 1
        return response

    def acknowledge(
        self,
        *batches: Batch,
        partition: int = 0,
        epoch: int | None = None,
        is_renew_ack: bool = False,
        version: int = VERSION,
    ) -> ShareAcknowledgeResponse:
        """Send a ShareAcknowledge with the next epoch."""
        found = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in batches
        ]
        part = AcknowledgePartition(partition_index=partition, acknowledgement_batches=found)
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=is_renew_ack,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[part])],
        )
        response = self.client.call("ShareAcknowledge", version, request, ShareAcknowledgeResponse)
        if epoch is None and not response.error_code:
            self.epoch += 1
        return response

    def acquired(self, *partitions: int, **fields: object) -> list[tuple[int, int, int]]:
        """Fetch until records are acquired; return first offset, last offset and delivery count."""
        first = True
        while True:
            response = self.fetch(*(partitions if first else ()), **fields)  # type: ignore[arg-type]
            assert response.error_code == 0, response
            first = False
            found = [
                (each.first_offset, each.last_offset, each.delivery_count)
                for result in results(response)
                for each in result.acquired_records
            ]
            if found:
                return found


def results(response: ShareFetchResponse) -> list[PartitionData]:
    """Return the partitions of a response."""
    return [each for topic in response.responses for each in topic.partitions]


def offsets(result: PartitionData) -> list[int]:
    """Return the base offsets of the batches in a result."""
    return [each.base_offset for each in batch_headers(result.records or b"")]


def errors(response: ShareAcknowledgeResponse) -> list[int]:
    """Return the error codes of the partitions in a response."""
    return [each.error_code for topic in response.responses for each in topic.partitions]
