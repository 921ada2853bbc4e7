"""The requests of the share coordinator over a socket, as brokers send them."""

from __future__ import annotations

import pytest

from odradek.broker.coordinator import share_apis
from odradek.client.cluster import Cluster
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse

TIMEOUT_MS = 10_000


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"orders": 2}) as broker:
        yield broker


@pytest.fixture
def ask(broker):
    """Sends a request and returns the answer."""
    with Cluster(broker.bootstrap_servers) as cluster:
        connection = cluster.any()
        yield lambda request, response: connection.request(request, response, TIMEOUT_MS)


@pytest.fixture
def key(ask):
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    (topic,) = ask(request, MetadataResponse).topics
    key = SharePartitionKey("workers", topic.topic_id, 1)
    find = FindCoordinatorRequest(key_type=2, coordinator_keys=[key.text])
    (found,) = ask(find, FindCoordinatorResponse).coordinators
    assert not found.error_code
    return key


def result(ask, api, key, data):
    response = ask(api.ask(key.group_id, {key: data}), api.response)
    return api.results(key.group_id, response)[key]


def test_a_state_is_begun_changed_read_and_deleted(ask, key):
    def data(module, **fields):
        return module.PartitionData(partition=1, **fields)

    read = share_apis.read_share_group_state_request
    begun = data(share_apis.initialize_share_group_state_request, state_epoch=1, start_offset=5)
    assert not result(ask, share_apis.INITIALIZE, key, begun).error_code
    written = data(
        share_apis.write_share_group_state_request,
        state_epoch=1,
        start_offset=6,
        delivery_complete_count=2,
        state_batches=[
            share_apis.write_share_group_state_request.StateBatch(
                first_offset=8, last_offset=9, delivery_state=2, delivery_count=1
            )
        ],
    )
    assert not result(ask, share_apis.WRITE, key, written).error_code
    found = result(ask, share_apis.READ, key, data(read, leader_epoch=3))
    (batch,) = found.state_batches
    assert (found.start_offset, batch.first_offset, batch.last_offset) == (6, 8, 9)
    assert result(ask, share_apis.WRITE, key, written).error_code == ErrorCode.FENCED_LEADER_EPOCH
    summary = data(share_apis.read_share_group_state_summary_request)
    found = result(ask, share_apis.READ_SUMMARY, key, summary)
    assert (found.start_offset, found.leader_epoch, found.delivery_complete_count) == (6, 3, 2)
    deleted = data(share_apis.delete_share_group_state_request)
    assert not result(ask, share_apis.DELETE, key, deleted).error_code
    assert result(ask, share_apis.READ, key, data(read)).error_code == ErrorCode.INVALID_REQUEST


def test_the_key_of_a_share_partition_is_checked(ask, key):
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["workers", key.text])
    wrong, right = ask(request, FindCoordinatorResponse).coordinators
    assert wrong.error_code == ErrorCode.INVALID_REQUEST
    assert right.port > 0
