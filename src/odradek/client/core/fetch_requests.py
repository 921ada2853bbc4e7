"""Builds the requests of a fetcher."""

from __future__ import annotations

from odradek.client.core.asks import Ask, Link
from odradek.client.core.fetch_session import VERSION_OF_NAMES_MAX, FetchFrom, FetchSession
from odradek.client.core.fetch_settings import FetchSettings
from odradek.client.core.fetch_state import FetchState
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import FetchResponse

VERSION_MAX = 17
"""The newest version of Fetch that has something for consumers."""
Asked = dict[TopicPartition, tuple[FetchState, int, int]]
"""What was fetched: the partition, its version, and the offset."""


def fetch_request(
    settings: FetchSettings, session: FetchSession, states: list[FetchState]
) -> tuple[FetchRequest, Asked, int]:
    """Return a request for partitions, what it asks for, and its highest version."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=settings.wait_ms_max,
        min_bytes=settings.bytes_min,
        max_bytes=settings.bytes_max,
        isolation_level=settings.isolation,
        rack_id=settings.rack,
    )
    asked: Asked = {}
    wanted: dict[TopicPartition, FetchFrom] = {}
    for state in states:
        key = state.topic_partition
        asked[key] = state, state.version, state.fetch_offset
        wanted[key] = FetchFrom(
            state.fetch_offset,
            state.leader_epoch,
            settings.partition_bytes_max,
            state.topic_id,
        )
    has_ids = session.fill(request, wanted)
    return request, asked, VERSION_MAX if has_ids else VERSION_OF_NAMES_MAX


def end_of_session(link: Link, session: FetchSession, settings: FetchSettings) -> Ask:
    """Return the request that ends a session. Its answer does not matter."""
    request = FetchRequest(replica_id=-1)
    session.end(request)
    return Ask(
        link,
        request,
        FetchResponse,
        _ignore,
        _ignore,
        timeout_ms=settings.request_timeout_ms,
        version_max=VERSION_MAX,
    )


def _ignore(_outcome: object, _now_ms: int) -> None:
    """Ends are not waited for."""
