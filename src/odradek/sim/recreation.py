"""A topic that is deleted and created again, while a producer writes to it and nodes fail.

The new topic has the same name and another id. A broker may learn late of the deletion, and a machine may have
been down meanwhile. At the end (`violations`) the topic has all records that were written to it for certain, no
record of an earlier topic, and each node has only the replicas of the last topic.

Topics are deleted by id. A deletion by name could be delivered late by the network, and delete the next topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.client.errors import ClientError
from odradek.core.metadata.image import MetadataImage
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.sim.administrator import NO_CONTROLLER
from odradek.sim.driver import SimClient
from odradek.sim.facts import Facts
from odradek.sim.machine import Machine
from odradek.sim.producing import SimProducer
from odradek.sim.simulation import Simulation
from odradek.sim.workload import Actor
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.generated.delete_topics_response import DeleteTopicsResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse

PARTITION = TopicPartition("booth", 0)
REPLICATION_FACTOR = 3
DELIVERY_TIMEOUT_MS = 2_000
LIFE_S_MAX = 3.0


class Visit(NamedTuple):
    """An acknowledged record, and the id of its topic."""

    value: str
    topic_id: bytes


class Recreator(Actor):
    """Deletes the topic and creates it again. When it ends, the topic exists."""

    async def run(self) -> None:
        """See `Actor`."""
        await self._create()
        while not self.is_stopping:
            await self.pause(LIFE_S_MAX)
            topic_id = await self._topic_id()
            if topic_id is not None and not self.is_stopping:
                await self._delete(topic_id)
                await self._create()

    async def _topic_id(self) -> bytes | None:
        """Return the id that a broker knows; None if it knows no topic with the name."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=PARTITION.topic)])
        response = await self.ask(request, MetadataResponse)
        if response is None or response.topics[0].error_code:
            return None
        return response.topics[0].topic_id

    async def _create(self) -> None:
        topic = CreatableTopic(
            name=PARTITION.topic, num_partitions=1, replication_factor=REPLICATION_FACTOR
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=3_000)
        while True:
            response = await self.ask(request, CreateTopicsResponse)
            if response is not None and self._is_done(
                "topics created", response.topics[0].error_code, E.TOPIC_ALREADY_EXISTS
            ):
                return
            await self.pause()

    async def _delete(self, topic_id: bytes) -> None:
        state = DeleteTopicState(name=None, topic_id=topic_id)
        request = DeleteTopicsRequest(topics=[state], timeout_ms=3_000)
        while True:
            response = await self.ask(request, DeleteTopicsResponse)
            if response is not None and self._is_done(
                "topics deleted", response.responses[0].error_code, E.UNKNOWN_TOPIC_ID
            ):
                return
            await self.pause()

    def _is_done(self, what: str, code: int, done_before: E) -> bool:
        """Return whether there is nothing left to do, because an earlier request may have had an effect."""
        if not code:
            self.facts.count(what)
        elif code != done_before and code not in NO_CONTROLLER:
            self.unexpected(what, code)
        return code in (0, done_before)


class Visitor(Actor):
    """Writes to whatever topic has the name."""

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        machines: Sequence[Machine],
    ) -> None:
        super().__init__(simulation, client, facts)
        self._machines = machines
        self.visits: list[Visit] = []
        """The records whose topic is certain."""
        self.sent: set[str] = set()

    async def run(self) -> None:
        """See `Actor`."""
        producer = SimProducer(self.client, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
        while not self.is_stopping:
            value = f"{self.name} {len(self.sent)}"
            self.sent.add(value)
            before = self._topic_id()
            try:
                delivery = await producer.send(PARTITION, value)
                await producer.flush()
            except ClientError:
                self.facts.count("visits refused")
            else:
                if delivery.error is not None:
                    self.facts.count("visits that failed")
                elif before is not None and before == self._topic_id():
                    self.facts.count("visits")
                    self.visits.append(Visit(value, before))
            await self.pause(0.2)

    def _topic_id(self) -> bytes | None:
        """Return the id of the topic if all nodes that run know the same one.

        The producer names the topic. A broker that does not know of the deletion yet writes the record to the
        earlier topic, as in Apache Kafka.
        """
        found: set[bytes | None] = set()
        for machine in self._machines:
            if machine.node is not None:
                if not machine.is_serving:
                    return None
                topics = machine.node.broker.metadata.image.topics.by_name
                topic = topics.get(PARTITION.topic)
                found.add(None if topic is None else topic.id)
        return found.pop() if len(found) == 1 else None


def violations(
    visitor: Visitor, image: MetadataImage, found: Sequence[str], machines: Sequence[Machine]
) -> Iterator[str]:
    """Yield what is wrong with the topic at the end. `found` are the values that it has."""
    topic = image.topics.by_name.get(PARTITION.topic)
    if topic is None:
        yield f"{PARTITION.topic} does not exist, although it was created last"
        return
    for value in sorted({*found} - visitor.sent):
        yield f"{PARTITION}: nobody has sent {value!r}"
    if len(set(found)) != len(found):
        yield f"{PARTITION}: records are there twice"
    for visit in visitor.visits:
        if visit.topic_id == topic.id and visit.value not in found:
            yield f"{PARTITION}: {visit.value!r} was acknowledged and is lost"
        if visit.topic_id != topic.id and visit.value in found:
            yield f"{PARTITION}: {visit.value!r} was written to a topic that was deleted"
    for machine in machines:
        assert machine.node is not None
        replica = machine.node.broker.replicas.by_name.get(PARTITION.topic, {}).get(0)
        if replica is not None and replica.topic_id != topic.id:
            yield f"{PARTITION}: {machine.name} has a replica of a topic that was deleted"
