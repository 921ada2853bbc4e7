"""Sends the requests to a broker. Each request uses a separate group or transaction.

The group or transaction is described before and after the request. Generated ids, times and messages
are not compared.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from compat.lab.wire_client import WireClient, decode_response, request_frame
from tests.bad_input.coordinators.fields import Values, build, changes
from tests.bad_input.recorded import CLOSED, WAITS

from odradek.core.group.consumer_protocol import write_assignment
from odradek.model.errors import ErrorCode
from odradek.wire.api import BY_NAME
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest

TOPIC = "target"
PARTITIONS = 2
WAITS_SECONDS = 15.0
"""If JoinGroup or SyncGroup have no response after this time, the outcome is `WAITS`."""
ANSWER_SECONDS = 20.0
SILENT_SECONDS = 1.0
TIMEOUT_MS = 20_000
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|^[A-Za-z0-9_-]{22}$")
OMITTED_FIELDS = {
    *("throttle_time_ms", "error_message", "message", "acknowledge_error_message"),
    "transaction_start_time_ms",
    *("port", "client_host", "host"),
}
RETRIABLE = {
    *("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS"),
    *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
}
CODES = {"error_code", "partition_error_code", "acknowledge_error_code"}
METADATA = b"\0\1\0\0\0\1\0\6target\xff\xff\xff\xff\0\0\0\0"


class Outcome(NamedTuple):
    """The outcome of one request."""

    request: str
    """API, version, and how the group or transaction was prepared."""
    change: str
    answer: Any
    before: Any
    after: Any

    @property
    def what(self) -> str:
        """The request and the changed field."""
        return f"{self.request}: {self.change}"

    @property
    def is_refused(self) -> bool:
        """Whether the response says that the broker changed nothing."""
        codes = list(codes_of(self.answer))
        return bool(codes) and (codes[0] != "NONE" if len(codes) == 1 else "NONE" not in codes[1:])


class Actor:
    """The group or transaction of one request: its name, and ids from the broker."""

    def __init__(self, ask: Callable[..., Any], name: str, topic_id: bytes) -> None:
        self.ask = ask
        self.name = name
        self.topic_id = topic_id
        self.member_id = ""
        self.epoch = -1
        self.producer_id = -1
        self.producer_epoch = -1

    @property
    def instance_id(self) -> str:
        return f"{self.name}-instance"

    def join_classic(self) -> None:
        """Create a stable classic group with one static member."""
        request = self.values("JoinGroup")
        answer = self.ask("JoinGroup", 9, {**request, "member_id": ""})
        self.member_id, self.epoch = answer.member_id, answer.generation_id
        self.ask("SyncGroup", 5, self.values("SyncGroup"))
        self.ask("OffsetCommit", 9, self.values("OffsetCommit"))

    def join_consumer(self) -> None:
        """Create a consumer group with one static member that has its target assignment."""
        self.member_id, self.epoch = f"{self.name}-member", 0
        request = {**self.values("ConsumerGroupHeartbeat"), "topic_partitions": []}
        self.epoch = self.ask("ConsumerGroupHeartbeat", 1, request).member_epoch
        self.ask("ConsumerGroupHeartbeat", 1, self.values("ConsumerGroupHeartbeat"))
        self.ask("OffsetCommit", 9, self.values("OffsetCommit"))

    def initialize(self) -> None:
        """Create a producer without an open transaction, and a group for its offsets."""
        self.join_classic()
        answer = self.ask("InitProducerId", 4, self.values("InitProducerId"))
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    def begin(self) -> None:
        """Begin a transaction with one partition and a group."""
        self.initialize()
        self.ask("AddPartitionsToTxn", 3, self.values("AddPartitionsToTxn"))
        self.ask("AddOffsetsToTxn", 3, self.values("AddOffsetsToTxn"))

    def values(self, api: str) -> Values:
        """Return the fields of a valid request."""
        return REQUESTS[api](self)

    def state(self) -> Any:
        """Return the broker's descriptions of the group, its offsets and its transaction."""
        offsets = {"groups": [{"group_id": self.name, "topics": None}], "require_stable": False}
        asked: list[tuple[str, int, Values]] = [
            ("DescribeGroups", 6, {"groups": [self.name]}),
            ("ConsumerGroupDescribe", 1, {"group_ids": [self.name]}),
            ("OffsetFetch", 9, offsets),
            ("DescribeTransactions", 0, {"transactional_ids": [self.name]}),
        ]
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            comparable = [self.comparable(self.ask(*each)) for each in asked]
            if "'Prepare" not in repr(comparable) or time.monotonic() > deadline:
                return comparable

    def comparable(self, value: Any, name: str = "") -> Any:
        """Convert a message to a comparable form."""
        if isinstance(value, int) and name in CODES:
            return ErrorCode(value).name  # type: ignore[call-arg]
        if isinstance(value, int) and name == "producer_id":
            return "none" if value < 0 else "mine" if value == self.producer_id else "another"
        if isinstance(value, str) and len(value) < 1_000:
            return UUID.sub("<id>", value.replace(self.name, "<name>"))
        if isinstance(value, bytes) and name == "topic_id":
            return "known" if value == self.topic_id else value.hex()
        if isinstance(value, (bytes, str, memoryview)):
            return len(value), bytes(value[:20]) if not isinstance(value, str) else value[:20]
        if isinstance(value, (list, tuple)):
            comparable = [self.comparable(each) for each in self._mine(value)]
            return (
                sorted(comparable, key=repr)
                if len(comparable) < 4
                else (len(comparable), *sorted(map(repr, comparable))[:3])
            )
        if hasattr(value, "__slots__"):
            names = [each for each in value.__slots__ if each not in OMITTED_FIELDS]
            return {each: self.comparable(getattr(value, each), each) for each in names}
        return value

    def _mine(self, values: Any) -> list[Any]:
        """Return the groups and transactions of this actor in a list."""
        listed = ("group_type", "transaction_state")
        return [
            each
            for each in values
            if not all(hasattr(each, name) for name in (listed[0], "group_id"))
            or self.name in each.group_id
        ]


