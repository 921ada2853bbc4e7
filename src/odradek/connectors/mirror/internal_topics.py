"""The topics of offset syncs, checkpoints and heartbeats: made with one partition, read to their ends."""

from __future__ import annotations

import logging

from odradek.client.admin.topics import NewTopic, create_topics, exists_already
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError
from odradek.core.connect.errors import ConnectError
from odradek.model.errors import ErrorCode

log = logging.getLogger(__name__)

_NOT_ALLOWED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def create_compacted_topic(cluster: Cluster, name: str, replication_factor: int) -> None:
    """Create a compacted topic with one partition, unless it exists.

    If this client may not create it, it is assumed to exist.

    Raises:
        ConnectError: it cannot be created.
        ClientError: the cluster does not respond.
    """
    topic = NewTopic(name, 1, replication_factor, {"cleanup.policy": "compact"})
    found = create_topics(cluster, [topic])[name]
    if not isinstance(found, ClientError):
        log.info("created topic %s", name)
        return
    if exists_already(found):
        return
    if isinstance(found, BrokerError) and found.code in _NOT_ALLOWED:
        log.info("the topic %s cannot be created without permission, and should exist", name)
        return
    raise ConnectError(f"Error while attempting to create/find topic '{name}': {found}") from found
