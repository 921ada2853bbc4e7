"""Exceptions of the client, with advice for the user."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Self

from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition

_ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "See which topics exist: odradek topic list",
    ErrorCode.TOPIC_ALREADY_EXISTS: (
        "Choose another name, or look at the topic: odradek topic describe {topic}"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "Use 1 to 249 letters, digits, dots, underscores or hyphens; internal topics are protected."
    ),
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "Ask for no more replicas than there are brokers: odradek cluster describe"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: "Raise max.message.bytes of the topic, or send smaller records.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Start more brokers, or lower min.insync.replicas.",
    ErrorCode.NON_EMPTY_GROUP: "Stop the group's consumers first: odradek group describe {group}",
    ErrorCode.BROKER_NOT_AVAILABLE: "See which brokers there are: odradek cluster describe",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "See which ids there are: odradek transaction list",
    ErrorCode.GROUP_ID_NOT_FOUND: "See which groups exist: odradek group list",
    ErrorCode.OFFSET_OUT_OF_RANGE: "See what the partitions hold: odradek topic offsets {topic}",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "The internal topic of the coordinator may not be ready yet; try again."
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "The group uses another protocol or assignor; use another group id."
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Stop the consumers of the topic first.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Set delete.topic.enable=true on the controllers.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "An administrator sees which ACLs apply: odradek acl list --applying-to topic:{topic}"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        "An administrator sees which ACLs apply: odradek acl list --applying-to group:{group}"
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "An administrator sees which ACLs apply: odradek acl list --applying-to transactional-id:{transactional_id}"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "An administrator sees which ACLs apply: odradek acl list --applying-to cluster"
    ),
    ErrorCode.UNKNOWN_SERVER_ERROR: "The broker's log has the reason.",
}
"""Advice by error code. The names in braces come from the subject of the error."""

_SUBJECT = re.compile(
    r"topic (?P<topic>.+)|transactional id (?P<transactional_id>.+)"
    r"|(group (?P<group>.+?))?(, )?(partition (?P<of_partition>.+)-\d+)?",
    re.DOTALL,
)

_CODES = {code.value: code for code in ErrorCode}


class ClientError(Exception):
    """Base class of the client's errors.

    `retriable` says whether a retry may succeed. `advice` says what the user can do, or is empty.
    """

    retriable = False
    advice = ""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        if advice:
            self.advice = advice


class UnreachableError(ClientError):
    """No connection could be made to an address."""

    retriable = True


def unreachable(failures: Sequence[ClientError]) -> UnreachableError:
    """Return the error of several addresses none of which accepts a connection."""
    error = UnreachableError(
        "; ".join(map(str, failures)),
        failures[0].advice or "Is it running? Start a broker with: odradek",
    )
    error.__cause__ = failures[0]
    return error


class DisconnectedError(ClientError):
    """The connection ended before the response; whether the request took effect is unknown."""

    retriable = True


class MisroutedError(ClientError):
    """The address of a node leads to another node or cluster (KIP-1242): the client starts over."""

    retriable = True


class RequestTimeoutError(ClientError):
    """The broker sent no response within the timeout, or no request succeeded within it."""

    advice = "The broker may be overloaded or down; look at its log."


class UnsupportedVersionError(ClientError):
    """The broker does not support an API, a version or a field that the request needs."""


class MalformedResponseError(ClientError):
    """The other end does not speak Kafka's protocol, or violates it."""

    advice = "Check that the address and port are those of a Kafka listener."


class ClosedAtOnceError(DisconnectedError):
    """The broker closed the connection before it answered the first request about the cluster.

    This is how brokers treat clients that do not authenticate, or that use TLS where it is not used. It
    happens also during a shutdown, and if a limit of connections is reached.
    """


class SecurityError(ClientError):
    """TLS or SASL failed: one side refused the other, or they use different protocols."""

    def __init__(self, message: str, advice: str = "", *, is_refusal: bool = False) -> None:
        super().__init__(message, advice)
        self.is_refusal = is_refusal
        """Whether the broker does not accept the credentials."""


class NotDeliveredError(ClientError):
    """Records were not written; the message says how many, and why the first was rejected."""


class TransactionStateError(ClientError):
    """A method of a transactional producer was called in the wrong order."""


class ConsumerStateError(ClientError):
    """A method of a consumer was called that its subscription or assignment does not allow."""


class ConcurrentUseError(ClientError):
    """Two threads use a consumer at the same time."""

    advice = "Each thread needs a consumer of its own, or hands the records to others."


class TransactionAbortedError(ClientError):
    """A record was not sent, because its transaction is aborted."""


class RecordTooLargeError(ClientError):
    """A record is larger than a request may be."""

    advice = "Raise max.request.size and the topic's max.message.bytes, or send smaller records."


class SerializationError(ClientError):
    """A value has no byte string, or a byte string is not of the format."""


