"""The controller as the handlers of controller listeners use it: references to its parts."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.broker.access.authorizer import Authorizer
from odradek.broker.access.delegation_tokens import DelegationTokens
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.supported_versions import SupportedVersions
from odradek.broker.raft.quorum_requests import QuorumRequests
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.broker_config import BrokerConfig


@dataclass(slots=True)
class Controller:
    """The parts of a controller.

    `odradek.node` creates this object and passes it to every handler of a controller listener."""

    decisions: QuorumController
    quorum: QuorumRequests
    metadata: MetadataCache
    tokens: DelegationTokens
    dynamic: DynamicConfig
    versions: SupportedVersions
    authorizer: Authorizer | None = None
    """Checks what clients may do. None if `authorizer.class.name` is empty."""

    @property
    def config(self) -> BrokerConfig:
        """The configuration of this node, with the dynamic settings in the metadata."""
        return self.dynamic.of(self.metadata.image)

    @property
    def node_id(self) -> int:
        """The id of this node."""
        return self.dynamic.base.node_id
