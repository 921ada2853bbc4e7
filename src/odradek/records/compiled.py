"""Tells whether this package is compiled (docs/decisions/compiled-modules.md)."""

from __future__ import annotations

from types import FunctionType
from typing import Final


def _probe() -> None:
    """This function is a Python function in interpreted code, and a built-in in compiled code."""


COMPILED: Final = not isinstance(_probe, FunctionType)
"""Whether the package is compiled. Some functions have two implementations with the same result.
`COMPILED` selects the implementation that is faster in compiled code."""
