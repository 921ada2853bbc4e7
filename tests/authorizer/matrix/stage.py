"""A broker for the matrix: its listeners, users and ACLs, and what exists before the first request.

Clients of the listener PLAINTEXT are super users. The users of the matrix connect to the listener
CLIENT, or to the controller listener, with SASL PLAIN.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.toolchain import free_port
from compat.lab.wire_client import WireClient, decode_response
from tests.authorizer.matrix.dialogues import PASSWORD, Step
from tests.authorizer.matrix.request import Known, Request, message
from tests.authorizer.matrix.rights import (
    CLUSTER,
    DESCRIBE,
    TOPIC,
    Right,
    Rights,
    Users,
    topics,
)
from tests.authorizer.matrix.rule_requests import TOPICS_OF_RULES
from tests.authorizer.matrix.token_requests import FOREIGN, OWNER, RENEWABLE
from tests.authorizer.matrix.topic_requests import batch

from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.model.acl import CLUSTER_NAME, AclOperation
from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.api import BY_NAME

NODE = "node"
SESSION_MS = 1_000_000
LOADING = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
)
"""After these errors a request is repeated."""
READY: Rights = frozenset(
    (Right(DESCRIBE, CLUSTER, CLUSTER_NAME), *topics(DESCRIBE, "t", "only-the-last-user"))
)
"""The rights of the last user. If this user has them, all users have theirs."""
TOPICS = (*"tuwvr", *(f"d{number}" for number in range(1, 7)), *TOPICS_OF_RULES)
WRITTEN = ("t", "u", "r")
"""These topics have three records each."""
CLOSED, SILENT = "the connection is closed", "no response"
CONNECTIONS_MAX = 64
ANSWER_SECONDS = 10.0
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:ANONYMOUS;User:{NODE}",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "connection.failed.authentication.delay.ms": "5",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.share.max.session.timeout.ms": str(SESSION_MS),
    "group.share.session.timeout.ms": str(SESSION_MS),
    "log.retention.ms": "-1",
    "delegation.token.secret.key": "secret",
}


class Ports(NamedTuple):
    """The ports of the three listeners."""

    plain: int
    client: int
    controller: int


def _settings(ports: Ports, users: Users) -> dict[str, str]:
    names = " ".join(f'user_{name}="{PASSWORD}"' for name in (*users.names.values(), NODE))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    jaas = f'{module} username="{NODE}" password="{PASSWORD}" {names};'
    clients = f"PLAINTEXT://127.0.0.1:{ports.plain},CLIENT://127.0.0.1:{ports.client}"
    return {
        **SETTINGS,
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{ports.controller}",
        "advertised.listeners": clients,
        "listener.name.client.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
    }


@contextlib.contextmanager
def odradek(users: Users) -> Iterator[Stage]:
    """Yield a stage with a node of Odradek in this process."""
    ports = Ports(free_port(), free_port(), free_port())
    with (
        Broker(settings=_settings(ports, users)) as broker,
        pytest.MonkeyPatch.context() as patch,
        Stage(ports, users) as stage,
    ):
        # With the injection of faults there are no fast paths.
        patch.setattr(broker.node.dispatcher, "inject", None)
        yield stage


@contextlib.contextmanager
def apache_kafka(users: Users) -> Iterator[Stage]:
    """Yield a stage with a node of Apache Kafka.

    Raises:
        Missing: Java is not installed, or the jars cannot be fetched.
    """
    ports = Ports(free_port(), free_port(), free_port())
    settings = {
        **_settings(ports, users),
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports.controller}",
    }
    node = NextApacheKafka(settings=settings, port=ports.plain)
    with node, Stage(ports, users) as stage:
        yield stage


class Stage:
    """The connections to a broker, and the values that it has generated."""

    def __init__(self, ports: Ports, users: Users) -> None:
        self.known: dict[str, Any] = {}
        self.names_of_topics: dict[bytes, str] = {}
        self._ports = ports
        self._users = users
        self._admin = WireClient(ports.plain)
        self._connections: dict[tuple[str, bool], WireClient] = {}

    def __enter__(self) -> Self:
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for each in (self._admin, *self._connections.values()):
            each.close()
        self._connections.clear()

    # -- requests -------------------------------------------------------------------------------

    def answer(self, request: Request, rights: Rights) -> Any:
        """Send a request as the user with these rights; return the response, `CLOSED` or `SILENT`."""
        user = self._users.names[rights]
        asked = self._message(request.api, request.fields)
        for _ in _attempts():
            connection = self._connection(user, request.is_on_controller)
            try:
                answer = _call(connection, request.api, request.version, asked)
            except (ConnectionError, TimeoutError) as error:
                self._connections.pop((user, request.is_on_controller)).close()
                return SILENT if isinstance(error, TimeoutError) else CLOSED
            if not LOADING & set(codes(answer)):
                return answer
        raise AssertionError  # `_attempts` has raised

    def converse(self, steps: Sequence[Step]) -> list[Any]:
        """Send requests on a new connection without logging in; return the responses."""
        found: list[Any] = []
        with WireClient(self._ports.client, timeout=ANSWER_SECONDS) as connection:
            for step in steps:
                try:
                    if step.api == "raw":
                        data: bytes = step.fields["data"]
                        connection.send(struct.pack(">i", len(data)) + data)
                        found.append(connection.receive())
                    else:
                        asked = self._message(step.api, step.fields)
                        found.append(_call(connection, step.api, step.version, asked))
                except ConnectionError:
                    return [*found, CLOSED]
        return found

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Send a request as a super user; return the response, which has no error."""
        asked = self._message(api, fields)
        for _ in _attempts():
            answer = _call(self._admin, api, version, asked)
            found = set(codes(answer))
            if not found & LOADING:
                assert found <= {0}, f"{api}: {answer}"
                return answer
        raise AssertionError  # `_attempts` has raised

    def _message(self, api: str, fields: Mapping[str, Any]) -> Any:
        return message(api, self._resolved(fields))

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, Known):
            return self.known[value.name]
        if isinstance(value, dict):
            return {key: self._resolved(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._resolved(each) for each in value]
        return value

    def _connection(self, user: str, is_on_controller: bool) -> WireClient:
        key = user, is_on_controller
        if key not in self._connections:
            if len(self._connections) >= CONNECTIONS_MAX:
                self._connections.pop(next(iter(self._connections))).close()
            port = self._ports.controller if is_on_controller else self._ports.client
            self._connections[key] = _log_in(port, user)
        return self._connections[key]

    # -- what exists before -----------------------------------------------------------------------

    def _prepare(self) -> None:
        self._create_topics()
        self._create_groups()
        self._create_share_groups()
        self._create_transactions()
        self._create_others()
        self._create_tokens()
        acls = self._users.acls()
        for at in range(0, len(acls), 500):
            self.ask("CreateAcls", 3, creations=acls[at : at + 500])
        self._wait_for_acls()

    def _create_topics(self) -> None:
        topics = [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in TOPICS]
        answer = self.ask("CreateTopics", 7, topics=topics, timeout_ms=30_000)
        for each in answer.topics:
            self.known[f"topic {each.name}"] = each.topic_id
            self.names_of_topics[each.topic_id] = each.name
        for name in TOPICS:
            for _ in _attempts():
                if self._admin.serving(name, 1):
                    break
        for name in WRITTEN:
            data = [{"index": 0, "records": batch()}]
            for _ in range(3):
                self.ask(
                    "Produce", 9, acks=-1, timeout_ms=30_000,
                    topic_data=[{"name": name, "partition_data": data}],
                )  # fmt: skip

    def _create_groups(self) -> None:
        part = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        offsets = [{"name": name, "partitions": part} for name in "tu"]
        self.ask("FindCoordinator", 4, key_type=0, coordinator_keys=["g"])
        for group in ("g", "h", "o", "e1", "e2"):
            self.ask(
                "OffsetCommit", 9, group_id=group, generation_id_or_member_epoch=-1, topics=offsets
            )
        protocols = [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}]
        joined = self.ask(
            "JoinGroup", 3, group_id="classic", session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS, member_id="", protocol_type="consumer",
            protocols=protocols,
        )  # fmt: skip
        self.ask(
            "SyncGroup", 3, group_id="classic", generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[{"member_id": joined.member_id, "assignment": b"assigned"}],
        )  # fmt: skip
        for group, names in (("both", ["t", "u"]), ("one", ["t"])):
            self._join_consumer_group(group, names)

    def _join_consumer_group(self, group: str, names: list[str]) -> None:
        member = {"group_id": group, "member_id": "m1", "rebalance_timeout_ms": SESSION_MS}
        answer = self.ask(
            "ConsumerGroupHeartbeat", 1, member_epoch=0, subscribed_topic_names=names,
            topic_partitions=[], **member,
        )  # fmt: skip
        owned: list[dict[str, Any]] = []
        while True:
            if answer.assignment is not None:
                owned = [
                    {"topic_id": each.topic_id, "partitions": each.partitions}
                    for each in answer.assignment.topic_partitions
                ]
            epoch = answer.member_epoch
            answer = self.ask(
                "ConsumerGroupHeartbeat", 1, member_epoch=epoch, topic_partitions=owned, **member
            )
            if len(owned) == len(names):
                return

    def _create_share_groups(self) -> None:
        earliest = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
        groups = ("sg", "s-both", "s-one", "s-empty")
        resources = [
            {"resource_type": 32, "resource_name": each, "configs": earliest} for each in groups
        ]
        self.ask("IncrementalAlterConfigs", 1, resources=resources)
        for group, names in (("s-both", ["t", "u"]), ("s-one", ["t"]), ("s-empty", ["t", "u"])):
            member = {"group_id": group, "member_id": "m1"}
            answer = self.ask(
                "ShareGroupHeartbeat", 1, member_epoch=0, subscribed_topic_names=names, **member
            )
            found = len(answer.assignment.topic_partitions) if answer.assignment else 0
            while found < len(names):  # the share coordinator initializes their states first
                answer = self.ask(
                    "ShareGroupHeartbeat", 1, member_epoch=answer.member_epoch, **member
                )
                if answer.assignment:
                    found = len(answer.assignment.topic_partitions)
        self.ask("ShareGroupHeartbeat", 1, group_id="s-empty", member_id="m1", member_epoch=-1)

    def _create_transactions(self) -> None:
        self.ask("FindCoordinator", 4, key_type=1, coordinator_keys=["x"])
        for name in ("x", "y", "open"):
            answer = self.ask(
                "InitProducerId", 4, transactional_id=name, transaction_timeout_ms=900_000
            )
            self.known[f"producer {name}"] = answer.producer_id
            self.known[f"epoch {name}"] = answer.producer_epoch
        self.known["transactional batch"] = batch(self.known["producer x"], self.known["epoch x"])
        self.ask(
            "AddPartitionsToTxn", 3,
            v3_and_below_transactional_id="open",
            v3_and_below_producer_id=self.known["producer open"],
            v3_and_below_producer_epoch=self.known["epoch open"],
            v3_and_below_topics=[{"name": each, "partitions": [0]} for each in "tu"],
        )  # fmt: skip

    def _create_others(self) -> None:
        acl = Right(AclOperation.READ, TOPIC, "unused").acl("z")
        self.ask("CreateAcls", 3, creations=[acl])
        credential = {
            "name": "scram", "mechanism": 1, "iterations": 4096, "salt": b"salt",
            "salted_password": bytes(32),
        }  # fmt: skip
        self.ask("AlterUserScramCredentials", 0, deletions=[], upsertions=[credential])
        quota = {
            "entity": [{"entity_type": "user", "entity_name": "z"}],
            "ops": [{"key": "producer_byte_rate", "value": 5000.0, "remove": False}],
        }
        self.ask("AlterClientQuotas", 1, entries=[quota], validate_only=False)
        interval = [{"name": "interval.ms", "config_operation": 0, "value": "60000"}]
        resource = {"resource_type": 16, "resource_name": "m", "configs": interval}
        self.ask("IncrementalAlterConfigs", 1, resources=[resource])

    def _create_tokens(self) -> None:
        """Create the tokens of another user. They may be requested only after a login."""
        without_rights = self._users.names[frozenset()]
        renewers = [{"principal_type": "User", "principal_name": without_rights}]
        with _log_in(self._ports.client, NODE) as connection:
            for name in (FOREIGN, *RENEWABLE):
                fields = {
                    "owner_principal_type": "User",
                    "owner_principal_name": OWNER,
                    "renewers": [] if name == FOREIGN else renewers,
                    "max_lifetime_ms": -1,
                }
                asked = self._message("CreateDelegationToken", fields)
                answer = _call(connection, "CreateDelegationToken", 3, asked)
                assert answer.error_code == 0
                self.known[f"hmac {name}"] = answer.hmac
            asked = self._message("DescribeDelegationToken", {"owners": None})
            for _ in _attempts():
                answer = _call(connection, "DescribeDelegationToken", 3, asked)
                if len(answer.tokens) == 1 + len(RENEWABLE):
                    break

    def wait_for_topics(self, created: Sequence[str], deleted: Sequence[str]) -> None:
        """Wait until the broker knows of created and deleted topics."""
        for name in created:
            for _ in _attempts():
                if self._admin.serving(name, 1):
                    break
        for _ in _attempts():
            asked = self._message("Metadata", {"topics": None})
            answer = _call(self._admin, "Metadata", 12, asked)
            if not {each.name for each in answer.topics} & set(deleted):
                break

    def _wait_for_acls(self) -> None:
        """Wait until the ACLs of the last user have taken effect in the broker and controller."""
        quorum = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        asked = (
            Request("", "Metadata", 12, {"topics": [{"name": "t"}]}),
            Request("", "DescribeQuorum", 0, {"topics": quorum}, is_on_controller=True),
        )
        for request in asked:
            for _ in _attempts():
                if set(codes(self.answer(request, READY))) == {0}:
                    break


def _attempts(seconds: float = 20.0) -> Iterator[None]:
    """Yield until the time is over.

    Raises:
        TimeoutError: the time is over.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.01)
    raise TimeoutError


def _log_in(port: int, user: str) -> WireClient:
    connection = WireClient(port, timeout=ANSWER_SECONDS)
    handshake = message("SaslHandshake", {"mechanism": "PLAIN"})
    assert _call(connection, "SaslHandshake", 1, handshake).error_code == 0
    token = f"\0{user}\0{PASSWORD}".encode()
    authenticate = message("SaslAuthenticate", {"auth_bytes": token})
    assert _call(connection, "SaslAuthenticate", 2, authenticate).error_code == 0
    return connection


def _call(connection: WireClient, api: str, version: int, asked: Any) -> Any:
    connection.send(connection.frame(api, version, asked))
    return decode_response(api, version, connection.receive(), BY_NAME[api].response_class())


def codes(message: Any) -> Iterator[int]:
    """Yield all error codes of a response."""
    if isinstance(message, list):
        for each in message:
            yield from codes(each)
        return
    for name in getattr(type(message), "__slots__", ()):
        value = getattr(message, name)
        if name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, list) or hasattr(type(value), "__slots__"):
            yield from codes(value)
