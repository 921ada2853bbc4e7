"""What each served API needs, after Apache Kafka's KafkaApis and ControllerApis.

A row has a request, the operations that it needs, and the error without them. The node has the
topic `t` with one partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from odradek.model.acl import CLUSTER_NAME, AclOperation, AclResourceType
from odradek.model.errors import ErrorCode
from odradek.wire.api import BY_KEY
from odradek.wire.primitives import Message

Need = tuple[AclOperation, AclResourceType, str]
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
DELETE, CREATE, ALTER = AclOperation.DELETE, AclOperation.CREATE, AclOperation.ALTER
CONFIGS = AclOperation.DESCRIBE_CONFIGS
OF_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
OF_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
OF_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
OF_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
OF_TOKEN = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
REFUSALS = frozenset((OF_TOPIC, OF_GROUP, OF_CLUSTER, OF_ID, OF_TOKEN))


def topic(operation: AclOperation, name: str = "t") -> Need:
    return operation, TOPIC, name


def group(operation: AclOperation) -> Need:
    return operation, GROUP, "g"


def cluster(operation: AclOperation) -> Need:
    return operation, AclResourceType.CLUSTER, CLUSTER_NAME


def transaction(operation: AclOperation) -> Need:
    return operation, TRANSACTIONAL_ID, "x"


@dataclass(frozen=True)
class Row:
    """A request of one API."""

    key: int
    version: int
    fields: dict[str, Any]
    needs: list[Need]
    errors: list[ErrorCode]
    """By need: the error without it."""
    is_on_controller: bool = False

    def request(self) -> Message:
        """The request, as it is decoded."""
        kind = BY_KEY[self.key].request_class()
        return kind.decode(build(kind, self.fields).encode(self.version), self.version)


def build(kind: Any, fields: dict[str, Any]) -> Any:
    """A message, whose structs are dictionaries in `fields`."""
    hints = get_type_hints(vars(kind)["__init__"])
    values = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            hint = next((h for h in get_args(hints[name]) if h is not type(None)), hints[name])
            value = build(hint, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            hint = next((h for h in get_args(hints[name]) if get_args(h)), hints[name])
            (element,) = get_args(hint)
            value = [build(element, each) for each in value]
        values[name] = value
    return kind(**values)


def on_cluster(key: int, version: int, need: AclOperation, /, **fields: Any) -> Row:
    return Row(key, version, fields, [cluster(need)], [OF_CLUSTER])


def for_nodes(key: int, version: int, **fields: Any) -> Row:
    """A request between nodes, which controllers serve."""
    need = cluster(AclOperation.CLUSTER_ACTION)
    return Row(key, version, fields, [need], [OF_CLUSTER], is_on_controller=True)


PARTITION = [{"partition_index": 0}]
NAMED = [{"name": "t", "partitions": PARTITION}]
INDEXED = [{"name": "t", "partition_indexes": [0]}]
SHARED = [{"topic_id": bytes(16), "partitions": [{"partition": 0}]}]
ACL = {"resource_type": 2, "resource_name": "u", "principal": "User:z", "host": "*"}
ROWS = [
    Row(
        0,
        12,
        {
            "acks": -1,
            "timeout_ms": 1000,
            "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b""}]}],
        },
        [topic(WRITE)],
        [OF_TOPIC],
    ),
    Row(
        1,
        12,
        {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}], "min_bytes": 0},
        [topic(READ)],
        [OF_TOPIC],
    ),
    Row(2, 5, {"replica_id": -1, "topics": NAMED}, [topic(DESCRIBE)], [OF_TOPIC]),
    Row(3, 12, {"topics": [{"name": "t"}]}, [topic(DESCRIBE)], [OF_TOPIC]),
    Row(
        3,
        12,
        {"topics": [{"name": "new"}], "allow_auto_topic_creation": True},
        [topic(DESCRIBE, "new"), topic(CREATE, "new")],
        [OF_TOPIC, OF_TOPIC],
    ),
    Row(8, 9, {"group_id": "g", "topics": NAMED}, [group(READ), topic(READ)], [OF_GROUP, OF_TOPIC]),
    Row(
        9,
        8,
        {"groups": [{"group_id": "g", "topics": INDEXED}]},
        [group(DESCRIBE), topic(DESCRIBE)],
        [OF_GROUP, OF_TOPIC],
    ),
    Row(10, 4, {"key_type": 0, "coordinator_keys": ["g"]}, [group(DESCRIBE)], [OF_GROUP]),
    Row(10, 3, {"key_type": 1, "key": "x"}, [transaction(DESCRIBE)], [OF_ID]),
    Row(
        11,
        5,
        {
            "group_id": "g",
            "session_timeout_ms": 30000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        [group(READ)],
        [OF_GROUP],
    ),
    Row(12, 4, {"group_id": "g"}, [group(READ)], [OF_GROUP]),
    Row(13, 4, {"group_id": "g", "members": [{"member_id": "m"}]}, [group(READ)], [OF_GROUP]),
    Row(14, 4, {"group_id": "g"}, [group(READ)], [OF_GROUP]),
    Row(15, 5, {"groups": ["g"]}, [group(DESCRIBE)], [OF_GROUP]),
    Row(
        19,
        7,
        {"topics": [{"name": "c", "num_partitions": 1, "replication_factor": 1}]},
        [topic(CREATE, "c")],
        [OF_TOPIC],
    ),
    Row(
        20,
        6,
        {"topics": [{"name": "t", "topic_id": bytes(16)}], "timeout_ms": 1},
        [topic(DELETE)],
        [OF_TOPIC],
    ),
    Row(21, 2, {"topics": NAMED, "timeout_ms": 1}, [topic(DELETE)], [OF_TOPIC]),
    Row(
        22, 4, {"transactional_id": "x", "transaction_timeout_ms": 1}, [transaction(WRITE)], [OF_ID]
    ),
    Row(
        22,
        4,
        {"transactional_id": None},
        [cluster(AclOperation.IDEMPOTENT_WRITE)],
        [OF_CLUSTER],
    ),
    Row(22, 4, {"transactional_id": None}, [topic(WRITE, "any")], [OF_CLUSTER]),
    Row(
        23,
        4,
        {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}]},
        [topic(DESCRIBE)],
        [OF_TOPIC],
    ),
    Row(
        24,
        3,
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        },
        [transaction(WRITE), topic(WRITE)],
        [OF_ID, OF_TOPIC],
    ),
    on_cluster(24, 4, AclOperation.CLUSTER_ACTION, transactions=[]),
    Row(
        25,
        3,
        {"transactional_id": "x", "group_id": "g"},
        [transaction(WRITE), group(READ)],
        [OF_ID, OF_GROUP],
    ),
    Row(26, 4, {"transactional_id": "x"}, [transaction(WRITE)], [OF_ID]),
    on_cluster(27, 1, AclOperation.CLUSTER_ACTION, markers=[{"producer_id": 1, "topics": INDEXED}]),
    on_cluster(27, 1, ALTER, markers=[{"producer_id": 1, "topics": INDEXED}]),
    Row(
        28,
        3,
        {"transactional_id": "x", "group_id": "g", "topics": NAMED},
        [transaction(WRITE), group(READ), topic(READ)],
        [OF_ID, OF_GROUP, OF_TOPIC],
    ),
    on_cluster(29, 3, DESCRIBE, resource_type_filter=1, operation=1, permission_type=1),
    on_cluster(30, 3, ALTER, creations=[{**ACL, "operation": 3, "permission_type": 3}]),
    on_cluster(31, 3, ALTER, filters=[{"resource_type_filter": 5, "principal_filter": "User:z"}]),
    Row(
        32,
        4,
        {"resources": [{"resource_type": 2, "resource_name": "t"}]},
        [topic(CONFIGS)],
        [OF_TOPIC],
    ),
    Row(
        32,
        4,
        {"resources": [{"resource_type": 32, "resource_name": "g"}]},
        [group(CONFIGS)],
        [OF_GROUP],
    ),
    on_cluster(32, 4, CONFIGS, resources=[{"resource_type": 4, "resource_name": "1"}]),
    Row(
        33,
        2,
        {"resources": [{"resource_type": 2, "resource_name": "t"}], "validate_only": True},
        [topic(AclOperation.ALTER_CONFIGS)],
        [OF_TOPIC],
    ),
    on_cluster(34, 2, ALTER, dirs=[{"path": "/x", "topics": [{"name": "t", "partitions": [0]}]}]),
    on_cluster(35, 4, DESCRIBE, topics=None),
    Row(
        37,
        3,
        {"topics": [{"name": "t", "count": 1}], "validate_only": True},
        [topic(ALTER)],
        [OF_TOPIC],
    ),
    Row(42, 2, {"groups_names": ["g"]}, [group(DELETE)], [OF_GROUP]),
    on_cluster(43, 2, ALTER, topic_partitions=[{"topic": "t", "partitions": [0]}]),
    Row(
        44,
        1,
        {"resources": [{"resource_type": 32, "resource_name": "g"}], "validate_only": True},
        [group(AclOperation.ALTER_CONFIGS)],
        [OF_GROUP],
    ),
    on_cluster(
        44,
        1,
        AclOperation.ALTER_CONFIGS,
        resources=[
            {"resource_type": 4, "resource_name": "1"},
            {"resource_type": 8, "resource_name": "1"},
            {"resource_type": 16, "resource_name": "m"},
        ],
        validate_only=True,
    ),
    on_cluster(45, 0, ALTER, topics=[]),
    on_cluster(46, 0, DESCRIBE, topics=None),
    on_cluster(48, 1, CONFIGS, components=[]),
    on_cluster(
        49,
        1,
        AclOperation.ALTER_CONFIGS,
        entries=[{"entity": [{"entity_type": "user", "entity_name": "z"}], "ops": []}],
        validate_only=True,
    ),
    on_cluster(50, 0, DESCRIBE, users=None),
    on_cluster(51, 0, ALTER, deletions=[{"name": "z", "mechanism": 1}]),
    Row(
        47,
        0,
        {"group_id": "g", "topics": NAMED},
        [group(DELETE), topic(READ)],
        [OF_GROUP, OF_TOPIC],
    ),
    on_cluster(55, 2, DESCRIBE, topics=[]),
    on_cluster(57, 1, ALTER, feature_updates=[], validate_only=True),
    Row(
        61,
        0,
        {"topics": INDEXED},
        [topic(READ)],
        [OF_TOPIC],
    ),
    on_cluster(64, 0, ALTER, broker_id=99),
    on_cluster(94, 0, ALTER, controller_id=99),
    Row(65, 0, {"transactional_ids": ["x"]}, [transaction(DESCRIBE)], [OF_ID]),
    Row(
        68,
        1,
        {"group_id": "g", "member_id": "m", "subscribed_topic_names": ["t"]},
        [group(READ), topic(DESCRIBE)],
        [OF_GROUP, OF_TOPIC],
    ),
    Row(69, 1, {"group_ids": ["g"]}, [group(DESCRIBE)], [OF_GROUP]),
    on_cluster(74, 1, CONFIGS, resource_types=[]),
    Row(
        76,
        1,
        {"group_id": "g", "member_id": "m", "subscribed_topic_names": ["t"]},
        [group(READ), topic(DESCRIBE)],
        [OF_GROUP, OF_TOPIC],
    ),
    Row(77, 1, {"group_ids": ["g"]}, [group(DESCRIBE)], [OF_GROUP]),
    Row(78, 2, {"group_id": "g", "member_id": "m"}, [group(READ)], [OF_GROUP]),
    Row(
        79,
        2,
        {"group_id": "g", "member_id": "m", "share_session_epoch": 5},
        [group(READ)],
        [OF_GROUP],
    ),
    *(
        on_cluster(key, 0, AclOperation.CLUSTER_ACTION, group_id="g", topics=SHARED)
        for key in (83, 84, 85, 86, 87)
    ),
    Row(
        90,
        0,
        {"groups": [{"group_id": "g", "topics": [{"topic_name": "t", "partitions": [0]}]}]},
        [group(DESCRIBE), topic(DESCRIBE)],
        [OF_GROUP, OF_TOPIC],
    ),
    Row(
        91,
        0,
        {"group_id": "g", "topics": [{"topic_name": "t", "partitions": PARTITION}]},
        [group(READ), topic(READ)],
        [OF_GROUP],  # without the topic there is an error of the group, which is no share group
    ),
    Row(
        92,
        0,
        {"group_id": "g", "topics": [{"topic_name": "t"}]},
        [group(DELETE), topic(READ)],
        [OF_GROUP],  # without the topic there is an error of the group, which is no share group
    ),
    Row(
        88,
        0,
        {
            "group_id": "g",
            "member_id": "m",
            "rebalance_timeout_ms": 1000,
            "process_id": "p",
            "topology": {"subtopologies": [{"subtopology_id": "0", "source_topics": ["t"]}]},
        },
        [group(READ), topic(DESCRIBE)],
        [OF_GROUP, OF_TOPIC],
    ),
    Row(89, 0, {"group_ids": ["g"]}, [group(DESCRIBE)], [OF_GROUP]),
    Row(93, 0, {"group_id": "g", "member_id": "m"}, [group(READ)], [OF_GROUP]),
    Row(75, 0, {"topics": [{"name": "t"}]}, [topic(DESCRIBE)], [OF_TOPIC]),
    *(
        Row(
            38,
            3,
            {"owner_principal_type": "User", "owner_principal_name": "z"},
            [(AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:z")],
            [OF_TOKEN],
            is_on_controller=on_controller,
        )
        for on_controller in (False, True)
    ),
    for_nodes(1, 12, cluster_id="other"),
    for_nodes(52, 2, cluster_id="other"),
    for_nodes(53, 1, cluster_id="other"),
    for_nodes(54, 1, cluster_id="other"),
    for_nodes(56, 3, broker_id=99),
    for_nodes(58, 0, request_data=b""),
    for_nodes(59, 1, cluster_id="other"),
    for_nodes(62, 4, cluster_id="other"),
    for_nodes(63, 1, broker_id=99),
    for_nodes(67, 0, broker_id=99),
    for_nodes(70, 0, controller_id=99),
    for_nodes(73, 0, broker_id=99),
    for_nodes(82, 0, cluster_id="other"),
    on_cluster(80, 0, ALTER, cluster_id="other"),
    on_cluster(81, 0, ALTER, cluster_id="other"),
    *(
        Row(key, version, fields, [cluster(ALTER)], [OF_CLUSTER], is_on_controller=True)
        for key, version, fields in (
            (60, 1, {"endpoint_type": 2}),
            (80, 0, {"cluster_id": "other"}),
            (81, 0, {"cluster_id": "other"}),
        )
    ),
]
WITHOUT_ERRORS = frozenset((16, 41, 60, 66))
"""APIs that hide what the client may not see, without an error: `test_each_api.py` tests them."""
UNCHECKED = frozenset((17, 18, 36, 39, 40, 71, 72))
"""APIs that every client may use. 39 and 40 are for the owner and the renewers of a token."""
