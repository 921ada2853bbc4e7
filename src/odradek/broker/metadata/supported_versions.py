"""What a node supports, as ApiVersions tells its clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class SupportedVersions(NamedTuple):
    """The APIs and the features of one kind of listeners."""

    apis: Sequence[tuple[int, int, int]]
    """The served APIs (API key, lowest version, highest version), ordered by key."""
    features: Mapping[str, tuple[int, int]]
    """The lowest and the highest level of each feature that this software supports."""
    kraft_version: Callable[[], int]
    """Returns the finalized level of kraft.version."""
