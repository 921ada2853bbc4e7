"""Writes dead letters of share groups to the groups' dead letter topics (KIP-1191).

The writer is the leader of the partition in which the dead letters are. Each dead letter is a
record with headers that say which record it was, and why it was given up. If the group wants it,
the dead letter also has the key, the value and the headers of the original record. The partition of
the dead letter topic follows from the partition of the original record.

The topic must be allowed as dead letter topic: its name must have the prefix that the broker
demands, and its setting `errors.deadletterqueue.group.enable` must be true. If the topic does not
exist, it is created if the broker's settings say so. Settings are read again before each write.

An append is repeated for a while if the error may pass. If a dead letter cannot be written in the
end, it is lost: the failure is logged and counted, and the original record is archived, because it
would otherwise hold back the share partition for ever. This is how Apache Kafka's
`ShareGroupDLQStateManager` does it.

A dead letter may be written twice, if this broker stops before the share coordinator has stored
that the record is archived.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.partitions.partition import ACKS_ALL, Partition
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.peers.channels import BrokerChannels, BrokerUnreachable, UnsupportedByBroker
from odradek.broker.share.originals import Originals
from odradek.config.broker_config import BrokerConfig
from odradek.config.group_config import GroupConfig
from odradek.config.topic_config import TopicConfig
from odradek.core.metadata.image import MetadataImage
from odradek.core.share.dead_letters import DeadLetters
from odradek.env.clock import Clock
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.batch import HEADER_SIZE
from odradek.records.builder import RecordBatchBuilder, record_size
from odradek.records.record import Headers, Record
from odradek.wire.generated.create_topics_request import CreatableTopic, CreatableTopicConfig
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

log = logging.getLogger("odradek.share")

HEADER_TOPIC: Final = "__dlq.errors.topic"
HEADER_PARTITION: Final = "__dlq.errors.partition"
HEADER_OFFSET: Final = "__dlq.errors.offset"
HEADER_GROUP: Final = "__dlq.errors.group"
HEADER_DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
HEADER_MESSAGE: Final = "__dlq.errors.message"

RETRY_MS: Final = 30_000
"""For how long an append is repeated."""
PAUSE_MS: Final = 100
PAUSE_MS_MAX: Final = 5_000
CREATION_WAIT_MS: Final = 5_000
_INTERNAL: Final = "__"


class Refused(Exception):
    """The settings do not allow the dead letter topic."""


class NoLeader(Exception):
    """This broker no longer leads the partition of the dead letters. The new leader writes them."""


class _Letter(NamedTuple):
    offset: int
    of: DeadLetters


class DeadLetterWriter:
    """Writes dead letters. Use it only on the event loop's thread."""

    def __init__(
        self,
        node_id: int,
        replicas: ReplicaManager,
        channels: BrokerChannels,
        topic_creation: TopicCreation,
        originals: Originals,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`config` returns the newest configuration of the broker. `channels` must be used by no
        one else."""
        self._node_id = node_id
        self._replicas = replicas
        self._channels = channels
        self._topic_creation = topic_creation
        self._originals = originals
        self._config = config
        self._clock = clock
        self._loop = loop
        self._turns: dict[int, asyncio.Lock] = {}
        """One request at a time is sent to each broker."""
        self.written: Counter[str] = Counter()
        """Number of dead letters that were written, by group (a metric)."""
        self.appends: Counter[str] = Counter()
        """Number of attempts to append dead letters, by group (a metric)."""
        self.failed_appends: Counter[str] = Counter()
        """Number of appends that were given up, by group (a metric)."""
        self.lost: Counter[str] = Counter()
        """Number of dead letters that could not be written, by group (a metric)."""

    async def write(self, group_id: str, source: Partition, letters: Sequence[DeadLetters]) -> None:
        """Write the dead letters of a partition. Failures are logged.

        Raises:
            NoLeader: this broker no longer leads the partition. Some may have been written.
        """
        waiting = deque(
            _Letter(offset, each)
            for each in letters
            for offset in range(each.first_offset, each.last_offset + 1)
        )
        while waiting:
            try:
                await self._write_some(group_id, source, waiting)
            except (Refused, ApiError) as error:
                if isinstance(error, ApiError):
                    self.failed_appends[group_id] += 1
                self.lost[group_id] += len(waiting)
                log.error(
                    "%d dead letters of group %s are lost, from offset %d of %s-%d on: %s",
                    len(waiting),
                    group_id,
                    waiting[0].offset,
                    source.topic,
                    source.index,
                    error,
                )
                return

    async def _write_some(self, group_id: str, source: Partition, waiting: deque[_Letter]) -> None:
        """Write as many dead letters as fit into a batch, and remove them from `waiting`.

        Raises:
            Refused: the settings do not allow the topic.
            ApiError: they could not be appended.
            NoLeader: see `write`.
        """
        group, topic = self._check(group_id)
        size_max = topic.max_message_bytes
        originals: dict[int, Record] = {}
        known_to = waiting[-1].offset
        if group.errors_deadletterqueue_copy_record_enable:
            wanted = [each.offset for each in waiting]
            originals, known_to = await self._originals.read(source, wanted, size_max)
        batch, count = self._encode(group_id, source, waiting, originals, known_to, size_max)
        await self._append(group_id, source, batch)
        self.written[group_id] += count
        for _ in range(count):
            waiting.popleft()

    # -- settings -------------------------------------------------------------------------------

    @property
    def _image(self) -> MetadataImage:
        return self._channels.image

    def _check(self, group_id: str) -> tuple[GroupConfig, TopicConfig]:
        """Check the topic of a group. Return the settings of both.

        Raises:
            Refused: the settings do not allow the topic.
        """
        config, configs = self._config(), self._image.configs
        group = config.group_config(configs.of(ResourceType.GROUP, group_id))
        name = group.errors_deadletterqueue_topic_name
        topic = config.topic_config(configs.of(ResourceType.TOPIC, name))
        prefix = config.errors_deadletterqueue_topic_name_prefix
        if not name:
            raise Refused("the group has no errors.deadletterqueue.topic.name any more")
        if name.startswith(_INTERNAL):
            raise Refused(f"the name of the topic {name} begins with {_INTERNAL}")
        if not name.startswith(prefix):
            raise Refused(
                f"the name of the topic {name} does not begin with {prefix} "
                "(errors.deadletterqueue.topic.name.prefix)"
            )
        if name in self._image.topics.by_name:
            if not topic.errors_deadletterqueue_group_enable:
                raise Refused(f"the topic {name} lacks errors.deadletterqueue.group.enable=true")
        elif not config.errors_deadletterqueue_auto_create_topics_enable:
            raise Refused(
                f"the topic {name} does not exist, and "
                "errors.deadletterqueue.auto.create.topics.enable is false"
            )
        return group, topic

    # -- records --------------------------------------------------------------------------------

    def _encode(
        self,
        group_id: str,
        source: Partition,
        waiting: deque[_Letter],
        originals: dict[int, Record],
        known_to: int,
        size_max: int,
    ) -> tuple[bytes, int]:
        """Return a batch of the first dead letters, and how many it has: at least one.

        `originals` has the original records up to the offset `known_to`, as far as they can be
        read. An original that does not fit into a batch of its own is left out.
        """
        now_ms = self._clock.now_ms()
        builder = RecordBatchBuilder()
        for offset, of in waiting:
            if builder.count and offset > known_to:
                break
            headers = _headers(group_id, source, offset, of)
            key, value, all_headers = None, None, headers
            original = originals.get(offset)
            if original is not None:
                key, value = original.key, original.value
                all_headers = (*original.headers, *headers)
                alone = record_size(0, 0, key, value, all_headers)
                if HEADER_SIZE + alone > size_max:
                    key, value, all_headers = None, None, headers
            size = record_size(0, builder.count, key, value, all_headers)
            if builder.count and builder.size + size > size_max:
                break
            builder.append(now_ms, key, value, all_headers)
        return bytes(builder.build()), builder.count

    # -- appends --------------------------------------------------------------------------------

    async def _append(self, group_id: str, source: Partition, batch: bytes) -> None:
        """Append a batch to the dead letter topic, in several attempts if necessary.

        Raises:
            Refused, ApiError, NoLeader: see `_write_some`.
        """
        begin_ms = self._clock.monotonic_ms()
        pause_ms = PAUSE_MS
        while True:
            if not source.is_leader:
                raise NoLeader
            group, _ = self._check(group_id)
            name = group.errors_deadletterqueue_topic_name
            self.appends[group_id] += 1
            try:
                await self._append_once(name, source.index, batch)
            except ApiError as error:
                elapsed_ms = self._clock.monotonic_ms() - begin_ms
                if not error.code.retriable or elapsed_ms >= RETRY_MS:
                    raise
                log.info("dead letters of %s are not appended yet: %s", group_id, error)
            else:
                return
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)

    async def _append_once(self, name: str, source_index: int, batch: bytes) -> None:
        topic = self._image.topics.by_name.get(name)
        if topic is None:
            await self._topic_creation.create_as(_dead_letter_topic(name), CREATION_WAIT_MS)
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"the topic {name} is being created")
        index = source_index % len(topic.partitions)
        leader = topic.partitions[index].leader
        if leader == self._node_id:
            await self._append_here(name, index, batch)
        elif leader < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            await self._produce(leader, name, topic.id, index, batch)

    async def _append_here(self, name: str, index: int, batch: bytes) -> None:
        """Append to a partition that this broker leads, and wait until the records are committed.

        Raises:
            ApiError: they were not appended, or are not committed in time.
        """
        partition = self._replicas.find(name, index)
        info = partition.append(bytearray(batch), ACKS_ALL)
        committed: asyncio.Future[None] = self._loop.create_future()

        def on_committed(error: ApiError | None) -> None:
            if committed.done():
                return  # the time is over, or the node stops
            if error is None:
                committed.set_result(None)
            else:
                committed.set_exception(error)

        partition.when_committed(info.last_offset + 1, on_committed)
        try:
            async with asyncio.timeout(self._config().request_timeout_ms / 1000):
                await committed
        except TimeoutError as error:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT) from error

    async def _produce(
        self, leader: int, name: str, topic_id: bytes, index: int, batch: bytes
    ) -> None:
        """Let another broker append the records.

        Raises:
            ApiError: it has not, or has not responded.
        """
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=self._config().request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=name,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=index, records=batch)],
                )
            ],
        )
        try:
            async with self._turns.setdefault(leader, asyncio.Lock()):
                answer = await self._channels.ask(leader, request, request.VERSION_MIN)
        except BrokerUnreachable as error:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        except UnsupportedByBroker as error:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        for each in cast("ProduceResponse", answer).responses:
            for result in each.partition_responses:
                if result.error_code:
                    raise ApiError(ErrorCode.of(result.error_code), result.error_message)
                return
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the response has no result")


def _headers(group_id: str, source: Partition, offset: int, of: DeadLetters) -> Headers:
    """Return what a dead letter says about the original record."""
    return (
        (HEADER_TOPIC, source.topic.encode()),
        (HEADER_PARTITION, b"%d" % source.index),
        (HEADER_OFFSET, b"%d" % offset),
        (HEADER_GROUP, group_id.encode()),
        (HEADER_DELIVERY_COUNT, b"%d" % of.delivery_count),
        (HEADER_MESSAGE, of.cause.value.encode()),
    )


def _dead_letter_topic(name: str) -> CreatableTopic:
    """Return the topic to create. Its retention goes by the time at which letters are written."""
    settings = {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        configs=[CreatableTopicConfig(name=each, value=value) for each, value in settings.items()],
    )
