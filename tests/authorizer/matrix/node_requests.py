"""Requests of the matrix that nodes send to one another."""

from __future__ import annotations

import dataclasses
import struct

from tests.authorizer.matrix.request import UNKNOWN_ID, Request
from tests.authorizer.matrix.rights import cluster

from odradek.model.acl import AclOperation
from odradek.wire.api import BY_NAME
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.default_principal_data import DefaultPrincipalData
from odradek.wire.generated.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.primitives import Message

ALTER, CLUSTER_ACTION = AclOperation.ALTER, AclOperation.CLUSTER_ACTION
OTHER = "other"
"""The id of another cluster."""
_BROKER = {"broker_id": 99, "broker_epoch": 1}
_LISTENER = {"name": "CONTROLLER", "host": "localhost", "port": 1, "security_protocol": 0}


def _envelope(inner: Message, api: str, version: int, principal: str) -> dict[str, bytes]:
    key = BY_NAME[api].key
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=7)
    kind, _, name = principal.partition(":")
    return {
        "request_data": header.encode(BY_NAME[api].request_header_version(version))
        + inner.encode(version),
        "request_principal": struct.pack(">h", 0)
        + DefaultPrincipalData(type=kind, name=name).encode(0),
        "client_host_address": bytes((10, 0, 0, 1)),
    }


def _of_other_quorums() -> list[Request]:
    action = cluster(CLUSTER_ACTION)
    quorum = {
        "cluster_id": OTHER,
        "topics": [
            {
                "topic_name": "__cluster_metadata",
                "partitions": [{"partition_index": 0, "leader_id": 1, "leader_epoch": 1}],
            }
        ],
    }
    vote = {
        "cluster_id": OTHER,
        "topics": [
            {
                "topic_name": "__cluster_metadata",
                "partitions": [{"partition_index": 0, "replica_epoch": 1, "replica_id": 99}],
            }
        ],
    }
    return [
        Request("of another cluster", "Fetch", 12, {
            "cluster_id": OTHER, "replica_id": 99, "topics": [
                {"topic": "__cluster_metadata", "partitions": [{"partition": 0}]}]}, action),
        Request("of another cluster", "Vote", 2, vote, action),
        Request("of another cluster", "BeginQuorumEpoch", 1, quorum, action),
        Request("of another cluster", "EndQuorumEpoch", 1, quorum, action),
        Request("of another cluster", "FetchSnapshot", 1, {
            "cluster_id": OTHER, "topics": [{"name": "__cluster_metadata", "partitions": [
                {"partition": 0, "snapshot_id": {"end_offset": 1, "epoch": 1}}]}]}, action),
    ]  # fmt: skip


def _envelopes() -> list[Request]:
    action = cluster(CLUSTER_ACTION)
    created = CreateTopicsRequest(
        topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)],
        timeout_ms=5000,
        validate_only=True,
    )
    described = DescribeQuorumRequest(
        topics=[TopicData(topic_name="wrong", partitions=[PartitionData(partition_index=0)])]
    )
    return [
        Request("for a user without rights", "Envelope", 0, _envelope(
            described, "DescribeQuorum", 1, "User:someone"), action),
        Request("for a super user", "Envelope", 0, _envelope(
            described, "DescribeQuorum", 1, "User:ANONYMOUS"), action),
        Request("CreateTopics", "Envelope", 0, _envelope(
            created, "CreateTopics", 7, "User:someone"), action),
        Request("without a principal", "Envelope", 0, {
            **_envelope(described, "DescribeQuorum", 1, "User:someone"),
            "request_principal": None}, action),
    ]  # fmt: skip


def _of_nodes() -> list[Request]:
    action = cluster(CLUSTER_ACTION)
    features = [
        {"name": "metadata.version", "min_supported_version": 1, "max_supported_version": 20}
    ]
    return [
        Request("of another cluster", "BrokerRegistration", 4, {
            "broker_id": 99, "cluster_id": OTHER, "incarnation_id": UNKNOWN_ID, "rack": None,
            "listeners": [_LISTENER], "features": features, "log_dirs": [UNKNOWN_ID]}, action),
        Request("", "BrokerHeartbeat", 1, {**_BROKER, "current_metadata_offset": 1}, action),
        Request("", "AllocateProducerIds", 0, _BROKER, action),
        Request("", "AssignReplicasToDirs", 0, {**_BROKER, "directories": []}, action),
        Request("of another cluster", "UpdateRaftVoter", 0, {
            "cluster_id": OTHER, "voter_id": 99, "voter_directory_id": UNKNOWN_ID,
            "listeners": [{"name": "CONTROLLER", "host": "localhost", "port": 1}],
            "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1}},
            action),
        Request("", "ControllerRegistration", 0, {
            "controller_id": 99, "incarnation_id": UNKNOWN_ID, "listeners": [_LISTENER],
            "features": features}, action),
        Request("", "DescribeCluster", 1, {
            "include_cluster_authorized_operations": True, "endpoint_type": 2}, cluster(ALTER)),
        Request("of brokers", "DescribeCluster", 1, {"endpoint_type": 1}, cluster(ALTER)),
    ]  # fmt: skip


def requests_between_nodes() -> list[Request]:
    """The requests, for the listeners of controllers."""
    requests = [
        *_of_other_quorums(),
        Request("", "AlterPartition", 3, {**_BROKER, "topics": []}, cluster(CLUSTER_ACTION)),
        *_envelopes(),
        *_of_nodes(),
    ]
    return [dataclasses.replace(each, is_on_controller=True) for each in requests]
