"""The protocol's error codes, and the exception that has an error code.

The project has three kinds of errors:

- Errors that a client causes or must know about. The response has an `ErrorCode`. Code raises
  `ApiError` to put the code into the response.
- Failures during operation, such as a failed disk. The package in which the failure occurs has an
  exception for it.
- Violated invariants. An `assert` checks the invariant.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """An error code of the protocol (`org.apache.kafka.common.protocol.Errors`).

    `retriable` says whether the same request may succeed later. `message` is a description in one
    sentence.
    """

    retriable: bool
    message: str

    def __new__(cls, value: int, retriable: bool, message: str) -> Self:
        """Make a member of the enumeration with the attributes `retriable` and `message`."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.retriable = retriable
        member.message = message
        return member

    @classmethod
    def of(cls, value: int) -> ErrorCode:
        """Return the error code with this number; UNKNOWN_SERVER_ERROR if the number is unknown."""
        found = cls._value2member_map_.get(value, cls.UNKNOWN_SERVER_ERROR)
        assert isinstance(found, ErrorCode)
        return found

    UNKNOWN_SERVER_ERROR = (
        -1,
        False,
        "The server met an error that it did not expect; see its log.",
    )
    NONE = (0, False, "No error.")
    OFFSET_OUT_OF_RANGE = (1, False, "The offset is outside the range that the partition holds.")
    CORRUPT_MESSAGE = (2, True, "The record batch is corrupt: its checksum, size or form is wrong.")
    UNKNOWN_TOPIC_OR_PARTITION = (3, True, "This server does not host this topic-partition.")
    INVALID_FETCH_SIZE = (4, False, "The requested fetch size is invalid.")
    LEADER_NOT_AVAILABLE = (5, True, "The partition has no leader at the moment.")
    NOT_LEADER_OR_FOLLOWER = (
        6,
        True,
        "This broker is not the leader, or not a replica, of the partition.",
    )
    REQUEST_TIMED_OUT = (7, True, "The request timed out.")
    BROKER_NOT_AVAILABLE = (8, False, "The broker is not available.")
    REPLICA_NOT_AVAILABLE = (9, True, "The replica is not available.")
    MESSAGE_TOO_LARGE = (10, False, "The record batch is larger than the topic accepts.")
    STALE_CONTROLLER_EPOCH = (11, False, "The controller has moved.")
    OFFSET_METADATA_TOO_LARGE = (12, False, "The metadata of the committed offset is too large.")
    NETWORK_EXCEPTION = (13, True, "The connection ended before the response arrived.")
    COORDINATOR_LOAD_IN_PROGRESS = (14, True, "The coordinator is still loading its state.")
    COORDINATOR_NOT_AVAILABLE = (15, True, "The coordinator is not available.")
    NOT_COORDINATOR = (16, True, "This is not the correct coordinator.")
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "The topic's name is invalid, or the operation is not allowed on it.",
    )
    RECORD_LIST_TOO_LARGE = (18, False, "The record batch is larger than a segment may be.")
    NOT_ENOUGH_REPLICAS = (19, True, "There are fewer in-sync replicas than min.insync.replicas.")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The records were written, but to fewer in-sync replicas than required.",
    )
    INVALID_REQUIRED_ACKS = (21, False, "acks must be 0, 1 or -1 (all).")
    ILLEGAL_GENERATION = (
        22,
        False,
        "The request's generation is not the group's current generation.",
    )
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member has no protocols, or no protocol that the group supports.",
    )
    INVALID_GROUP_ID = (24, False, "The group id is invalid.")
    UNKNOWN_MEMBER_ID = (25, False, "The coordinator does not know this member.")
    INVALID_SESSION_TIMEOUT = (
        26,
        False,
        "The session timeout is outside group.min.session.timeout.ms to group.max.session.timeout.ms.",
    )
    REBALANCE_IN_PROGRESS = (27, False, "The group is rebalancing; join again.")
    INVALID_COMMIT_OFFSET_SIZE = (28, False, "The size of the committed offset data is invalid.")
    TOPIC_AUTHORIZATION_FAILED = (29, False, "Topic authorization failed.")
    GROUP_AUTHORIZATION_FAILED = (30, False, "Group authorization failed.")
    CLUSTER_AUTHORIZATION_FAILED = (31, False, "Cluster authorization failed.")
    INVALID_TIMESTAMP = (32, False, "A record's timestamp is outside the accepted range.")
    UNSUPPORTED_SASL_MECHANISM = (33, False, "The SASL mechanism is not enabled on this listener.")
    ILLEGAL_SASL_STATE = (34, False, "The request does not fit the state of the SASL exchange.")
    UNSUPPORTED_VERSION = (35, False, "This version of the API is not supported.")
    TOPIC_ALREADY_EXISTS = (36, False, "A topic of this name exists already.")
    INVALID_PARTITIONS = (37, False, "The number of partitions is invalid.")
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is below 1 or larger than the number of available brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = (39, False, "The replica assignment is invalid.")
    INVALID_CONFIG = (40, False, "The configuration is invalid.")
    NOT_CONTROLLER = (41, True, "This node is not the active controller.")
    INVALID_REQUEST = (
        42,
        False,
        "This most likely occurs because of a request being malformed by the client library or "
        "the message was sent to an incompatible broker. See the broker logs for more details.",
    )
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, False, "The message format does not support the request.")
    POLICY_VIOLATION = (44, False, "The request violates a policy of the cluster.")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        False,
        "The producer's sequence number does not follow the last sequence number.",
    )
    DUPLICATE_SEQUENCE_NUMBER = (46, False, "The producer's sequence number was seen before.")
    INVALID_PRODUCER_EPOCH = (47, False, "The producer's epoch is older than the current epoch.")
    INVALID_TXN_STATE = (48, False, "The transaction is not in a state that allows this.")
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        False,
        "The producer id does not belong to the transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "The transaction timeout is above transaction.max.timeout.ms.",
    )
    CONCURRENT_TRANSACTIONS = (51, True, "Another operation on the same transaction is under way.")
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "A newer transaction coordinator has taken over this producer.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        False,
        "Transactional Id authorization failed.",
    )
    SECURITY_DISABLED = (54, False, "Security features are disabled.")
    OPERATION_NOT_ATTEMPTED = (
        55,
        False,
        "Not attempted, because another part of the request failed.",
    )
    KAFKA_STORAGE_ERROR = (56, True, "The disk with the partition's log failed.")
    LOG_DIR_NOT_FOUND = (57, False, "The broker does not have this log directory.")
    SASL_AUTHENTICATION_FAILED = (58, False, "Authentication failed.")
    UNKNOWN_PRODUCER_ID = (59, False, "The broker holds no state of this producer id.")
    REASSIGNMENT_IN_PROGRESS = (60, False, "A reassignment of the partition is in progress.")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, False, "Delegation tokens are not enabled.")
    DELEGATION_TOKEN_NOT_FOUND = (62, False, "The delegation token does not exist.")
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        False,
        "The principal neither owns nor may renew the token.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Delegation tokens cannot be requested over this channel.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        False,
        "Delegation Token authorization failed.",
    )
    DELEGATION_TOKEN_EXPIRED = (66, False, "The delegation token has expired.")
    INVALID_PRINCIPAL_TYPE = (67, False, "The principal type is not supported.")
    NON_EMPTY_GROUP = (68, False, "The group still has members.")
    GROUP_ID_NOT_FOUND = (69, False, "The group does not exist.")
    FETCH_SESSION_ID_NOT_FOUND = (70, True, "The fetch session does not exist.")
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        True,
        "The epoch of the fetch session is not the expected one.",
    )
    LISTENER_NOT_FOUND = (
        72,
        True,
        "The leader has no listener with the name of the listener that received the request.",
    )
    TOPIC_DELETION_DISABLED = (73, False, "delete.topic.enable is false.")
    FENCED_LEADER_EPOCH = (74, True, "The request's leader epoch is older than the broker's.")
    UNKNOWN_LEADER_EPOCH = (75, True, "The request's leader epoch is newer than the broker's.")
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "The client's version does not support the compression of the partition.",
    )
    STALE_BROKER_EPOCH = (77, False, "The broker epoch is not the current one.")
    OFFSET_NOT_AVAILABLE = (78, True, "The new leader's high watermark is not known yet.")
    MEMBER_ID_REQUIRED = (79, False, "Join again with the member id given in this response.")
    PREFERRED_LEADER_NOT_AVAILABLE = (80, True, "The preferred leader is not available.")
    GROUP_MAX_SIZE_REACHED = (
        81,
        False,
        "The group has the maximum number of members (group.max.size).",
    )
    FENCED_INSTANCE_ID = (82, False, "Another member has taken over this group.instance.id.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, True, "No replica that may become leader is available.")
    ELECTION_NOT_NEEDED = (84, True, "Leader election not needed for topic partition.")
    NO_REASSIGNMENT_IN_PROGRESS = (85, False, "No reassignment of the partition is in progress.")
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        False,
        "The group is subscribed to the topic, so its offsets cannot be deleted.",
    )
    INVALID_RECORD = (87, False, "The broker refused a record; see the record errors.")
    UNSTABLE_OFFSET_COMMIT = (88, True, "An open transaction holds offsets of the group.")
    THROTTLING_QUOTA_EXCEEDED = (89, True, "A quota is exceeded; try again later.")
    PRODUCER_FENCED = (
        90,
        False,
        "A newer producer with the same transactional id has fenced this one.",
    )
    RESOURCE_NOT_FOUND = (91, False, "The resource does not exist.")
    DUPLICATE_RESOURCE = (92, False, "The request names the same resource twice.")
    UNACCEPTABLE_CREDENTIAL = (93, False, "The credential does not meet the requirements.")
    INCONSISTENT_VOTER_SET = (94, False, "Sender or receiver is not among the expected voters.")
    INVALID_UPDATE_VERSION = (95, False, "The feature level is invalid.")
    FEATURE_UPDATE_FAILED = (96, False, "The finalized features could not be updated.")
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97,
        False,
        "The principal of a forwarded request cannot be read.",
    )
    SNAPSHOT_NOT_FOUND = (98, False, "The snapshot does not exist.")
    POSITION_OUT_OF_RANGE = (99, False, "The position is outside the snapshot.")
    UNKNOWN_TOPIC_ID = (100, True, "This server does not host this topic ID.")
    DUPLICATE_BROKER_REGISTRATION = (101, False, "A live broker uses this broker id.")
    BROKER_ID_NOT_REGISTERED = (102, False, "No broker of this id is registered.")
    INCONSISTENT_TOPIC_ID = (103, True, "The topic id differs from the topic id of the log.")
    INCONSISTENT_CLUSTER_ID = (104, False, "The request has the id of another cluster.")
    TRANSACTIONAL_ID_NOT_FOUND = (105, False, "The transactional id does not exist.")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, True, "The fetch session mixes topic names and topic ids.")
    INELIGIBLE_REPLICA = (107, False, "A replica of the new ISR is not eligible.")
    NEW_LEADER_ELECTED = (108, False, "The change of the partition has elected a new leader.")
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, False, "The offset is in tiered storage now.")
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "The member epoch is fenced; give up all partitions and join again.",
    )
    UNRELEASED_INSTANCE_ID = (111, False, "Another member still uses this instance id.")
    UNSUPPORTED_ASSIGNOR = (112, False, "The group's coordinator does not have this assignor.")
    STALE_MEMBER_EPOCH = (113, False, "The member epoch is stale; heartbeat first.")
    MISMATCHED_ENDPOINT_TYPE = (114, False, "The request was meant for the other kind of endpoint.")
    UNSUPPORTED_ENDPOINT_TYPE = (115, False, "This kind of endpoint is not supported.")
    UNKNOWN_CONTROLLER_ID = (116, False, "The controller id is not known.")
    UNKNOWN_SUBSCRIPTION_ID = (117, False, "The telemetry subscription is unknown or outdated.")
    TELEMETRY_TOO_LARGE = (118, False, "The telemetry is larger than the broker accepts.")
    INVALID_REGISTRATION = (119, False, "The registration is invalid.")
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "The transaction failed; abort it and go on with the same transactional id.",
    )
    INVALID_RECORD_STATE = (
        121,
        False,
        "The state of the record does not allow this acknowledgement.",
    )
    SHARE_SESSION_NOT_FOUND = (122, True, "The share session does not exist.")
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        True,
        "The epoch of the share session is not the expected one.",
    )
    FENCED_STATE_EPOCH = (124, False, "The state epoch is fenced.")
    INVALID_VOTER_KEY = (125, False, "The voter key is not the key of the receiving replica.")
    DUPLICATE_VOTER = (126, False, "The voter is in the voter set already.")
    VOTER_NOT_FOUND = (127, False, "The voter is not in the voter set.")
    INVALID_REGULAR_EXPRESSION = (128, False, "The regular expression is invalid.")
    REBOOTSTRAP_REQUIRED = (129, False, "The client's metadata is out of date; bootstrap again.")
    STREAMS_INVALID_TOPOLOGY = (130, False, "The topology is invalid.")
    STREAMS_INVALID_TOPOLOGY_EPOCH = (131, False, "The topology epoch is invalid.")
    STREAMS_TOPOLOGY_FENCED = (132, False, "The topology epoch is out of date.")
    SHARE_SESSION_LIMIT_REACHED = (133, True, "There are as many share sessions as allowed.")
    GROUP_DELETION_FAILED = (134, False, "The group could not be deleted; see the error message.")
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        False,
        "The topology description could not be updated.",
    )
    CONTROLLER_ID_NOT_REGISTERED = (136, False, "No controller of this id is registered.")


class ApiError(Exception):
    """An error that is sent in a response, with an error code and a message."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message if message is not None else code.message
        self.details = message
        """The message; None if there is only that of the code, which some responses leave out."""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
