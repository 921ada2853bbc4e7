"""Tells whether this package runs compiled: see docs/decisions/compiled-modules.md."""

from __future__ import annotations

from types import FunctionType
from typing import Final


def _probe() -> None:
    """A Python function if interpreted, a built-in one if compiled."""


COMPILED: Final = not isinstance(_probe, FunctionType)
"""Whether the package is compiled. Selects between two implementations with the same result, where
one is faster only if interpreted."""
