"""Apache Kafka's releases: the levels of metadata.version, and the default levels of features.

Each level of metadata.version has a name such as `3.7-IV4`. A release such as `3.7` has the highest
level whose name begins with it. The other features have a default level for each release: the
highest level that was ready for production in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.core.metadata.versions import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    LEVEL_MAX,
    LEVEL_MIN,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)

_LEVELS_OF_RELEASES = (
    ("3.3", ("IV3",)),
    ("3.4", ("IV0",)),
    ("3.5", ("IV0", "IV1", "IV2")),
    ("3.6", ("IV0", "IV1", "IV2")),
    ("3.7", ("IV0", "IV1", "IV2", "IV3", "IV4")),
    ("3.8", ("IV0",)),
    ("3.9", ("IV0",)),
    ("4.0", ("IV0", "IV1", "IV2", "IV3")),
    ("4.1", ("IV0", "IV1")),
    ("4.2", ("IV0", "IV1")),
    ("4.3", ("IV0",)),
    ("4.4", ("IV0", "IV1", "IV2")),
)
LEVEL_NAMES: Mapping[int, str] = dict(
    enumerate(
        (f"{release}-{name}" for release, names in _LEVELS_OF_RELEASES for name in names), LEVEL_MIN
    )
)
"""The name of each level of metadata.version."""
_NEWER_LEVEL_NAMES = {34: "4.5-IV0"}
"""The names of levels that are not supported, for messages."""

_DEFAULT_SINCE = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: ((26, 1),),
    GROUP_VERSION: ((22, 1),),
    SHARE_VERSION: ((28, 1), (31, 2)),
    STREAMS_VERSION: ((29, 1),),
    TRANSACTION_VERSION: ((24, 2),),
}
"""For each feature, the levels of metadata.version from which on it has another default level."""


def unsupported(level: int) -> str:
    """Return a message for people about a level of metadata.version that is not supported."""
    name = _NEWER_LEVEL_NAMES.get(level, "of an unknown release")
    if level < LEVEL_MIN:
        return (
            f"metadata.version {level} is too old: this node supports {LEVEL_MIN} "
            f"({LEVEL_NAMES[LEVEL_MIN]}) and higher; upgrade the cluster with Apache Kafka 3.9 first"
        )
    return (
        f"metadata.version {level} ({name}) is not supported: this node supports {LEVEL_MIN} to "
        f"{LEVEL_MAX} ({LEVEL_NAMES[LEVEL_MAX]}); use a newer release of Odradek"
    )


def level_of_release(text: str) -> int | None:
    """Return the level of metadata.version for a name such as 3.7-IV4, 3.7 or 3.7.1.

    Return None if the name is unknown.
    """
    release = ".".join(text.split(".")[:2])
    found = [
        level
        for level, name in LEVEL_NAMES.items()
        if name == release or name.partition("-")[0] == release
    ]
    return max(found, default=None)


def default_levels(metadata_level: int = LEVEL_MAX) -> dict[str, int]:
    """Return the default level of each feature, except kraft.version, for a new cluster."""
    levels = {METADATA_VERSION: metadata_level}
    for name, changes in _DEFAULT_SINCE.items():
        levels[name] = max((to for since, to in changes if since <= metadata_level), default=0)
    return levels
