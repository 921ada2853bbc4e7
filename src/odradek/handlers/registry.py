"""The APIs that a node serves, in one table. A handler is imported at the first request of its API.

A node that starts reads only this table. The file `kNN_name.py` of an API has its `HANDLER` (see
`odradek.handlers.handler`). ApiVersions and docs/support.md show what the table has.
"""

from __future__ import annotations

import importlib
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, cast

from odradek.wire.api import BY_NAME
from odradek.wire.names import snake_case

if TYPE_CHECKING:
    from odradek.handlers.handler import Handler


class Place(Enum):
    """Who serves an API."""

    BROKER = auto()
    """Brokers serve it: `Handler.handle`."""
    FORWARDED = auto()
    """Brokers forward the requests to the active controller, after `Handler.handle` if there is one."""
    CONTROLLER = auto()
    """Controllers serve it on their own listeners: `Handler.controller`."""


BROKER, FORWARDED, CONTROLLER = Place.BROKER, Place.FORWARDED, Place.CONTROLLER


class Served(NamedTuple):
    """One served API."""

    key: int
    module: str
    """The name of the module that has the handler."""
    version_min: int
    version_max: int
    places: frozenset[Place]
    unstable_version: int | None
    """The highest served version with `unstable.api.versions.enable`; None if this setting adds no
    version."""

    @property
    def is_on_brokers(self) -> bool:
        """Whether the listeners of brokers accept the requests."""
        return BROKER in self.places or FORWARDED in self.places

    @property
    def is_on_controllers(self) -> bool:
        """Whether the listeners of controllers accept the requests."""
        return CONTROLLER in self.places

    def handler(self) -> Handler:
        """Return the handler. Import its module if this is the first use."""
        return cast("Handler", importlib.import_module(self.module).HANDLER)


def _served(
    name: str, low: int, high: int, *places: Place, unstable_version: int | None = None
) -> Served:
    key = BY_NAME[name].key
    module = f"odradek.handlers.k{key:02d}_{snake_case(name)}"
    return Served(key, module, low, high, frozenset(places), unstable_version)


