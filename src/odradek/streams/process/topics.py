"""Creates the internal topics of an application, and finds how many partitions its topics have."""

from __future__ import annotations

import uuid
from typing import Any

from odradek.client.admin.admin import Admin
from odradek.client.admin.topics import NewTopic
from odradek.client.errors import BrokerError, SomeFailedError
from odradek.client.producer import Producer
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.topology.definition import Topology
from odradek.model.errors import ErrorCode
from odradek.streams.process.layout import Layout
from odradek.streams.process.settings import ADMIN, PRODUCER, STREAMS, WorkerSettings


def prepare(topology: Topology, settings: WorkerSettings) -> tuple[Layout, dict[str, int]]:
    """Create the internal topics that are missing, if the coordinator of a Streams group does not.

    Returns the layout, and the numbers of partitions.

    Raises:
        TopologyError: source topics, or the topic for dead letters, are missing or do not fit.
        ClientError: the cluster refuses, or cannot be reached.
    """
    with Admin(settings.clients[ADMIN]) as admin:
        counts = {each.name: len(each.partitions) for each in admin.list_topics()}
        layout = Layout(topology, counts)
        dead_letters = settings.tasks.dead_letters
        if dead_letters is not None and dead_letters not in counts:
            raise TopologyError(f"the topic {dead_letters} for dead letters does not exist")
        if settings.group_protocol == STREAMS:
            return layout, counts
        missing = [each for each in layout.internal_topics() if each.name not in counts]
        factor = settings.replication_factor
        new = [NewTopic(each.name, each.partitions, factor, each.settings) for each in missing]
        try:
            admin.create_topics(new)
        except SomeFailedError as error:
            if not all(map(_exists_already, error.exceptions)):
                raise
    return layout, {**counts, **{each.name: each.partitions for each in missing}}


def _exists_already(error: Exception) -> bool:
    """Return whether another process was faster."""
    return isinstance(error, BrokerError) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS


class Topics:
    """The numbers of partitions of topics, and the layout of the application."""

    def __init__(self, topology: Topology, settings: WorkerSettings) -> None:
        """Prepare the topics: see `prepare`."""
        self._settings = settings
        self.layout, self._counts = prepare(topology, settings)

    def count(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        found = self._counts.get(topic)
        if found is None:
            with Admin(self._settings.clients[ADMIN]) as admin:
                found = len(admin.describe_topics([topic])[topic].partitions)
            self._counts[topic] = found
        return found


def make_producer(application_id: str, settings: WorkerSettings) -> Producer:
    """Return the producer of a worker, which is ready for transactions if there are any."""
    given: dict[str, Any] = {"linger.ms": 5, **settings.clients[PRODUCER]}
    if settings.exactly_once:
        given["transactional.id"] = f"{application_id}-{uuid.uuid4()}-1"
    producer = Producer(given)
    if settings.exactly_once:
        producer.init_transactions()
    return producer
