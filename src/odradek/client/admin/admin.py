"""All administrative requests in one class, with the names of Java's `Admin`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from odradek.client.admin.cluster_calls import ClusterCalls
from odradek.client.admin.group_calls import GroupCalls
from odradek.client.admin.topic_calls import TopicCalls
from odradek.client.cluster import Cluster
from odradek.client.shell.settings import CONNECTION_SETTINGS, Given

TIMEOUT_MS = "default.api.timeout.ms"
ADMIN_SETTINGS = (*CONNECTION_SETTINGS, TIMEOUT_MS)


class Admin(TopicCalls, GroupCalls, ClusterCalls):
    """Administers a cluster. One thread uses it at a time.

    Methods about several items try all of them. If some fail, they raise a `SomeFailedError`, an exception
    group that has the errors and the other results by item.
    """

    def __init__(
        self,
        cluster: Cluster | Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        **keywords: object,
    ) -> None:
        """Make a client, which connects when it is first used.

        Settings have Kafka's names in a mapping, or are keywords with underscores. Instead, a `Cluster` may
        be given, which is not closed at the end.

        Raises:
            ValueError: a setting is unknown or malformed.
        """
        self._owns_cluster = not isinstance(cluster, Cluster)
        if isinstance(cluster, Cluster):
            super().__init__(cluster)
        else:
            super().__init__(make_cluster({**(cluster or {}), **(settings or {})}, keywords))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owns_cluster:
            self._cluster.close()


def make_cluster(settings: Mapping[str, object], keywords: Mapping[str, object]) -> Cluster:
    """Return the connections of an administrator.

    Raises:
        ValueError: a setting is unknown or malformed.
    """
    given = Given(settings, keywords, ADMIN_SETTINGS, {})
    connection = given.connection()
    return Cluster(
        connection.bootstrap,
        client_id=connection.client_id,
        timeout_ms=given.number_or(TIMEOUT_MS, 60_000, 1),
        connect_timeout_ms=connection.connect_timeout_ms,
        security=connection.security,
        rebootstraps=connection.recovery.rebootstraps,
        checks_nodes=connection.checks_nodes,
    )