_TABLE = (
    _served("Produce", 3, 13, BROKER),
    _served("Fetch", 4, 18, BROKER, CONTROLLER),
    _served("ListOffsets", 1, 11, BROKER),
    _served("Metadata", 0, 13, BROKER),
    _served("OffsetCommit", 2, 10, BROKER),
    _served("OffsetFetch", 1, 10, BROKER),
    _served("FindCoordinator", 0, 6, BROKER),
    _served("JoinGroup", 0, 9, BROKER),
    _served("Heartbeat", 0, 4, BROKER),
    _served("LeaveGroup", 0, 5, BROKER),
    _served("SyncGroup", 0, 5, BROKER),
    _served("DescribeGroups", 0, 6, BROKER),
    _served("ListGroups", 0, 5, BROKER),
    _served("SaslHandshake", 0, 1, BROKER, CONTROLLER),
    _served("ApiVersions", 0, 5, BROKER, CONTROLLER),
    _served("CreateTopics", 2, 7, FORWARDED, CONTROLLER),
    _served("DeleteTopics", 1, 6, FORWARDED, CONTROLLER),
    _served("DeleteRecords", 0, 2, BROKER),
    _served("InitProducerId", 0, 5, BROKER, unstable_version=6),
    _served("OffsetForLeaderEpoch", 2, 4, BROKER),
    _served("AddPartitionsToTxn", 0, 5, BROKER),
    _served("AddOffsetsToTxn", 0, 4, BROKER),
    _served("EndTxn", 0, 5, BROKER),
    _served("WriteTxnMarkers", 1, 2, BROKER),
    _served("TxnOffsetCommit", 0, 6, BROKER),
    _served("DescribeAcls", 1, 3, BROKER, CONTROLLER),
    _served("CreateAcls", 1, 3, FORWARDED, CONTROLLER),
    _served("DeleteAcls", 1, 3, FORWARDED, CONTROLLER),
    _served("DescribeConfigs", 1, 4, BROKER, CONTROLLER),
    _served("AlterConfigs", 0, 2, BROKER, FORWARDED, CONTROLLER),
    _served("AlterReplicaLogDirs", 1, 2, BROKER),
    _served("DescribeLogDirs", 1, 5, BROKER),
    _served("SaslAuthenticate", 0, 2, BROKER, CONTROLLER),
    _served("CreatePartitions", 0, 3, FORWARDED, CONTROLLER),
    _served("CreateDelegationToken", 1, 3, BROKER, FORWARDED, CONTROLLER),
    _served("RenewDelegationToken", 1, 2, BROKER, FORWARDED, CONTROLLER),
    _served("ExpireDelegationToken", 1, 2, BROKER, FORWARDED, CONTROLLER),
    _served("DescribeDelegationToken", 1, 3, BROKER, CONTROLLER),
    _served("DeleteGroups", 0, 3, BROKER),
    _served("ElectLeaders", 0, 2, FORWARDED, CONTROLLER),
    _served("IncrementalAlterConfigs", 0, 1, BROKER, FORWARDED, CONTROLLER),
    _served("AlterPartitionReassignments", 0, 1, FORWARDED, CONTROLLER),
    _served("ListPartitionReassignments", 0, 0, FORWARDED, CONTROLLER),
    _served("OffsetDelete", 0, 0, BROKER),
    _served("DescribeClientQuotas", 0, 1, BROKER),
    _served("AlterClientQuotas", 0, 1, FORWARDED, CONTROLLER),
    _served("DescribeUserScramCredentials", 0, 0, BROKER, CONTROLLER),
    _served("AlterUserScramCredentials", 0, 0, FORWARDED, CONTROLLER),
    _served("Vote", 0, 2, CONTROLLER),
    _served("BeginQuorumEpoch", 0, 1, CONTROLLER),
    _served("EndQuorumEpoch", 0, 1, CONTROLLER),
    _served("DescribeQuorum", 0, 2, FORWARDED, CONTROLLER),
    _served("AlterPartition", 2, 3, CONTROLLER),
    _served("UpdateFeatures", 0, 2, FORWARDED, CONTROLLER),
    _served("Envelope", 0, 0, CONTROLLER),
    _served("FetchSnapshot", 0, 1, CONTROLLER),
    _served("DescribeCluster", 0, 2, BROKER, CONTROLLER),
    _served("DescribeProducers", 0, 0, BROKER),
    _served("BrokerRegistration", 0, 4, CONTROLLER),
    _served("BrokerHeartbeat", 0, 2, CONTROLLER),
    _served("UnregisterBroker", 0, 0, FORWARDED, CONTROLLER),
    _served("DescribeTransactions", 0, 0, BROKER),
    _served("ListTransactions", 0, 2, BROKER),
    _served("AllocateProducerIds", 0, 0, CONTROLLER),
    _served("ConsumerGroupHeartbeat", 0, 1, BROKER),
    _served("ConsumerGroupDescribe", 0, 1, BROKER),
    _served("ControllerRegistration", 0, 0, CONTROLLER),
    _served("GetTelemetrySubscriptions", 0, 0, BROKER),
    _served("PushTelemetry", 0, 0, BROKER),
    _served("AssignReplicasToDirs", 0, 0, CONTROLLER),
    _served("ListConfigResources", 0, 1, BROKER),
    _served("DescribeTopicPartitions", 0, 0, BROKER),
    _served("ShareGroupHeartbeat", 1, 1, BROKER),
    _served("ShareGroupDescribe", 1, 1, BROKER),
    _served("ShareFetch", 1, 2, BROKER),
    _served("ShareAcknowledge", 1, 2, BROKER),
    _served("AddRaftVoter", 0, 1, FORWARDED, CONTROLLER),
    _served("RemoveRaftVoter", 0, 0, FORWARDED, CONTROLLER),
    _served("UpdateRaftVoter", 0, 0, CONTROLLER),
    _served("InitializeShareGroupState", 0, 0, BROKER),
    _served("ReadShareGroupState", 0, 0, BROKER),
    _served("WriteShareGroupState", 0, 1, BROKER),
    _served("DeleteShareGroupState", 0, 0, BROKER),
    _served("ReadShareGroupStateSummary", 0, 1, BROKER),
    _served("StreamsGroupHeartbeat", 0, 1, BROKER),
    _served("StreamsGroupDescribe", 0, 1, BROKER),
    _served("DescribeShareGroupOffsets", 0, 1, BROKER),
    _served("AlterShareGroupOffsets", 0, 0, BROKER),
    _served("DeleteShareGroupOffsets", 0, 0, BROKER),
    _served("StreamsGroupTopologyDescriptionUpdate", 0, 0, BROKER),
    _served("UnregisterController", 0, 0, FORWARDED, CONTROLLER),
)

SERVED = {each.key: each for each in _TABLE}
"""The served APIs by API key, in ascending order."""
