"""The status codes in responses to heartbeats of Streams groups."""

from __future__ import annotations

from typing import Final

STALE_TOPOLOGY: Final = 0
MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
MISSING_CLIENT_TAGS: Final = 6
