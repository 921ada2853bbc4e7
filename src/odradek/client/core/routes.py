"""Where requests go: the cached metadata of the cluster, coordinators, and which links are ready.

    unknown --is wanted--> asked for --answer--> known --forget--> asked for again (still used)
                               ^-------error, after a pause

A machine asks `Routes` for leaders and coordinators, and gets None while they are unknown. What was
wanted is then asked for by the next `poll`. The owner of the machines reports opened and lost
links, and opens the links in `wanted_links`.

If metadata was wanted and not got for some minutes, or a broker says that the client must begin again, what is
known is forgotten, and the owner closes all connections, so that the bootstrap addresses are used (KIP-899,
KIP-1102).

The finalized features come from the ApiVersions response with the highest epoch (KIP-584).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.client.address import Address
from odradek.client.core.asks import Ask, Link
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.errors import BrokerError, ClientError, SecurityError, broker_error
from odradek.client.metadata import ClusterMetadata, Node, Topic
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.primitives import Message

GROUP = 0
TRANSACTION = 1
"""Types of coordinator keys (FindCoordinator)."""
_KEYS = {GROUP: "group", TRANSACTION: "transactional id"}
COORDINATOR = "coordinator"
"""The purpose of links to group coordinators."""
UNUSED_TOPIC_MS = 300_000
"""Topics that were not used for so long are not asked for any more, as in Kafka's producer."""

CoordinatorKey = tuple[int, str]


class Recovery(NamedTuple):
    """What a client does that cannot get metadata (KIP-899, KIP-1102)."""

    rebootstraps: bool = True
    """`metadata.recovery.strategy`: whether the bootstrap addresses are used again."""
    trigger_ms: int = 300_000
    """`metadata.recovery.rebootstrap.trigger.ms`: after so long without metadata that is wanted."""


