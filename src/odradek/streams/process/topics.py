"""Creates the internal topics of an application, and finds how many partitions its topics have."""

from __future__ import annotations

from odradek.client.admin.admin import Admin
from odradek.client.admin.topics import NewTopic
from odradek.client.errors import BrokerError, SomeFailedError
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.topology.definition import Topology
from odradek.model.errors import ErrorCode
from odradek.streams.process.layout import Layout
from odradek.streams.process.settings import ADMIN, WorkerSettings


def prepare(topology: Topology, settings: WorkerSettings) -> tuple[Layout, dict[str, int]]:
    """Create the internal topics that are missing. Return the layout, and the numbers of partitions.

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
