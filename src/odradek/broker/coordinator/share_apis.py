"""The five APIs of the share coordinator, which have the same shape.

A request has a group id and topics, a topic has its id and partitions. The response has a result
for each topic, with a result for each partition. The partitions are different messages for each
API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.model.errors import ErrorCode
from odradek.wire.generated import (
    delete_share_group_state_request,
    delete_share_group_state_response,
    initialize_share_group_state_request,
    initialize_share_group_state_response,
    read_share_group_state_request,
    read_share_group_state_response,
    read_share_group_state_summary_request,
    read_share_group_state_summary_response,
    write_share_group_state_request,
    write_share_group_state_response,
)


class ShareStateApi(NamedTuple):
    """The messages of one API, and the operation of the state machine."""

    operation: str
    """The name of the method of `ShareCoordinatorMachine`."""
    label: str
    request: Any
    request_topic: Any
    response: Any
    response_topic: Any
    response_partition: Any
    needs_partitions: bool = True
    """Whether a topic without partitions makes the response empty."""

    def is_complete(self, request: Any) -> bool:
        """Return whether the request names a group, topics and partitions.

        Apache Kafka returns an empty response to other requests.
        """
        if not request.group_id or not request.topics:
            return False
        return not self.needs_partitions or all(each.partitions for each in request.topics)

    def ask(self, group_id: str, partitions: Mapping[SharePartitionKey, Any]) -> Any:
        """Return a request with partitions of one group."""
        topics: dict[bytes, Any] = {}
        for key, data in partitions.items():
            topic = topics.get(key.topic_id)
            if topic is None:
                topic = topics[key.topic_id] = self.request_topic(topic_id=key.topic_id)
            topic.partitions.append(data)
        return self.request(group_id=group_id, topics=list(topics.values()))

    def respond(self, request: Any, results: Mapping[SharePartitionKey, Any]) -> Any:
        """Return the response with the results, in the order of the request.

        A topic or partition that is listed twice has one result, as in Kafka.
        """
        keys: dict[bytes, dict[SharePartitionKey, None]] = {}
        for topic in request.topics:
            for each in topic.partitions:
                key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
                keys.setdefault(topic.topic_id, {})[key] = None
        topics = [
            self.response_topic(topic_id=topic_id, partitions=[results[key] for key in found])
            for topic_id, found in keys.items()
        ]
        return self.response(results=topics)

    def results(self, group_id: str, response: Any) -> dict[SharePartitionKey, Any]:
        """Return the results in a response."""
        return {
            SharePartitionKey(group_id, topic.topic_id, each.partition): each
            for topic in response.results
            for each in topic.partitions
        }

    def failure(self, key: SharePartitionKey, code: ErrorCode, message: str | None) -> Any:
        """Return the result of a partition whose operation has failed."""
        return self.response_partition(
            partition=key.partition, error_code=code, error_message=message or code.message
        )


INITIALIZE: Final = ShareStateApi(
    "initialize",
    "initialize",
    initialize_share_group_state_request.InitializeShareGroupStateRequest,
    initialize_share_group_state_request.InitializeStateData,
    initialize_share_group_state_response.InitializeShareGroupStateResponse,
    initialize_share_group_state_response.InitializeStateResult,
    initialize_share_group_state_response.PartitionResult,
    needs_partitions=False,
)
READ: Final = ShareStateApi(
    "read",
    "read",
    read_share_group_state_request.ReadShareGroupStateRequest,
    read_share_group_state_request.ReadStateData,
    read_share_group_state_response.ReadShareGroupStateResponse,
    read_share_group_state_response.ReadStateResult,
    read_share_group_state_response.PartitionResult,
)
WRITE: Final = ShareStateApi(
    "write",
    "write",
    write_share_group_state_request.WriteShareGroupStateRequest,
    write_share_group_state_request.WriteStateData,
    write_share_group_state_response.WriteShareGroupStateResponse,
    write_share_group_state_response.WriteStateResult,
    write_share_group_state_response.PartitionResult,
)
DELETE: Final = ShareStateApi(
    "delete",
    "delete",
    delete_share_group_state_request.DeleteShareGroupStateRequest,
    delete_share_group_state_request.DeleteStateData,
    delete_share_group_state_response.DeleteShareGroupStateResponse,
    delete_share_group_state_response.DeleteStateResult,
    delete_share_group_state_response.PartitionResult,
)
READ_SUMMARY: Final = ShareStateApi(
    "read_summary",
    "read the summary of",
    read_share_group_state_summary_request.ReadShareGroupStateSummaryRequest,
    read_share_group_state_summary_request.ReadStateSummaryData,
    read_share_group_state_summary_response.ReadShareGroupStateSummaryResponse,
    read_share_group_state_summary_response.ReadStateSummaryResult,
    read_share_group_state_summary_response.PartitionResult,
)
