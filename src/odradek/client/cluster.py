"""Routes requests to the brokers of a cluster and retries them.

The cluster is reached through bootstrap addresses. A request goes to any broker, to the controller,
to a node by id, or to a coordinator. After a `retriable` error the request is retried with growing
pauses until the timeout. Exception: `UnreachableError` is not retried. Each attempt looks up the
controller again. After an error response from a coordinator, the next attempt looks up the
coordinator again. If the address of a node leads to another node, everything that is known is
forgotten, and the next attempt begins with the bootstrap addresses; so it is if a broker asks for that
(KIP-1102). If a node cannot be reached, its address is asked for again. Requests to coordinators use
separate connections, because a long fetch would delay a heartbeat on the same connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol, Self, TypeVar

from odradek.client.address import Address, Expected, parse_addresses
from odradek.client.connection import Connection
from odradek.client.deadline import Backoff, Deadline
from odradek.client.errors import (
    BrokerError,
    ClientError,
    ClosedAtOnceError,
    DisconnectedError,
    MisroutedError,
    NoSuchTopicError,
    UnreachableError,
    check,
    unreachable,
)
from odradek.client.metadata import ClusterMetadata, Node, Topic
from odradek.client.security import PLAINTEXT, Security
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.primitives import Message

GROUP = 0
TRANSACTION = 1
"""Types of coordinator keys (FindCoordinator)."""
_KEYS = {GROUP: "group", TRANSACTION: "transactional id"}

BACKOFF_MS = 50
BACKOFF_MS_MAX = 1000
UNKNOWN_TOPIC_WAIT_MS = 400
"""How long a request for an unknown topic is retried. The topic may have been created just now."""
CREATION_WAIT_MS = 3_000
"""How long a request for an unknown topic is retried if the request creates the topic."""
CLOSED_AT_ONCE_WAIT_MS = 1_500
"""How long a request is retried whose connections are all closed at once. A broker that shuts down
closes connections too, but not for so long."""

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)


def accept(_: Message) -> None:
    """Accept any response. Use it if every item in the response has its own error."""


class Closeable(Protocol):
    """Something that uses connections of its own."""

    def close(self) -> None:
        """Close them."""
        ...


class Cluster:
    """Connections to the brokers of one cluster, opened when needed."""

    def __init__(
        self,
        bootstrap: str | Sequence[Address],
        *,
        client_id: str = "odradek",
        timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        security: Security = PLAINTEXT,
        rebootstraps: bool = True,
        checks_nodes: bool = True,
    ) -> None:
        """`timeout_ms` limits the duration of a call with its retries. With `checks_nodes`, a node says
        whether a connection has reached the cluster and the node that was meant (KIP-1242).

        Without `rebootstraps`, `bootstrap` is used only until brokers are known
        (`metadata.recovery.strategy=none`).

        Raises:
            ValueError: `bootstrap` is not a list of addresses.
        """
        if isinstance(bootstrap, str):
            bootstrap = parse_addresses(bootstrap)
        self.bootstrap = tuple(bootstrap)
        self.client_id = client_id
        self.timeout_ms = timeout_ms
        self.metadata = ClusterMetadata()
        self.connect_timeout_ms = connect_timeout_ms
        self.security = security
        """How the connections are encrypted and authenticated."""
        self.checks_nodes = checks_nodes
        self.rebootstraps = rebootstraps
        self._connections: dict[tuple[int, str], Connection] = {}
        self._first: Connection | None = None
        self._coordinators: dict[tuple[int, str], int] = {}
        self._stale: set[str] = set()
        self._others: list[Closeable] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        if self._first is not None:
            self._first.close()
        for each in self._others:
            each.close()
        self._connections.clear()
        self._others.clear()
        self._first = None

    def close_with(self, other: Closeable) -> None:
        """Close something else when this is closed."""
        self._others.append(other)

    def copy(self) -> Cluster:
        """Return a cluster with the same settings and its own connections, for another thread."""
        return Cluster(
            self.bootstrap,
            client_id=self.client_id,
            timeout_ms=self.timeout_ms,
            connect_timeout_ms=self.connect_timeout_ms,
            security=self.security,
            rebootstraps=self.rebootstraps,
            checks_nodes=self.checks_nodes,
        )

    def close_connections(self, purpose: str) -> None:
        """Close the connections that `node` has opened for a purpose."""
        for key in [key for key in self._connections if key[1] == purpose]:
            self._connections.pop(key).close()

    # -- connections ------------------------------------------------------------------------

    def any(self) -> Connection:
        """Return an open connection, or connect to a bootstrap address or a known broker.

        Raises:
            UnreachableError: no broker can be reached.
            SecurityError: a broker can be reached, but TLS or SASL failed.
        """
        if self._first is not None and not self._first.closed:
            return self._first
        for (_, purpose), connection in self._connections.items():
            if not purpose and not connection.closed:
                return connection
        known = [each.address for each in self._nodes()]
        first = self.bootstrap if self.rebootstraps or not known else ()
        addresses = dict.fromkeys((*first, *known))
        failures: list[ClientError] = []
        for address in addresses:
            try:
                self._first = self._open(address)
            except (UnreachableError, DisconnectedError) as error:
                failures.append(error)
            else:
                return self._first
        raise unreachable(failures)

    def node(self, node_id: int, purpose: str = "") -> Connection:
        """Return the connection to a broker by id. Each `purpose` has its own connection.

        Raises:
            UnreachableError: the broker cannot be reached at the address that it advertises.
            BrokerError: no such broker is known (BROKER_NOT_AVAILABLE).
        """
        connection = self._connections.get((node_id, purpose))
        if connection is not None and not connection.closed:
            return connection
        if node_id not in self.metadata.nodes:
            self.refresh([])
        node = self.metadata.nodes.get(node_id)
        if node is None:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, subject=f"broker {node_id}")
        if not purpose and self._first is not None and node.address == self._first.address:
            connection, self._first = self._first, None
        if connection is None or connection.closed:
            connection = self._connect(node)
        self._connections[node_id, purpose] = connection
        return connection

    def _connect(self, node: Node, *, may_have_moved: bool = True) -> Connection:
        try:
            expected = self.metadata.expected(node.id) if self.checks_nodes else None
            return self._open(node.address, expected)
        except MisroutedError:
            self._start_over()
            raise
        except UnreachableError as error:
            if may_have_moved:
                with suppress(ClientError):
                    self.refresh([])
                now = self.metadata.nodes.get(node.id)
                if now is not None and now.address != node.address:
                    return self._connect(now, may_have_moved=False)
            if node.address in self.bootstrap:
                raise
            raise UnreachableError(
                f"broker {node.id} advertises {node.address}, but {error}",
                "advertised.listeners of the broker must name an address that clients can reach.",
            ) from error

    def _open(self, address: Address, expected: Expected | None = None) -> Connection:
        return Connection(address, self.client_id, self.connect_timeout_ms, self.security, expected)

    def _start_over(self) -> None:
        """Close all connections and forget the nodes, so that the bootstrap addresses are used."""
        connections = [*self._connections.values()]
        if self._first is not None:
            connections.append(self._first)
        for connection in connections:
            connection.close()
        self._connections.clear()
        self._first = None
        self._coordinators.clear()
        self._stale.update(self.metadata.topics)
        self.metadata.forget_nodes()

    def _nodes(self) -> Iterable[Node]:
        return self.metadata.nodes.values()

    # -- requests ---------------------------------------------------------------------------

    def retrying(self, attempt: Callable[[Deadline], T], timeout_ms: int | None = None) -> T:
        """Call `attempt`, retry it after retriable errors, and return its result.

        `UnreachableError` is raised at once, because the caller decides whether to wait.

        Raises:
            ClientError: the error of the last attempt.
        """
        deadline = Deadline(self.timeout_ms if timeout_ms is None else timeout_ms)
        closed_at_once = Deadline(CLOSED_AT_ONCE_WAIT_MS)
        backoff = Backoff(BACKOFF_MS, BACKOFF_MS_MAX)
        while True:
            try:
                return attempt(deadline)
            except UnreachableError:
                raise
            except ClientError as error:
                if isinstance(error, ClosedAtOnceError) and closed_at_once.expired:
                    raise
                if not error.retriable or not backoff.pause(deadline):
                    raise

    # `check_answer` raises the error of the whole response, so that errors like NOT_CONTROLLER or
    # COORDINATOR_LOAD_IN_PROGRESS are retried.

    def ask_any(
        self,
        request: Message,
        response_class: type[ResponseT],
        check_answer: Callable[[ResponseT], None] = accept,
    ) -> ResponseT:
        """Send a request to any broker and return the response.

        Raises:
            ClientError: see `retrying`.
        """
        return self._ask(self.any, request, response_class, check_answer)

    def ask_node(
        self,
        node_id: int,
        request: Message,
        response_class: type[ResponseT],
        check_answer: Callable[[ResponseT], None] = accept,
    ) -> ResponseT:
        """Send a request to a broker by id and return the response.

        Raises:
            ClientError: see `retrying`.
        """
        return self._ask(lambda: self.node(node_id), request, response_class, check_answer)

    def ask_controller(
        self,
        request: Message,
        response_class: type[ResponseT],
        check_answer: Callable[[ResponseT], None] = accept,
    ) -> ResponseT:
        """Send a request to the controller, or to a broker that forwards the request (KRaft).

        Raises:
            ClientError: see `retrying`.
        """

        def controller() -> Connection:
            controller_id = self.refresh([]).controller_id
            return self.node(controller_id) if controller_id >= 0 else self.any()

        return self._ask(controller, request, response_class, check_answer)

    def ask_coordinator(
        self,
        key: str,
        request: Message,
        response_class: type[ResponseT],
        check_answer: Callable[[ResponseT], None] = accept,
        kind: int = GROUP,
    ) -> ResponseT:
        """Send a request to the coordinator of a group or transactional id.

        Raises:
            ClientError: see `retrying`.
        """

        def forgetting(response: ResponseT) -> None:
            try:
                check_answer(response)
            except ClientError:
                self.forget_coordinator(key, kind)
                raise

        return self._ask(lambda: self.coordinator(key, kind), request, response_class, forgetting)

    def _ask(
        self,
        connect: Callable[[], Connection],
        request: Message,
        response_class: type[ResponseT],
        check_answer: Callable[[ResponseT], None],
    ) -> ResponseT:
        def attempt(deadline: Deadline) -> ResponseT:
            response = connect().request(request, response_class, deadline.remaining_ms)
            check_answer(response)
            return response

        return self.retrying(attempt)

    # -- metadata ---------------------------------------------------------------------------

    def refresh(
        self, topics: Iterable[str] | None = None, *, create: bool = False
    ) -> ClusterMetadata:
        """Request the metadata of `topics`, by default of all topics.

        With `create` the broker may create topics that do not exist.

        Raises:
            ClientError: no broker responded.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=t) for t in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        response = self.ask_any(request, MetadataResponse, self._check_metadata)
        self.metadata.absorb(response, all_topics=topics is None)
        self._stale -= {each.name for each in response.topics}
        return self.metadata

    def _check_metadata(self, response: MetadataResponse) -> None:
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self.rebootstraps:
            self._start_over()
            raise MisroutedError("a broker asks the client to begin again")
        check(response.error_code)

    def topic(self, name: str, *, create: bool = False) -> Topic:
        """Return a topic from the cache or from a broker.

        With `create` the broker may create the topic. While no broker can be reached, the topic
        comes from the cache, even if `forget_topic` was called.

        Raises:
            NoSuchTopicError: there is no such topic.
            ClientError: no response, or an error response.
        """
        known = self.metadata.topics.get(name)
        if known is not None and name not in self._stale:
            return known

        creation = Deadline(CREATION_WAIT_MS)

        def attempt(_: Deadline) -> Topic:
            self.refresh([name], create=create)
            error = self.metadata.errors.get(name)
            if error is not None:
                if creation.expired and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise NoSuchTopicError(name)
                raise error
            return self.metadata.topics[name]

        try:
            return self.retrying(attempt, None if create else UNKNOWN_TOPIC_WAIT_MS)
        except BrokerError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NoSuchTopicError(name) from error
            raise
        except (UnreachableError, DisconnectedError):
            if known is None:
                raise
            return known

    def leader(self, topic_partition: TopicPartition) -> int:
        """Return the node id of the leader of a partition.

        Raises:
            NoSuchTopicError: there is no such topic or partition.
            BrokerError: the partition has no leader at the moment.
        """
        topic, index = topic_partition
        partition = self.topic(topic).partitions.get(index)
        if partition is None:
            raise NoSuchTopicError(topic, index)
        if partition.leader < 0:
            self._stale.add(topic)
            raise BrokerError(
                ErrorCode.LEADER_NOT_AVAILABLE, subject=f"partition {topic_partition}"
            )
        return partition.leader

    def forget_topic(self, name: str) -> None:
        """Mark a cached topic as stale, because the topic or its leaders may have changed."""
        self._stale.add(name)

    # -- coordinators -----------------------------------------------------------------------

    def coordinator(self, key: str, kind: int = GROUP) -> Connection:
        """Return the connection to the coordinator of a group or transactional id.

        Raises:
            ClientError: the coordinator is unknown, or cannot be reached.
        """
        node_id = self._coordinators.get((kind, key))
        if node_id is None:
            node_id = self.coordinator_ids([key], kind)[key]
        try:
            return self.node(node_id, "coordinator")
        except ClientError:
            self.forget_coordinator(key, kind)
            raise

    def coordinator_ids(self, keys: Sequence[str], kind: int = GROUP) -> dict[str, int]:
        """Look up the node id of the coordinator of each key.

        Raises:
            ClientError: no response, or the error of the first key without a coordinator.
        """

        def attempt(deadline: Deadline) -> dict[str, int]:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
            response = self.any().request(request, FindCoordinatorResponse, deadline.remaining_ms)
            for each in response.coordinators:
                check(each.error_code, each.error_message, f"{_KEYS[kind]} {each.key}")
            return {each.key: each.node_id for each in response.coordinators}

        found = self.retrying(attempt)
        for key, node_id in found.items():
            self._coordinators[kind, key] = node_id
        return found

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        """Drop a coordinator from the cache. The next use looks the coordinator up again."""
        self._coordinators.pop((kind, key), None)
