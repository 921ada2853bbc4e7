"""Chooses the feature levels of a new cluster from options of `odradek format`.

The rules are those of `kafka-storage format` (`Formatter` in Apache Kafka): a release determines
the level of metadata.version and the default levels of the other features. Each feature can have
another level, if this release of Odradek supports it and if it fits to metadata.version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.core.metadata.releases import LEVEL_NAMES, default_levels, level_of_release
from odradek.core.metadata.versions import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    LEVEL_ELR,
    LEVEL_MAX,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from odradek.node.format import FormatError


def choose_levels(
    release: str | None, features: Sequence[str], *, is_dynamic: bool
) -> dict[str, int]:
    """Return the levels of all features.

    `release` is the value of --release-version. `features` are the values of --feature, such as
    `group.version=1`. If a feature is given twice, the last level counts. `is_dynamic` says whether
    the voters of the quorum are in its log (kraft.version 1), not in controller.quorum.voters.

    Raises:
        FormatError: the options are invalid, or contradict each other.
    """
    given = dict(_parse(each) for each in features)
    levels = default_levels(_metadata_level(release, given.pop(METADATA_VERSION, None)))
    levels[KRAFT_VERSION] = int(is_dynamic)
    for name, level in given.items():
        _check(name, level, levels[METADATA_VERSION])
        if name == KRAFT_VERSION:
            _check_kraft_version(level, is_dynamic)
        levels[name] = level
    return levels


def _parse(text: str) -> tuple[str, int]:
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals or not level.removeprefix("-").isdecimal():
        raise FormatError(f"--feature {text}: write NAME=LEVEL, for example group.version=1")
    return name, int(level)


def _metadata_level(release: str | None, level: int | None) -> int:
    if level is not None:
        if release is not None:
            raise FormatError(
                f"--release-version already sets {METADATA_VERSION}: "
                f"remove it or --feature {METADATA_VERSION}={level}"
            )
        if level not in LEVEL_NAMES:
            raise FormatError(f"{METADATA_VERSION} {level} is not supported: {_range_of_levels()}")
        return level
    if release is None:
        return LEVEL_MAX
    found = level_of_release(release)
    if found is None:
        raise FormatError(
            f"unknown {METADATA_VERSION} {release}: choose one of {', '.join(LEVEL_NAMES.values())}"
        )
    return found


def _range_of_levels() -> str:
    low, high = SUPPORTED_FEATURES[METADATA_VERSION]
    return f"the levels are {low} ({LEVEL_NAMES[low]}) to {high} ({LEVEL_NAMES[high]})"


def _check(name: str, level: int, metadata_level: int) -> None:
    known: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES
    if name not in known:
        others = ", ".join(sorted(each for each in known if each != METADATA_VERSION))
        raise FormatError(f"unknown feature {name}: the features are {others}")
    low, high = known[name]
    if not low <= level <= high:
        raise FormatError(f"{name} has no level {level}: its levels are {low} to {high}")
    if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level > 0 and metadata_level < LEVEL_ELR:
        raise FormatError(
            f"{name} {level} needs {METADATA_VERSION} {LEVEL_ELR} ({LEVEL_NAMES[LEVEL_ELR]}) or "
            f"higher, not {metadata_level} ({LEVEL_NAMES[metadata_level]})"
        )


def _check_kraft_version(level: int, is_dynamic: bool) -> None:
    if is_dynamic and level == 0:
        raise FormatError(
            f"{KRAFT_VERSION} 0 needs the setting controller.quorum.voters: set it, or remove "
            f"--feature {KRAFT_VERSION}=0"
        )
    if not is_dynamic and level > 0:
        raise FormatError(
            f"{KRAFT_VERSION} {level} is for a quorum without controller.quorum.voters: remove this "
            "setting, and choose one of --standalone, --initial-controllers or "
            "--no-initial-controllers"
        )
