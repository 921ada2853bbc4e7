"""Says which extra has a library that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odradek.config import extras


@contextmanager
def needs(what: str) -> Iterator[None]:
    """Import libraries inside of it.

    Raises:
        ImportError: one is not installed. The message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{what} needs the package {error.name}: {extras.install(extras.SERIALIZERS)}",
            name=error.name,
        ) from error
