"""What the error of a partition in a response to Fetch means."""

from __future__ import annotations

from enum import Enum

from odradek.model.errors import ErrorCode


class Effect(Enum):
    """What to do about an error."""

    REFRESH = "refresh"
    """Ask for the leader, and try again."""
    RETRY = "retry"
    """Try again."""
    OUT_OF_RANGE = "out of range"
    TELL = "tell"
    """Tell the user. The position stays."""


_EFFECTS = {
    ErrorCode.OFFSET_OUT_OF_RANGE: Effect.OUT_OF_RANGE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Effect.REFRESH,
    ErrorCode.REPLICA_NOT_AVAILABLE: Effect.REFRESH,
    ErrorCode.FENCED_LEADER_EPOCH: Effect.REFRESH,
    ErrorCode.KAFKA_STORAGE_ERROR: Effect.REFRESH,
    ErrorCode.OFFSET_NOT_AVAILABLE: Effect.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Effect.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_ID: Effect.REFRESH,
    ErrorCode.INCONSISTENT_TOPIC_ID: Effect.REFRESH,
    ErrorCode.LEADER_NOT_AVAILABLE: Effect.REFRESH,
    ErrorCode.LISTENER_NOT_FOUND: Effect.REFRESH,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Effect.RETRY,
    ErrorCode.UNKNOWN_SERVER_ERROR: Effect.RETRY,
    ErrorCode.CORRUPT_MESSAGE: Effect.TELL,
}


def effect_of(code: ErrorCode) -> Effect:
    """Return what to do. Unknown errors are tried again if they may pass."""
    return _EFFECTS.get(code, Effect.RETRY if code.retriable else Effect.TELL)