def codes_of(comparable: Any) -> Iterator[str]:
    """Yield all error codes of a response, the outermost first."""
    if isinstance(comparable, dict):
        yield from (comparable[name] for name in CODES if name in comparable)
        for value in comparable.values():
            yield from codes_of(value)
    elif isinstance(comparable, (list, tuple)):
        for value in comparable:
            yield from codes_of(value)


def _topics(actor: Actor, **fields: Any) -> list[Values]:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1,
                 "committed_metadata": "m"}  # fmt: skip
    return [{"name": TOPIC, "topic_id": actor.topic_id, "partitions": [partition], **fields}]


def _member(actor: Actor) -> Values:
    return {
        "group_id": actor.name,
        "generation_id": actor.epoch,
        "generation_id_or_member_epoch": actor.epoch,
        "member_id": actor.member_id,
        "group_instance_id": actor.instance_id,
    }


def _producer(actor: Actor) -> Values:
    return {
        "transactional_id": actor.name,
        "producer_id": actor.producer_id,
        "producer_epoch": actor.producer_epoch,
    }


def _add_partitions(actor: Actor) -> Values:
    topics = [{"name": TOPIC, "partitions": [0]}]
    old = {f"v3_and_below_{name}": value for name, value in _producer(actor).items()}
    new = {**_producer(actor), "verify_only": False, "topics": topics}
    return {**old, "v3_and_below_topics": topics, "transactions": [new]}


def _markers(actor: Actor) -> Values:
    topics = [{"name": TOPIC, "partition_indexes": [1]}]
    marker = {**_producer(actor), "transaction_result": False, "topics": topics}
    return {"markers": [{**marker, "coordinator_epoch": 0, "transaction_version": 1}]}


REQUESTS: dict[str, Callable[[Actor], Values]] = {
    "OffsetCommit": lambda actor: {
        **_member(actor), "retention_time_ms": -1, "topics": _topics(actor),
    },
    "OffsetFetch": lambda actor: {
        "group_id": actor.name,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
        "groups": [{
            "group_id": actor.name, "member_id": actor.member_id, "member_epoch": actor.epoch,
            "topics": [{"name": TOPIC, "topic_id": actor.topic_id, "partition_indexes": [0]}],
        }],
        "require_stable": False,
    },
    "FindCoordinator": lambda actor: {
        "key": actor.name, "key_type": 0, "coordinator_keys": [actor.name],
    },
    "JoinGroup": lambda actor: {
        **_member(actor), "session_timeout_ms": 20_000, "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer", "reason": "so",
        "protocols": [{"name": "range", "metadata": METADATA}],
    },
    "Heartbeat": _member,
    "LeaveGroup": lambda actor: {
        "group_id": actor.name, "member_id": actor.member_id,
        "members": [{**_member(actor), "reason": "so"}],
    },
    "SyncGroup": lambda actor: {
        **_member(actor), "protocol_type": "consumer", "protocol_name": "range",
        "assignments": [{
            "member_id": actor.member_id,
            "assignment": write_assignment({TOPIC: [0, 1]}, like=b"\0\1"),
        }],
    },
    "DescribeGroups": lambda actor: {
        "groups": [actor.name], "include_authorized_operations": True,
    },
    "ListGroups": lambda actor: {"states_filter": ["Stable"], "types_filter": ["classic"]},
    "InitProducerId": lambda actor: {**_producer(actor), "transaction_timeout_ms": TIMEOUT_MS},
    "AddPartitionsToTxn": _add_partitions,
    "AddOffsetsToTxn": lambda actor: {**_producer(actor), "group_id": actor.name},
    "EndTxn": lambda actor: {**_producer(actor), "committed": True},
    "WriteTxnMarkers": _markers,
    "TxnOffsetCommit": lambda actor: {
        **_producer(actor), **_member(actor), "topics": _topics(actor),
    },
    "DeleteGroups": lambda actor: {"groups_names": [actor.name]},
    "OffsetDelete": lambda actor: {
        "group_id": actor.name,
        "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}],
    },
    "DescribeTransactions": lambda actor: {"transactional_ids": [actor.name]},
    "ListTransactions": lambda actor: {
        "state_filters": ["Ongoing"], "producer_id_filters": [actor.producer_id],
        "duration_filter": -1, "transactional_id_pattern": actor.name,
    },
    "ConsumerGroupHeartbeat": lambda actor: {
        "group_id": actor.name, "member_id": actor.member_id, "member_epoch": actor.epoch,
        "instance_id": actor.instance_id, "rack_id": "rack", "rebalance_timeout_ms": TIMEOUT_MS,
        "subscribed_topic_names": [TOPIC], "subscribed_topic_regex": None,
        "server_assignor": "uniform",
        "topic_partitions": [{"topic_id": actor.topic_id, "partitions": [0, 1]}],
    },
    "ConsumerGroupDescribe": lambda actor: {
        "group_ids": [actor.name], "include_authorized_operations": True,
    },
}  # fmt: skip
"""The fields of a valid request for each API, for all its versions."""


