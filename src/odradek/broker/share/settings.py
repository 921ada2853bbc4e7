"""The settings of share groups: of the group itself, and the broker's settings as defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.broker.metadata.cache import MetadataCache
from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import priorities
from odradek.config.group_config import GroupConfig
from odradek.core.metadata.image import ConfigsImage, FeaturesImage
from odradek.core.metadata.versions import DEAD_LETTERS, SHARE_VERSION
from odradek.core.share.states import ShareSettings
from odradek.model.config_resource import ResourceType

READ_COMMITTED: Final = "read_committed"
PRIORITY: Final = "odradek.share.priority"


class FetchSettings(NamedTuple):
    """What a share fetch of the group uses."""

    is_read_committed: bool
    """Whether the group reads no records of open or aborted transactions."""
    priorities: Mapping[str, int]
    """The priorities of topics by name; 0 for others. Empty if the group does not use them."""


class _Known(NamedTuple):
    """The settings of a group, and what they were computed from."""

    config: BrokerConfig
    configs: ConfigsImage
    features: FeaturesImage
    group: GroupConfig
    share: ShareSettings
    fetch: FetchSettings


class ShareGroupSettings:
    """Computes the settings of a group when they are needed, and again when they have changed."""

    def __init__(self, metadata: MetadataCache, config: Callable[[], BrokerConfig]) -> None:
        """`config` returns the newest configuration of the broker."""
        self._metadata = metadata
        self._config = config
        self._known: dict[str, _Known] = {}

    def of(self, group_id: str) -> ShareSettings:
        """Return what share partitions of the group use."""
        return self._find(group_id).share

    def of_fetch(self, group_id: str) -> FetchSettings:
        """Return what share fetches of the group use."""
        return self._find(group_id).fetch

    def offset_reset(self, group_id: str) -> str:
        """Return where a new share partition of the group begins."""
        return self._find(group_id).group.share_auto_offset_reset

    def forget(self, group_id: str) -> None:
        """Drop the settings of a group without members."""
        self._known.pop(group_id, None)

    def _find(self, group_id: str) -> _Known:
        config, image = self._config(), self._metadata.image
        configs, features = image.configs, image.features
        known = self._known.get(group_id)
        if (
            known is not None
            and known.config is config
            and known.configs is configs
            and known.features is features
        ):
            return known
        group = config.group_config(configs.of(ResourceType.GROUP, group_id))
        known = self._known[group_id] = _Known(
            config,
            configs,
            features,
            group,
            ShareSettings(
                group.share_record_lock_duration_ms,
                group.share_delivery_count_limit,
                group.share_partition_max_record_locks,
                group.share_renew_acknowledge_enable,
                features.level(SHARE_VERSION) >= DEAD_LETTERS
                and group.errors_deadletterqueue_topic_name != "",
                group.odradek_share_delay_enable,
                group.odradek_share_backoff_ms,
                group.odradek_share_backoff_max_ms,
                group.odradek_share_record_ttl_ms,
            ),
            FetchSettings(
                group.share_isolation_level == READ_COMMITTED,
                priorities(PRIORITY, group.odradek_share_priority),
            ),
        )
        return known
