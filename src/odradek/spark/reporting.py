"""Errors of the cluster as Spark shows them: one message with advice.

Spark shows the traceback of a Python worker, with all errors that led to an error. Whoever reads it
needs the last one only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from odradek.client.errors import ClientError


class ClusterError(RuntimeError):
    """The cluster cannot be reached, or returned an error."""


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Raise errors of the client as errors with their advice, and without their causes.

    Raises:
        ClusterError: the body raised a `ClientError`.
    """
    try:
        yield
    except ClientError as error:
        message = str(error).rstrip(".")
        raise ClusterError(f"{message}. {error.advice}".strip()) from None
