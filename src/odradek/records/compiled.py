"""Whether this package runs compiled: see docs/decisions/compiled-modules.md."""

from __future__ import annotations

from types import FunctionType


def _probe() -> None:
    """An ordinary function in Python source, a built-in one in a compiled module."""


COMPILED = not isinstance(_probe, FunctionType)
"""Choose between two ways that give the same result where one is faster only if interpreted."""
