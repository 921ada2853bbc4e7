"""Names of topics: which are valid, which are the cluster's own, which collide."""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 249
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_STATE_TOPIC))

_VALID = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def name_problem(name: str) -> str | None:
    """Why a topic cannot be called so; None if it can."""
    if not name:
        return "the name of a topic may not be empty"
    if name in (".", ".."):
        return f"a topic may not be called {name!r}"
    if len(name) > NAME_LENGTH_MAX:
        return (
            f"the name of a topic may have {NAME_LENGTH_MAX} characters; this one has {len(name)}"
        )
    if _VALID.fullmatch(name) is None:
        return (
            f"the name of a topic may have letters and digits of ASCII, '.', '_' and '-'; "
            f"{name!r} has others"
        )
    return None


def is_internal(name: str) -> bool:
    """Whether clients should not write to the topic."""
    return name in INTERNAL_TOPICS


def collision_key(name: str) -> str:
    """The same for names that differ only in '.' and '_', which the names of metrics confuse."""
    return name.replace(".", "_")