class BufferFullError(ClientError):
    """Records are added faster than brokers take them, and the buffer is full."""

    retriable = True
    advice = "The brokers may be slow or down; look at their logs. Raise buffer.memory for bursts."


class ClosedError(ClientError):
    """The object was closed before, or belongs to another process."""


class CommitFailedError(ClientError):
    """Offsets were not committed, because the group has given the partitions to others."""


class BrokerError(ClientError):
    """A broker responded with an error.

    `code` is UNKNOWN_SERVER_ERROR if `ErrorCode` does not contain the broker's error code.
    `subject` names what the error concerns ("topic flights"). `advice` replaces the advice for the
    code.
    """

    def __init__(
        self, code: ErrorCode, message: str | None = None, subject: str = "", advice: str = ""
    ) -> None:
        self.code = code
        self.message = message or code.message
        self.subject = subject
        text = f"{subject}: {self.message}" if subject else self.message
        super().__init__(f"{text} ({code.name})", advice or _usual_advice(code, subject))

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """Whether the same request may succeed later."""
        return self.code.retriable


def _usual_advice(code: ErrorCode, subject: str) -> str:
    """Return the advice for an error code; nothing if it needs a name that the subject lacks."""
    found = _SUBJECT.fullmatch(subject)
    given = {} if found is None else found.groupdict()
    names = {kind: shlex.quote(name) for kind, name in given.items() if name}
    if "of_partition" in names:
        names["topic"] = names["of_partition"]
    try:
        return _ADVICE.get(code, "").format_map(names)
    except KeyError:
        return ""


class NoSuchTopicError(BrokerError):
    """A topic or partition does not exist. `partition` is None if the whole topic is missing.

    Other errors with the code UNKNOWN_TOPIC_OR_PARTITION are retriable; this error is not.
    """

    retriable = False

    def __init__(self, topic: str, partition: int | None = None, advice: str = "") -> None:
        self.topic = topic
        self.partition = partition
        message = "There is no such topic."
        if partition is not None:
            message = f"The topic has no partition {partition}."
            advice = advice or f"See its partitions: odradek topic describe {topic}"
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message, f"topic {topic}", advice)


class SomeFailedError(ClientError, ExceptionGroup[ClientError]):
    """Some items of a call failed. `errors` has their errors by item, `results` those of the others."""

    def __new__(
        cls, what: str, results: Mapping[Any, Any], errors: Mapping[Any, ClientError]
    ) -> Self:
        """Make the group of the errors. `what` says what was to be done."""
        total, first = len(results) + len(errors), next(iter(errors.values()))
        text = f"{what}: {len(errors)} of {total} failed; the first: {first}"
        return super().__new__(cls, text, list(errors.values()))

    def __init__(
        self, what: str, results: Mapping[Any, Any], errors: Mapping[Any, ClientError]
    ) -> None:
        first = next(iter(errors.values()))
        super().__init__(what, first.advice)
        self.results = dict(results)
        self.errors = dict(errors)


class CorruptRecordsError(BrokerError):
    """Records cannot be decoded. The position of the partition stays before them."""

    def __init__(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE,
            f"The records at offset {offset} cannot be read: {reason}.",
            f"partition {topic_partition}",
            "Read them from another replica, or seek past them.",
        )
        self.topic_partition = topic_partition
        self.offset = offset


class OffsetOutOfRangeError(BrokerError):
    """A partition does not hold the offset to read from, and `auto.offset.reset` is none."""

    def __init__(self, topic_partition: TopicPartition, offset: int, reason: str = "") -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            reason or f"The partition does not hold offset {offset}.",
            f"partition {topic_partition}",
        )
        self.topic_partition = topic_partition
        self.offset = offset


class NoOffsetError(ClientError):
    """No offset is committed for a partition, and `auto.offset.reset` is none."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(
            f"partition {topic_partition}: no offset is committed, and auto.offset.reset is none",
            "Call seek, or set auto.offset.reset to earliest or latest.",
        )
        self.topic_partition = topic_partition


def error_code(value: int) -> ErrorCode:
    """Return the `ErrorCode` with a number; UNKNOWN_SERVER_ERROR if there is no such code."""
    return _CODES.get(value, ErrorCode.UNKNOWN_SERVER_ERROR)


def broker_error(value: int, message: str | None = None, subject: str = "") -> BrokerError | None:
    """Return the error of a code in a response, or None for no error."""
    if value == 0:
        return None
    code = error_code(value)
    if code == ErrorCode.UNKNOWN_SERVER_ERROR and value != code and not message:
        message = f"The broker responded with error code {value}, which this client does not know."
    return BrokerError(code, message, subject)


def check(value: int, message: str | None = None, subject: str = "") -> None:
    """Raise the error of a code in a response, unless the code is zero.

    Raises:
        BrokerError: the code is not zero.
    """
    error = broker_error(value, message, subject)
    if error is not None:
        raise error
