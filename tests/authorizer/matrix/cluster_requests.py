"""Requests of the matrix about settings, ACLs, quotas, users and the cluster, and between nodes."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

from tests.authorizer.matrix.request import NAMES, UNKNOWN_ID, Request, by_name
from tests.authorizer.matrix.rights import Right, cluster, groups, topics

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

DESCRIBE, ALTER, CREATE = AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.CREATE
DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
TOPIC_KIND, BROKER_KIND, LOGGER_KIND, METRICS_KIND, GROUP_KIND = 2, 4, 8, 16, 32
OTHER = "other"
"""The id of another cluster."""
_ACL = {
    "resource_type": 2,
    "resource_name": "unused",
    "principal": "User:z2",
    "host": "*",
    "operation": int(AclOperation.READ),
    "permission_type": 3,
}
_LISTENER = {"name": "CONTROLLER", "host": "localhost", "port": 1, "security_protocol": 0}
_FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def _resources(*pairs: tuple[int, str], **fields: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": k, "resource_name": n, **fields} for k, n in pairs]}


def _described_settings() -> list[Request]:
    kinds = [*((TOPIC_KIND, name) for name in NAMES), (GROUP_KIND, "g"), (GROUP_KIND, "h")]
    everything = [*kinds, (BROKER_KIND, "1"), (METRICS_KIND, "m")]
    keys = {"configuration_keys": ["cleanup.policy", "consumer.session.timeout.ms"]}
    nothing: dict[str, Any] = {"configs": []}
    valid = {"validate_only": True}
    mine = [*topics(DESCRIBE_CONFIGS), *groups(DESCRIBE_CONFIGS), *cluster(DESCRIBE_CONFIGS)]
    alter = [*topics(ALTER_CONFIGS), *groups(ALTER_CONFIGS), *cluster(ALTER_CONFIGS)]
    return [
        Request("", "DescribeConfigs", 4, _resources(*everything, **keys), mine),
        Request("", "DescribeConfigs", 1, _resources(*everything, **keys), mine),
        Request(
            "only ALTER_CONFIGS", "DescribeConfigs", 4, _resources(*everything, **keys), alter
        ),
        Request(
            "of brokers", "DescribeConfigs", 4,
            _resources((BROKER_KIND, ""), (BROKER_KIND, "1"), (LOGGER_KIND, "1"),
                       configuration_keys=["no.such"]),
            cluster(DESCRIBE_CONFIGS),
        ),
        Request(
            "of a missing broker", "DescribeConfigs", 4,
            _resources((BROKER_KIND, "99"), (TOPIC_KIND, "t"), **keys), mine,
        ),
        *(
            Request("an unknown type", api, 1, {**_resources((TOPIC_KIND, "t"), (7, "x"), **fields), **more}, mine)
            for api, fields, more in (
                ("DescribeConfigs", keys, {}),
                ("AlterConfigs", nothing, valid),
                ("IncrementalAlterConfigs", nothing, valid),
            )
        ),
    ]  # fmt: skip


def _wrong_settings_of_a_broker(needs: list[Right]) -> list[Request]:
    changes = {
        "an invalid value of a broker": ("log.cleaner.threads", 0, "many"),
        "an element of an unknown setting of a broker": ("no.such.setting", 2, "a"),
    }
    return [
        Request(
            title, "IncrementalAlterConfigs", 1,
            {**_resources((BROKER_KIND, "1"), configs=[
                {"name": name, "config_operation": operation, "value": value}]),
             "validate_only": True},
            needs,
        )
        for title, (name, operation, value) in changes.items()
    ]  # fmt: skip


def _altered_settings() -> list[Request]:
    kinds = [*((TOPIC_KIND, name) for name in NAMES), (GROUP_KIND, "g"), (GROUP_KIND, "h")]
    everything = [*kinds, (BROKER_KIND, "1"), (METRICS_KIND, "m")]
    changed = {"configs": [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]}
    replaced = {"configs": [{"name": "retention.ms", "value": "1000"}]}
    of_group = {
        "configs": [
            {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}
        ]
    }
    nothing: dict[str, Any] = {"configs": []}
    names = [pair for pair in everything if pair[0] == TOPIC_KIND]
    valid = {"validate_only": True}
    alter = [*topics(ALTER_CONFIGS), *groups(ALTER_CONFIGS), *cluster(ALTER_CONFIGS)]
    return [
        Request(
            "loggers twice", "IncrementalAlterConfigs", 1,
            {**_resources((LOGGER_KIND, "1"), (LOGGER_KIND, "1"), (TOPIC_KIND, "t"), **nothing),
             **valid},
            alter,
        ),
        Request(
            "null values", "IncrementalAlterConfigs", 1,
            {**_resources(*names[:2], configs=[
                {"name": "retention.ms", "config_operation": 0, "value": None}]), **valid},
            alter,
        ),
        *_wrong_settings_of_a_broker(alter),
        Request("", "IncrementalAlterConfigs", 1, {**_resources(*names, **changed), **valid}, alter),
        Request(
            "other types", "IncrementalAlterConfigs", 1,
            {**_resources(*everything[4:], **nothing), **valid}, alter,
        ),
        Request(
            "of groups", "IncrementalAlterConfigs", 0,
            {**_resources((GROUP_KIND, "g"), (GROUP_KIND, "h"), **of_group), **valid}, alter,
        ),
        Request(
            "loggers and defaults", "IncrementalAlterConfigs", 1,
            {**_resources((LOGGER_KIND, "1"), (BROKER_KIND, ""), (BROKER_KIND, "99"), **nothing),
             **valid},
            cluster(ALTER_CONFIGS),
        ),
        Request(
            "twice", "IncrementalAlterConfigs", 1,
            {**_resources((TOPIC_KIND, "t"), (TOPIC_KIND, "t"), (TOPIC_KIND, "u"), **changed),
             **valid},
            alter,
        ),
        Request("", "AlterConfigs", 2, {**_resources(*names, **replaced), **valid}, alter),
        Request(
            "other types", "AlterConfigs", 0,
            {**_resources(*everything[4:], **nothing), **valid}, alter,
        ),
        *(
            Request(
                "", "ListConfigResources", version, fields, cluster(DESCRIBE_CONFIGS)
            )
            for version, fields in (
                (0, {}), (1, {"resource_types": [TOPIC_KIND]}), (1, {"resource_types": [4, 16, 32]})
            )
        ),
    ]  # fmt: skip


def _settings() -> list[Request]:
    return [*_described_settings(), *_altered_settings()]


def _users_and_logs() -> list[Request]:
    alter = cluster(ALTER)
    describe = cluster(DESCRIBE)
    quota = {
        "entity": [{"entity_type": "user", "entity_name": "z"}],
        "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
    }
    salted = {
        "name": "z", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p"
    }  # fmt: skip
    return [
        Request(
            "", "DescribeAcls", 3, {**_FILTER, "principal_filter": "User:z"}, describe
        ),
        Request(
            "only ALTER", "DescribeAcls", 1, {**_FILTER, "principal_filter": "User:z"}, alter
        ),
        Request("", "CreateAcls", 3, {"creations": [_ACL]}, alter),
        Request(
            "a user's own ACL", "DescribeAcls", 2, {**_FILTER, "principal_filter": "User:z2"},
            describe,
        ),
        Request(
            "", "DeleteAcls", 3, {"filters": [{**_FILTER, "principal_filter": "User:z2"}]}, alter
        ),
        Request(
            "", "DescribeClientQuotas", 1,
            {"components": [{"entity_type": "user", "match_type": 0, "match": "z"}]},
            cluster(DESCRIBE_CONFIGS),
        ),
        Request(
            "", "AlterClientQuotas", 1, {"entries": [quota], "validate_only": True},
            cluster(ALTER_CONFIGS),
        ),
        Request(
            "named", "DescribeUserScramCredentials", 0,
            {"users": [{"name": "z"}, {"name": "scram"}]}, describe,
        ),
        Request(
            "", "AlterUserScramCredentials", 0,
            {"deletions": [{"name": "z", "mechanism": 1}], "upsertions": []}, alter,
        ),
        Request(
            "upserted", "AlterUserScramCredentials", 0,
            {"deletions": [], "upsertions": [{**salted, "name": ""}]}, alter,
        ),
        Request(
            "", "AlterReplicaLogDirs", 2,
            {"dirs": [{"path": "/no/such", "topics": [
                {"name": each, "partitions": [0]} for each in ("t", "gone")
            ]}]},
            alter,
        ),
        Request("all", "DescribeLogDirs", 4, {"topics": None}, describe),
        Request(
            "", "DescribeLogDirs", 5,
            {"topics": [{"topic": each, "partitions": [0]} for each in NAMES]}, describe,
        ),
        Request("", "DescribeLogDirs", 2, {"topics": None}, alter),
    ]  # fmt: skip


def _partitions_and_nodes() -> list[Request]:
    alter = cluster(ALTER)
    describe = cluster(DESCRIBE)
    quorum = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    elected = [{"topic": each, "partitions": [0]} for each in ("t", "gone")]
    moved = [
        {"name": each, "partitions": [{"partition_index": 0, "replicas": [1]}]}
        for each in ("t", "gone")
    ]
    operations = {"include_cluster_authorized_operations": True}
    voter = {"cluster_id": OTHER, "timeout_ms": 1000, "voter_id": 99}
    return [
        Request("", "ElectLeaders", 2, {"topic_partitions": elected, "timeout_ms": 5000}, alter),
        Request("all", "ElectLeaders", 0, {"topic_partitions": None, "timeout_ms": 5000}, alter),
        Request(
            "", "AlterPartitionReassignments", 1, {"topics": moved, "timeout_ms": 5000}, alter
        ),
        Request("all", "ListPartitionReassignments", 0, {"topics": None}, describe),
        Request(
            "", "ListPartitionReassignments", 0,
            {"topics": by_name(0, ("t", "gone"), parts="partition_indexes")}, describe,
        ),
        Request("", "DescribeQuorum", 2, {"topics": quorum}, describe),
        Request("", "DescribeQuorum", 0, {"topics": quorum}, describe),
        Request("another topic", "DescribeQuorum", 2, {"topics": [
            {"topic_name": "t", "partitions": [{"partition_index": 0}]}]}, describe),
        Request("", "UpdateFeatures", 1, {"feature_updates": [], "validate_only": True}, alter),
        Request(
            "an unknown feature", "UpdateFeatures", 2,
            {
                "feature_updates": [
                    {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1}
                ],
                "validate_only": True,
            },
            alter,
        ),
        Request("", "DescribeCluster", 0, operations, describe),
        Request("", "DescribeCluster", 2, {**operations, "include_fenced_brokers": True}, describe),
        Request(
            "operations", "DescribeCluster", 1, operations,
            [*describe, *alter, *cluster(ALTER_CONFIGS)],
        ),
        Request("of controllers", "DescribeCluster", 1, {**operations, "endpoint_type": 2}, alter),
        Request("", "UnregisterBroker", 0, {"broker_id": 99}, alter),
        Request("", "AddRaftVoter", 1, {**voter, "voter_directory_id": UNKNOWN_ID, "listeners": [
            {"name": "CONTROLLER", "host": "localhost", "port": 1}]}, alter),
        Request(
            "", "RemoveRaftVoter", 0,
            {"cluster_id": OTHER, "voter_id": 99, "voter_directory_id": UNKNOWN_ID}, alter,
        ),
        Request("", "GetTelemetrySubscriptions", 0, {"client_instance_id": UNKNOWN_ID}),
        Request(
            "", "PushTelemetry", 0,
            {"client_instance_id": UNKNOWN_ID, "subscription_id": 5, "metrics": b""},
        ),
        Request("", "ApiVersions", 4, {"client_software_name": "a", "client_software_version": "1"}),
        Request("", "ApiVersions", 2, {}),
        Request("after authentication", "SaslHandshake", 1, {"mechanism": "PLAIN"}),
        Request("after authentication", "SaslHandshake", 0, {"mechanism": "none"}),
        Request("after authentication", "SaslAuthenticate", 2, {"auth_bytes": b"\0admin\0x"}),
    ]  # fmt: skip


def _cluster() -> list[Request]:
    return [*_users_and_logs(), *_partitions_and_nodes()]


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


def _between_nodes() -> list[Request]:
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
    created = CreateTopicsRequest(
        topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)],
        timeout_ms=5000,
        validate_only=True,
    )
    described = DescribeQuorumRequest(
        topics=[TopicData(topic_name="wrong", partitions=[PartitionData(partition_index=0)])]
    )
    broker = {"broker_id": 99, "broker_epoch": 1}
    features = [{"name": "metadata.version", "min_supported_version": 1,
                 "max_supported_version": 20}]  # fmt: skip
    requests = [
        Request("of another cluster", "Fetch", 12, {
            "cluster_id": OTHER, "replica_id": 99, "topics": [
                {"topic": "__cluster_metadata", "partitions": [{"partition": 0}]}]}, action),
        Request("of another cluster", "Vote", 2, vote, action),
        Request("of another cluster", "BeginQuorumEpoch", 1, quorum, action),
        Request("of another cluster", "EndQuorumEpoch", 1, quorum, action),
        Request("of another cluster", "FetchSnapshot", 1, {
            "cluster_id": OTHER, "topics": [{"name": "__cluster_metadata", "partitions": [
                {"partition": 0, "snapshot_id": {"end_offset": 1, "epoch": 1}}]}]}, action),
        Request("", "AlterPartition", 3, {**broker, "topics": []}, action),
        Request("for a user without rights", "Envelope", 0, _envelope(
            described, "DescribeQuorum", 1, "User:someone"), action),
        Request("for a super user", "Envelope", 0, _envelope(
            described, "DescribeQuorum", 1, "User:ANONYMOUS"), action),
        Request("CreateTopics", "Envelope", 0, _envelope(
            created, "CreateTopics", 7, "User:someone"), action),
        Request("without a principal", "Envelope", 0, {
            **_envelope(described, "DescribeQuorum", 1, "User:someone"),
            "request_principal": None}, action),
        Request("of another cluster", "BrokerRegistration", 4, {
            "broker_id": 99, "cluster_id": OTHER, "incarnation_id": UNKNOWN_ID, "rack": None,
            "listeners": [_LISTENER], "features": features, "log_dirs": [UNKNOWN_ID]}, action),
        Request("", "BrokerHeartbeat", 1, {**broker, "current_metadata_offset": 1}, action),
        Request("", "AllocateProducerIds", 0, broker, action),
        Request("", "AssignReplicasToDirs", 0, {**broker, "directories": []}, action),
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
    return [dataclasses.replace(each, is_on_controller=True) for each in requests]


_ALSO_ON_CONTROLLERS = frozenset(
    (
        *("DescribeAcls", "CreateAcls", "DeleteAcls", "AlterConfigs", "IncrementalAlterConfigs"),
        *("AlterClientQuotas", "AlterUserScramCredentials", "ElectLeaders", "DescribeQuorum"),
        *("AlterPartitionReassignments", "ListPartitionReassignments", "UpdateFeatures"),
        *("UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter", "SaslHandshake"),
        *("SaslAuthenticate", "ApiVersions", "DescribeUserScramCredentials"),
        "DescribeConfigs",
    )
)


def _cluster_requests() -> list[Request]:
    ours = [*_settings(), *_cluster()]
    controllers = [
        dataclasses.replace(each, is_on_controller=True)
        for each in ours
        if each.api in _ALSO_ON_CONTROLLERS
    ]
    return [*ours, *controllers, *_between_nodes()]


CLUSTER_REQUESTS = _cluster_requests()
