"""Randomness, as an argument."""

from __future__ import annotations

import os
from collections.abc import Callable

RandomBytes = Callable[[int], bytes]
"""Returns that many random bytes; `system_random_bytes`, or a seeded generator's `randbytes`."""

system_random_bytes: RandomBytes = os.urandom