class Routes:
    """The metadata, coordinators and links that the machines of one client share."""

    def __init__(
        self,
        random: RandomNumber,
        *,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        creates_topics: bool = True,
        recovery: Recovery = Recovery(),  # noqa: B008  (it cannot be changed)
    ) -> None:
        self.random = random
        self.metadata = ClusterMetadata()
        self.wanted_links: set[Link] = set()
        """Links that machines would use if they were ready. The owner opens them."""
        self.last_error: ClientError | None = None
        """Why the last request for metadata or a coordinator failed; None after a success."""
        self.has_answered = False
        """Whether any broker has answered a request for metadata or a coordinator."""
        self.metadata_at_ms = 0
        """When the last metadata arrived."""
        self.changes = 0
        """How often the metadata may have changed."""
        self.must_start_over = False
        """Whether the owner must close all connections, and call `start_over`."""
        self.recovery = recovery
        self.next_deadline_ms: int | None = None
        """When `poll` must be called again, if nothing happens before. Set by `poll`."""
        self._request_timeout_ms = request_timeout_ms
        self._metadata_max_age_ms = metadata_max_age_ms
        self._creates_topics = creates_topics
        self.has_all_topics = False
        """Whether all topics are wanted, and known."""
        self._wants_all = False
        self._used_ms: dict[str, int] = {}
        self._stale: set[str] = set()
        self._asked: frozenset[str] | None = None
        self._asked_all = False
        self._retry_metadata_ms = 0
        self._lacking_since_ms: int | None = None
        """Since when metadata is wanted."""
        self._backoff = Backoff(retry_backoff_ms, retry_backoff_max_ms, random)
        self._refusal: SecurityError | None = None
        """Why a broker has refused the credentials since the last connection was made."""
        self._ready: set[Link] = set()
        self._losses: dict[Link, int] = {}
        self._coordinators: dict[CoordinatorKey, int] = {}
        self._coordinator_errors: dict[CoordinatorKey, BrokerError] = {}
        self._wanted_coordinators: set[CoordinatorKey] = set()
        self._asked_coordinators: set[CoordinatorKey] = set()
        self._retry_coordinators_ms = 0
        self._coordinator_backoff = Backoff(retry_backoff_ms, retry_backoff_max_ms, random)
        self._features: dict[str, int] = {}
        self._features_epoch = -1

    # -- links --------------------------------------------------------------------------------

    def is_ready(self, link: Link) -> bool:
        """Whether the link can be used now. If not, it is wanted from now on."""
        if link in self._ready:
            return True
        self.wanted_links.add(link)
        return False

    def opened(self, link: Link | None, versions: ApiVersionsResponse) -> None:
        """Note that a link is open; None for the link to an unknown node."""
        self._refusal = None
        if link is not None:
            self._ready.add(link)
            self.wanted_links.discard(link)
        if versions.finalized_features_epoch >= self._features_epoch:
            self._features_epoch = versions.finalized_features_epoch
            self._features = {f.name: f.max_version_level for f in versions.finalized_features}

    def pause(self, link: Link) -> None:
        """Note that a link is not ready for a moment. `opened` or `lost` ends that."""
        self._ready.discard(link)

    def lost(self, link: Link, error: ClientError | None = None) -> None:
        """Note that a link is closed, or cannot be opened, and why. Leaders may have moved."""
        self.last_error = error or self.last_error
        if isinstance(error, SecurityError) and error.is_refusal:
            self._refusal = error
        self._losses[link] = self.losses(link) + 1
        self._ready.discard(link)
        self.wanted_links.discard(link)
        self._stale.update(self._used_ms)
        for key in [key for key, node in self._coordinators.items() if node == link[0]]:
            self.forget_coordinator(*key)

    def check_refusal(self) -> None:
        """Raise the error of a broker that refuses credentials that it has accepted before, once for each attempt.

        Raises:
            SecurityError: there is one.
        """
        error, self._refusal = self._refusal, None
        if error is not None:
            raise error

    def losses(self, link: Link) -> int:
        """Return how often a link was closed, or could not be opened."""
        return self._losses.get(link, 0)

    def start_over(self) -> None:
        """Forget the nodes and coordinators: the address of a node leads to another one (KIP-1242).

        Or see `must_start_over`.
        """
        self.must_start_over = False
        self.metadata.forget_nodes()
        self._stale.update(self._used_ms)
        for key in list(self._coordinators):
            self.forget_coordinator(*key)

    def feature(self, name: str) -> int:
        """Return the finalized level of a feature; 0 if it has none."""
        return self._features.get(name, 0)

    def node(self, node_id: int) -> Node | None:
        """Return a known broker."""
        return self.metadata.nodes.get(node_id)

    # -- topics -------------------------------------------------------------------------------

    def topic(self, name: str, now_ms: int) -> Topic | None:
        """Return a topic, or None while it is unknown. From now on it is asked for."""
        if name not in self._used_ms:
            self._stale.add(name)
        self._used_ms[name] = now_ms
        return self.metadata.topics.get(name)

    def want_all_topics(self, is_wanted: bool) -> None:
        """Ask for all topics, not only for those that are used."""
        if is_wanted != self._wants_all:
            self._wants_all = is_wanted
            self.has_all_topics = False

    def topic_error(self, name: str) -> BrokerError | None:
        """Return the error of the last answer about a topic."""
        return self.metadata.errors.get(name)

    def forget_topic(self, name: str) -> None:
        """Ask for a topic again, because it or its leaders may have changed."""
        self._stale.add(name)

    def leader(self, partition: TopicPartition) -> int:
        """Return the leader of a partition; -1 if it is unknown, which is asked for."""
        topic = self.metadata.topics.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        if found is None or found.leader < 0:
            self._stale.add(partition.topic)
            return -1
        return found.leader

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of the known leader of a partition; -1 if it is unknown."""
        topic = self.metadata.topics.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        return -1 if found is None else found.leader_epoch

    def move_leader(
        self, partition: TopicPartition, leader: int, epoch: int, address: Address | None
    ) -> bool:
        """Note the leader that an error response has named (KIP-951). Return whether it is newer."""
        self.changes += 1
        node = None if address is None else Node(leader, address)
        return self.metadata.move_leader(*partition, leader, epoch, node)

    # -- coordinators -------------------------------------------------------------------------

    def coordinator(self, kind: int, key: str) -> int | None:
        """Return the node id of a coordinator; None while it is unknown, which is asked for.

        Raises:
            BrokerError: the last answer was a permanent error, such as a missing right.
        """
        error = self._coordinator_errors.pop((kind, key), None)
        if error is not None:
            self._wanted_coordinators.discard((kind, key))
            raise error
        found = self._coordinators.get((kind, key))
        if found is None:
            self._wanted_coordinators.add((kind, key))
        return found

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Look a coordinator up again when it is next used."""
        self._coordinators.pop((kind, key), None)

    # -- requests -----------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        asks = self._metadata_asks(now_ms) + self._coordinator_asks(now_ms)
        self._look_for_recovery(now_ms)
        is_used = self._used_ms or self._wants_all
        due = [self.metadata_at_ms + self._metadata_max_age_ms] if is_used else []
        if self._asked is None and self._is_outdated:
            due.append(self._retry_metadata_ms)
        if self._lacking_since_ms is not None and self.recovery.rebootstraps:
            due.append(self._lacking_since_ms + self.recovery.trigger_ms)
        if self._wanted_coordinators - self._asked_coordinators:
            due.append(self._retry_coordinators_ms)
        self.next_deadline_ms = min(due, default=None)
        return asks

    def _lacks_nodes(self) -> bool:
        """Whether a wanted link leads to a node whose address is unknown."""
        return any(node not in self.metadata.nodes for node, _ in self.wanted_links)

    @property
    def _is_outdated(self) -> bool:
        lacks_topics = self._wants_all and not self.has_all_topics
        return bool(self._stale) or lacks_topics or self._lacks_nodes()

    def _look_for_recovery(self, now_ms: int) -> None:
        """Start over if metadata is wanted for too long."""
        if self._asked is None and not self._is_outdated:
            self._lacking_since_ms = None
        elif self._lacking_since_ms is None:
            self._lacking_since_ms = now_ms
        elif self.recovery.rebootstraps and now_ms >= (
            self._lacking_since_ms + self.recovery.trigger_ms
        ):
            self._lacking_since_ms = now_ms
            self.must_start_over = True

    def _metadata_asks(self, now_ms: int) -> list[Ask]:
        if self._asked is not None or now_ms < self._retry_metadata_ms:
            return []
        if now_ms >= self.metadata_at_ms + self._metadata_max_age_ms:
            for name in [n for n, at in self._used_ms.items() if at < now_ms - UNUSED_TOPIC_MS]:
                del self._used_ms[name]
            self._stale.update(self._used_ms)
            self.has_all_topics = False
        if not self._is_outdated:
            return []
        names = sorted(self._stale | self._used_ms.keys())
        self._asked = frozenset(names)
        self._asked_all = self._wants_all
        topics = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=None if self._wants_all else topics,
            allow_auto_topic_creation=self._creates_topics,
        )
        return [self._ask(request, MetadataResponse, self._metadata_arrived, self._metadata_failed)]

    def _ask(
        self,
        request: Message,
        response_class: type[Message],
        on_answer: Callable[[Any, int], None],
        on_error: Callable[[ClientError, int], None],
    ) -> Ask:
        return Ask(
            None,
            request,
            response_class,
            on_answer,
            on_error,
            timeout_ms=self._request_timeout_ms,
        )

    def _metadata_arrived(self, response: MetadataResponse, now_ms: int) -> None:
        asked, self._asked = self._asked or frozenset(), None
        error = broker_error(response.error_code, subject="metadata")
        if error is not None or not response.brokers:
            if error is not None and error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self.must_start_over = self.recovery.rebootstraps
            self._metadata_error(error or ClientError("the metadata has no brokers"), now_ms)
            return
        self.has_answered = True
        self.last_error = None
        self.metadata_at_ms = now_ms
        self._lacking_since_ms = None
        self.changes += 1
        self.metadata.absorb(response, all_topics=self._asked_all)
        self.has_all_topics = self._asked_all and self._wants_all
        self._stale -= asked
        unsettled = [name for name in asked if self._is_unsettled(name)]
        self._stale.update(unsettled)
        if unsettled:
            self._retry_metadata_ms = now_ms + self._backoff.failed()
        else:
            # Another request at once is useless, for example if a leader has not noticed yet.
            self._retry_metadata_ms = now_ms
            self._backoff.succeeded()

    def _is_unsettled(self, name: str) -> bool:
        """Whether a topic that is used has no leader in a partition, or an error."""
        if name not in self._used_ms:
            return False
        topic = self.metadata.topics.get(name)
        return topic is None or any(each.leader < 0 for each in topic.partitions.values())

    def _metadata_failed(self, error: ClientError, now_ms: int) -> None:
        self._asked = None
        self._metadata_error(error, now_ms)

    def _metadata_error(self, error: ClientError, now_ms: int) -> None:
        self.last_error = error
        self._retry_metadata_ms = now_ms + self._backoff.failed()

    def _coordinator_asks(self, now_ms: int) -> list[Ask]:
        wanted = self._wanted_coordinators - self._asked_coordinators
        if not wanted or now_ms < self._retry_coordinators_ms:
            return []
        asks = []
        for kind, key in sorted(wanted):
            self._asked_coordinators.add((kind, key))
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

            def arrived(
                response: FindCoordinatorResponse, at_ms: int, key: CoordinatorKey = (kind, key)
            ) -> None:
                self._coordinator_arrived(key, response, at_ms)

            def failed(error: ClientError, at_ms: int, key: CoordinatorKey = (kind, key)) -> None:
                self._coordinator_failed(key, error, at_ms)

            asks.append(self._ask(request, FindCoordinatorResponse, arrived, failed))
        return asks

    def _coordinator_arrived(
        self, key: CoordinatorKey, response: FindCoordinatorResponse, now_ms: int
    ) -> None:
        self.has_answered = True
        for each in response.coordinators:
            error = broker_error(each.error_code, each.error_message, f"{_KEYS[key[0]]} {key[1]}")
            if error is not None:
                self._coordinator_failed(key, error, now_ms)
                return
            address = Address(each.host, each.port)
            known = self.metadata.nodes.get(each.node_id)
            if known is None or known.address != address:
                self.metadata.nodes[each.node_id] = Node(each.node_id, address)
            self._coordinators[key] = each.node_id
        self._asked_coordinators.discard(key)
        self._wanted_coordinators.discard(key)
        self._coordinator_backoff.succeeded()

    def _coordinator_failed(self, key: CoordinatorKey, error: ClientError, now_ms: int) -> None:
        self._asked_coordinators.discard(key)
        self.last_error = error
        if isinstance(error, BrokerError) and not error.retriable:
            self._coordinator_errors[key] = error
            self._wanted_coordinators.discard(key)
            return
        self._retry_coordinators_ms = now_ms + self._coordinator_backoff.failed()


def is_unknown_topic(error: ClientError | None) -> bool:
    """Whether a broker does not know a topic, which may be new."""
    return isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
