"""The requests and responses of the quorum survive their encoding, in the newest versions."""

import asyncio

import pytest

from odradek.broker.raft.quorum_requests import QuorumRequests
from odradek.broker.raft.wire_messages import (
    UnknownPartition,
    from_request,
    from_response,
    to_request,
    to_response,
)
from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from odradek.core.raft.voters import Destination
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.api import BY_KEY
from odradek.wire.generated.api_versions_response import ApiVersionsResponse, SupportedFeatureKey

from .simulated_log import voter

ONE, TWO = voter(1), voter(2)
END = OffsetAndEpoch(12, 3)
LEADER = Destination(2, "node2", 9093)
COMMON = {"epoch": 4, "leader_id": 2, "leader": LEADER}
MESSAGES = [
    (
        VoteRequest(4, ONE.key, TWO.key, END, is_pre_vote=True),
        VoteResponse(**COMMON, is_granted=True),
    ),
    (BeginQuorumEpochRequest(4, 1, TWO.key, ONE.endpoints), EpochResponse(**COMMON)),
    (
        EndQuorumEpochRequest(4, 1, (TWO.key, ONE.key), ONE.endpoints),
        EpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH, **COMMON),
    ),
    (
        FetchRequest(4, ONE.key, 12, 3, 500, 11),
        FetchResponse(**COMMON, high_watermark=9, log_start_offset=2, records=b"records"),
    ),
    (
        FetchRequest(4, ONE.key, 12, 3, 500),
        FetchResponse(**COMMON, high_watermark=9, log_start_offset=2, diverging=END),
    ),
    (
        FetchRequest(4, ONE.key, 12, 3, 500),
        FetchResponse(**COMMON, high_watermark=9, log_start_offset=2, snapshot=END),
    ),
    (
        FetchSnapshotRequest(4, ONE.key, END, 1000),
        FetchSnapshotResponse(**COMMON, snapshot=END, position=1000, size=1003, data=b"end"),
    ),
]


def through(message, cls=None):
    """The message after its encoding."""
    cls = cls or type(message)
    parts = []
    message.ENCODERS[cls.VERSION_MAX](message, parts.append)
    data = b"".join(parts)
    decoded, end = cls.DECODERS[cls.VERSION_MAX](memoryview(data), 0)
    assert end == len(data)
    return decoded


CHANGED = VoterChangeResponse(error=ErrorCode.REQUEST_TIMED_OUT, epoch=-1, message="later")
CHANGES = [
    (
        UpdateVoterRequest(4, ONE._replace(kraft_version_max=2)),
        VoterChangeResponse(error=ErrorCode.INVALID_REQUEST, **COMMON),
    ),
    (UpdateVoterRequest(4, ONE), VoterChangeResponse(epoch=4, leader_id=2)),
    (AddVoterRequest(ONE, ack_when_committed=False, timeout_ms=9), CHANGED),
    (RemoveVoterRequest(ONE.key), CHANGED),
]


@pytest.mark.parametrize(
    ("request_", "response"), [*MESSAGES, *CHANGES], ids=lambda each: type(each).__name__
)
def test_there_and_back(request_, response):
    message = through(to_request(request_, "cluster"))
    assert message.cluster_id == "cluster"
    assert from_request(message) == request_
    answer = through(to_response(message, response), BY_KEY[message.API_KEY].response_class())
    assert from_response(request_, answer) == response


def test_the_versions_of_a_new_voter():
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    message = ApiVersionsResponse(supported_features=[feature])
    assert from_response(VersionsRequest(), message) == VersionsResponse(kraft_version_max=1)
    assert from_response(VersionsRequest(), ApiVersionsResponse()) == VersionsResponse()
    request = to_request(VersionsRequest(), "cluster")
    assert request.client_software_name == "odradek"


def test_other_partitions_and_clusters_are_refused():
    message = to_request(MESSAGES[0][0], "cluster")
    message.topics[0].topic_name = "orders"
    with pytest.raises(UnknownPartition):
        from_request(message)
    with pytest.raises(ApiError) as raised:
        asyncio.run(QuorumRequests(None, "another").answer(message))
    assert raised.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
