"""A source of random bytes."""

from __future__ import annotations

import os
from collections.abc import Callable

RandomBytes = Callable[[int], bytes]
"""Returns the given number of random bytes. A simulation uses `randbytes` of a seeded generator."""

system_random_bytes: RandomBytes = os.urandom
