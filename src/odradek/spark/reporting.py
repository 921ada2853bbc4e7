"""Converts errors of the client to errors with one message, which contains the advice.

If a Python worker fails, Spark shows the traceback with all causes of the error. A user needs only
the last error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from odradek.client.errors import ClientError


class ClusterError(RuntimeError):
    """The cluster cannot be reached, or returned an error."""


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Convert a `ClientError` of the body to a `ClusterError` with the advice and without a cause.

    Raises:
        ClusterError: the body raised a `ClientError`.
    """
    try:
        yield
    except ClientError as error:
        message = str(error).rstrip(".")
        raise ClusterError(f"{message}. {error.advice}".strip()) from None
