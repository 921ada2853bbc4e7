"""The settings of a consumer that its machine must know, with Java's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.client.core.fetch_settings import FetchSettings
from odradek.client.core.member_settings import MemberSettings

CLASSIC, CONSUMER = "classic", "consumer"
"""Values of `group.protocol`."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Without `member`, the consumer has no group."""

    fetch: FetchSettings = field(default_factory=FetchSettings)
    member: MemberSettings | None = None
    protocol: str = CLASSIC
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    remote_assignor: str | None = None
    commits_automatically: bool = False
    commit_interval_ms: int = 5_000
    api_timeout_ms: int = 60_000
    """`default.api.timeout.ms`."""
    hides_internal_topics: bool = True
    """`exclude.internal.topics`: patterns do not match them."""