class Broker:
    """A broker, with one connection. If the broker closes the connection, a new one is opened."""

    def __init__(
        self,
        port: int,
        topic_id: bytes,
        actor_type: type[Actor] = Actor,
        silent: Collection[str] = (),
    ) -> None:
        """`silent` has the cases to which no answer is expected, so that it is not long awaited."""
        self._port = port
        self._silent = silent
        self._topic_id = topic_id
        self._actor_type = actor_type
        self._client: WireClient | None = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, api: str, version: int, values: Values) -> Any:
        """Send a request, and return the response. Repeat the request while its error is
        retriable."""
        for _ in range(400):
            answer = self._send(api, version, values, ANSWER_SECONDS)
            code = getattr(answer, "error_code", 0)
            if ErrorCode(code).name not in RETRIABLE:  # type: ignore[call-arg]
                return answer
            time.sleep(0.01)
        return answer

    def _send(self, api: str, version: int, values: Values, seconds: float) -> Any:
        if self._client is None:
            self._client = WireClient(self._port)
        self._client.socket.settimeout(seconds)
        request = build(f"{api}Request", version, values)
        self._client.send(request_frame(api, version, request, 1))
        frame = self._client.receive()
        return decode_response(api, version, frame, BY_NAME[api].response_class())

    def play(self, number: int, api: str, version: int, begin: str) -> Iterator[Outcome]:
        """Send all changed requests of an API and version. The method `begin` prepares each
        actor."""
        count = 1
        index = 0
        while index < count:
            name = f"{number}.{api}.{version}.{index}"
            actor = self._actor_type(self.ask, name, self._topic_id)
            getattr(actor, begin)()
            values = actor.values(api)
            every = list(changes(f"{api}Request", version, values, f"{name}-nobody"))
            count = len(every)
            before = actor.state()
            request = f"{api} {version} after {begin}"
            seconds = WAITS_SECONDS if api in {"JoinGroup", "SyncGroup"} else ANSWER_SECONDS
            if f"{request}: {every[index]}" in self._silent:
                seconds = SILENT_SECONDS
            changed = every[index].apply(values)
            answer = self.attempt(actor, api, version, changed, seconds)
            yield Outcome(request, str(every[index]), answer, before, actor.state())
            index += 1

    def attempt(
        self,
        actor: Actor,
        api: str,
        version: int,
        values: Values,
        seconds: float = ANSWER_SECONDS,
    ) -> Any:
        """Send a request once, and return its response or its outcome in comparable form."""
        try:
            return actor.comparable(self._send(api, version, values, seconds))
        except TimeoutError:
            self.close()
            return WAITS
        except ConnectionError:
            self.close()
            return CLOSED


def create_topic(port: int) -> bytes:
    """Create the topic of all requests, and return its id."""
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    with WireClient(port) as client:
        answer = client.call("CreateTopics", 7, request, BY_NAME["CreateTopics"].response_class())
    topic_id: bytes = answer.topics[0].topic_id  # type: ignore[attr-defined]
    return topic_id


def wait_for_coordinators(port: int) -> None:
    """Wait until both kinds of coordinators are ready. The first request creates their topics."""
    broker = Broker(port, bytes(16))
    deadline = time.monotonic() + 3 * ANSWER_SECONDS
    keys = [str(number) for number in range(50)]
    while time.monotonic() < deadline:
        found = [broker.ask("FindCoordinator", 4, {"key_type": kind, "coordinator_keys": keys})
                 for kind in (0, 1)]  # fmt: skip
        loaded = [broker.ask("DescribeGroups", 5, {"groups": keys}),
                  broker.ask("DescribeTransactions", 0, {"transactional_ids": keys})]  # fmt: skip
        codes = {
            code
            for answer in found
            for code in codes_of(Actor(broker.ask, "", b"").comparable(answer))
        }
        known = {each.error_code for each in (*loaded[0].groups, *loaded[1].transaction_states)}
        if codes == {"NONE"} and known <= {0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}:
            broker.close()
            return
        time.sleep(0.1)
    raise TimeoutError("the broker does not coordinate")
