"""Marks tests that need the package of the checkout, not that of a wheel (`make test`)."""

from __future__ import annotations

from pathlib import Path

import pytest

import odradek

ROOT = Path(__file__).parents[1]
needs_checkout = pytest.mark.skipif(
    not Path(odradek.__file__).is_relative_to(ROOT / "src"),
    reason="the package is not imported from the checkout",
)
