"""Creates topics automatically: for Metadata requests, and for the coordinators' own topics.

If several requests need the same topic, the topic is created once. A Metadata request does not wait
for the creation. The error in its response makes the client retry, as in Apache Kafka. A
FindCoordinator request waits for a limited time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.channel import ControllerChannel
from odradek.config.broker_config import BrokerConfig
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from odradek.wire.generated.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

log = logging.getLogger("odradek.topics")

TIMEOUT_MS = 30_000
IN_FLIGHT_MAX = 10_000
"""Maximum number of topics that are created concurrently. The creation of further topics is not
begun, and the client retries.
"""


class TopicCreation:
    """Creates topics through the controller. Use it only on the event loop's thread."""

    def __init__(self, controller: ControllerChannel, config: Callable[[], BrokerConfig]) -> None:
        """`config` returns the newest configuration of the broker."""
        self._controller = controller
        self._config = config
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._internal_errors: dict[str, tuple[float, str]] = {}
        """Internal topics of Streams groups that could not be created: until when the error is
        remembered, in seconds of the event loop, and its text."""

    def begin(self, names: Iterable[str], client: RequestContext | None = None) -> None:
        """Begin to create the topics, unless their creation has already begun.

        Names must be valid. A topic that exists is not changed. If a client's request needs the
        topics, `client` is the context of this request: the controller checks the client, and
        counts the partitions for its quota.
        """
        room = IN_FLIGHT_MAX - len(self._in_flight)
        new = [name for name in dict.fromkeys(names) if name not in self._in_flight][:room]
        if new:
            topics = [self._topic(name) for name in new]
            task = asyncio.get_running_loop().create_task(self._create(topics, client))
            self._in_flight.update(dict.fromkeys(new, task))

    def begin_internal(
        self, topics: Mapping[str, CreatableTopic], client: RequestContext, error_ttl_ms: int
    ) -> None:
        """Begin to create the internal topics of a Streams group.

        Topics are skipped while their creation is in progress, and for `error_ttl_ms` after it has
        failed.
        """
        failed = self.internal_errors(topics)
        names = [each for each in topics if each not in self._in_flight and each not in failed]
        names = names[: IN_FLIGHT_MAX - len(self._in_flight)]
        if names:
            wanted = [topics[each] for each in names]
            work = self._create_internal(wanted, client, error_ttl_ms)
            task = asyncio.get_running_loop().create_task(work)
            self._in_flight.update(dict.fromkeys(names, task))

    def internal_errors(self, names: Iterable[str]) -> dict[str, str]:
        """Return why internal topics could not be created recently."""
        now = asyncio.get_running_loop().time()
        found = {}
        for name in names:
            until, text = self._internal_errors.get(name, (now, ""))
            if until > now:
                found[name] = text
        return found

    async def _create_internal(
        self, topics: list[CreatableTopic], client: RequestContext, error_ttl_ms: int
    ) -> None:
        request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
        errors = dict.fromkeys((each.name for each in topics), "")
        try:
            response = await self._controller.submit(_creation_by(client), request)
        except ApiError as error:
            errors = dict.fromkeys(errors, error.message or error.code.message)
            log.warning("could not create %s: %s", ", ".join(errors), error)
        else:
            for topic in response.topics:
                if topic.error_code == ErrorCode.NONE:
                    log.info("created the internal topic %s", topic.name)
                else:
                    text = topic.error_message or ErrorCode.of(topic.error_code).message
                    errors[topic.name] = text
                    log.warning("could not create %s: %s", topic.name, text)
        finally:
            now = asyncio.get_running_loop().time()
            kept = {name: each for name, each in self._internal_errors.items() if each[0] > now}
            until = now + error_ttl_ms / 1000
            new = {name: (until, text) for name, text in errors.items() if text}
            self._internal_errors = {**kept, **new}
            for name in errors:
                del self._in_flight[name]

    async def create(self, name: str, timeout_ms: int) -> None:
        """Create a topic and wait at most `timeout_ms` for the result. Failures are only logged."""
        self.begin((name,))
        task = self._in_flight.get(name)
        if task is not None:
            await asyncio.wait((task,), timeout=timeout_ms / 1000)

    async def create_as(self, topic: CreatableTopic, timeout_ms: int) -> None:
        """Create a topic with these settings. See `create`."""
        task = self._in_flight.get(topic.name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._create([topic], None))
            self._in_flight[topic.name] = task
        await asyncio.wait((task,), timeout=timeout_ms / 1000)

    async def _create(self, topics: list[CreatableTopic], client: RequestContext | None) -> None:
        names = [each.name for each in topics]
        request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
        context = None if client is None else _creation_by(client)
        try:
            response = await self._controller.submit(context, request)
        except ApiError as error:
            log.warning("could not create %s: %s", ", ".join(names), error)
        else:
            for topic in response.topics:
                if topic.error_code == ErrorCode.NONE:
                    log.info("created topic %s automatically", topic.name)
                elif topic.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    log.warning("could not create %s: %s", topic.name, topic.error_message)
        finally:
            for name in names:
                del self._in_flight[name]

    def _topic(self, name: str) -> CreatableTopic:
        config = self._config()
        if name == OFFSETS_TOPIC:
            return _topic(
                name,
                config.offsets_topic_num_partitions,
                config.offsets_topic_replication_factor,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
            )
        if name == TRANSACTION_TOPIC:
            return _topic(
                name,
                config.transaction_state_log_num_partitions,
                config.transaction_state_log_replication_factor,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
            )
        if name == SHARE_STATE_TOPIC:
            return _topic(
                name,
                config.share_coordinator_state_topic_num_partitions,
                config.share_coordinator_state_topic_replication_factor,
                {
                    "cleanup.policy": "delete",
                    "compression.type": "producer",
                    "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                    "retention.ms": "-1",
                    "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                },
            )
        return _topic(name, config.num_partitions, config.default_replication_factor, {})

    async def close(self) -> None:
        """Wait for the creations that are in progress."""
        if self._in_flight:
            await asyncio.wait(set(self._in_flight.values()))


def _creation_by(client: RequestContext) -> RequestContext:
    """Return the context of a CreateTopics request of the same client."""
    key, version = CreateTopicsRequest.API_KEY, CreateTopicsRequest.VERSION_MAX
    assert key is not None
    return RequestContext(client.peer, key, version, 0, client.client_id, client.received_ms)


def _topic(name: str, partitions: int, factor: int, settings: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=each, value=value) for each, value in settings.items()],
    )
