"""Maps each request to the function that decides on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.controller import (
    acls,
    alter_partition,
    brokers,
    client_quotas,
    configs,
    delegation_tokens,
    directories,
    elections,
    features,
    partitions,
    producer_ids,
    reassignments,
    scram,
    topics,
)
from odradek.core.controller.state import ControllerState, Decision

Decide = Callable[[ControllerState, Any, int], Decision[Any]]
"""The arguments are the state, the request and the API version. Returns the decision.

Raises `ApiError` if the whole request fails.
"""

DECISIONS: dict[int, Decide] = {
    19: topics.create_topics,
    20: topics.delete_topics,
    30: acls.create_acls,
    31: acls.delete_acls,
    33: configs.alter_configs,
    37: partitions.create_partitions,
    38: delegation_tokens.create_delegation_token,
    39: delegation_tokens.renew_delegation_token,
    40: delegation_tokens.expire_delegation_token,
    43: elections.elect_leaders,
    44: configs.incremental_alter_configs,
    45: reassignments.alter_partition_reassignments,
    46: reassignments.list_partition_reassignments,
    49: client_quotas.alter_client_quotas,
    51: scram.alter_user_scram_credentials,
    56: alter_partition.alter_partition,
    57: features.update_features,
    62: brokers.register_broker,
    63: brokers.broker_heartbeat,
    64: brokers.unregister_broker,
    67: producer_ids.allocate_producer_ids,
    70: brokers.register_controller,
    73: directories.assign_replicas_to_directories,
}
"""The function for each request, by API key."""
