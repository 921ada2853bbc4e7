"""The state that all parts of a group machine share."""

from __future__ import annotations

from collections.abc import Callable

from odradek.config.broker_config import BrokerConfig
from odradek.config.group_config import GroupConfig
from odradek.core.coordinator.clock import Clock
from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.machine import Effects
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.group import Group, GroupType
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.model import uuids
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode

Note = Callable[[str, str], None]
"""Called with a group id and a message for the operator's log."""


def no_note(group_id: str, text: str) -> None:
    """Ignore the message."""


class OffsetCounts:
    """Numbers of offsets since the machine was created (metrics)."""

    __slots__ = ("committed", "deleted", "expired")

    def __init__(self) -> None:
        self.committed = 0
        self.expired = 0
        self.deleted = 0
        """Offsets that a client has deleted."""

    def on_committed(self, count: int) -> None:
        """Count committed offsets."""
        self.committed += count

    def on_expired(self, count: int) -> None:
        """Count offsets that have expired."""
        self.expired += count

    def on_deleted(self, count: int) -> None:
        """Count offsets that a client has deleted."""
        self.deleted += count


class GroupState:
    """The groups of one partition, and the dependencies of the state machine."""

    __slots__ = (
        "_group_configs",
        "_group_defaults",
        "clock",
        "config",
        "effects",
        "groups",
        "image",
        "journal",
        "note",
        "offset_counts",
        "random_bytes",
        "rebalances",
        "timers",
    )

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        note: Note = no_note,
    ) -> None:
        self.config = config
        self._group_defaults: GroupConfig | None = None
        """The settings of groups without own settings, once they are needed."""
        self._group_configs: dict[str, GroupConfig] = {}
        """The settings of groups with own settings, once they are needed."""
        self.clock = clock
        self.random_bytes = random_bytes
        self.note = note
        self.journal = Journal()
        self.timers = TimerTable(clock.monotonic_ms)
        self.effects = Effects()
        self.groups: dict[str, Group] = {}
        self.image: MetadataImage = EMPTY_IMAGE
        self.rebalances = dict.fromkeys(GroupType, 0)
        """Number of rebalances since this machine was created."""

        self.offset_counts = OffsetCounts()

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed settings."""
        self.config = config
        self._group_defaults = None
        self._group_configs.clear()

    def update_image(self, image: MetadataImage) -> None:
        """Set the newest metadata image."""
        if image.configs is not self.image.configs:
            self._group_configs.clear()
        self.image = image

    def group(self, group_id: str) -> Group:
        """Return the group.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def settings(self, group_id: str) -> GroupConfig:
        """Return the settings of a group. The broker's settings are the defaults."""
        overrides = self.image.configs.of(ResourceType.GROUP, group_id)
        if overrides:
            found = self._group_configs.get(group_id)
            if found is None:
                found = self._group_configs[group_id] = self.config.group_config(overrides)
            return found
        if self._group_defaults is None:
            self._group_defaults = self.config.group_config({})
        return self._group_defaults

    def make_member_id(self, prefix: str) -> str:
        """Return a new member id: `prefix`, a dash and a random UUID."""
        text = uuids.make(self.random_bytes(16)).hex()
        return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
