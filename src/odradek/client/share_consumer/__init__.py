"""The former name of `odradek.client.share.consumer`. Programs may go on using it."""

from odradek.client.share.consumer import (
    AcknowledgementResult,
    AcknowledgeType,
    NotAcknowledgedError,
    ShareConsumer,
    ShareLimits,
    ShareRecord,
)

__all__ = [
    "AcknowledgeType",
    "AcknowledgementResult",
    "NotAcknowledgedError",
    "ShareConsumer",
    "ShareLimits",
    "ShareRecord",
]
