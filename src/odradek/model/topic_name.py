"""Checks whether topic names are valid or internal, and whether they collide."""

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
    """Return a message that says why the topic name is invalid; None if it is valid."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{NAME_LENGTH_MAX}"
        )
    if _VALID.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def is_internal(name: str) -> bool:
    """Return whether the topic is internal. Clients should not write to internal topics."""
    return name in INTERNAL_TOPICS


def collision_key(name: str) -> str:
    """Return the name with '_' in place of '.'.

    Topics with the same key collide, because names of Kafka's metrics have '_' in place of '.'.
    """
    return name.replace(".", "_")
