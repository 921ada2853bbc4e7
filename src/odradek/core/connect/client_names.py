"""Names that a connector has in Kafka."""

from __future__ import annotations

from collections.abc import Mapping


def sink_group(config: Mapping[str, str], connector: str) -> str:
    """Return the consumer group of a sink."""
    return config.get("consumer.override.group.id") or f"connect-{connector}"


def transactional_id(group: str, connector: str, task: int) -> str:
    """Return the transactional id of a task of an exactly-once source (KIP-618)."""
    return f"{group}-{connector}-{task}"
