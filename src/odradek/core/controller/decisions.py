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
from odradek.model import api_keys

Decide = Callable[[ControllerState, Any, int], Decision[Any]]
"""The arguments are the state, the request and the API version. Returns the decision.

Raises `ApiError` if the whole request fails.
"""

DECISIONS: dict[int, Decide] = {
    api_keys.CREATE_TOPICS: topics.create_topics,
    api_keys.DELETE_TOPICS: topics.delete_topics,
    api_keys.CREATE_ACLS: acls.create_acls,
    api_keys.DELETE_ACLS: acls.delete_acls,
    api_keys.ALTER_CONFIGS: configs.alter_configs,
    api_keys.CREATE_PARTITIONS: partitions.create_partitions,
    api_keys.CREATE_DELEGATION_TOKEN: delegation_tokens.create_delegation_token,
    api_keys.RENEW_DELEGATION_TOKEN: delegation_tokens.renew_delegation_token,
    api_keys.EXPIRE_DELEGATION_TOKEN: delegation_tokens.expire_delegation_token,
    api_keys.ELECT_LEADERS: elections.elect_leaders,
    api_keys.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    api_keys.ALTER_PARTITION_REASSIGNMENTS: reassignments.alter_partition_reassignments,
    api_keys.LIST_PARTITION_REASSIGNMENTS: reassignments.list_partition_reassignments,
    api_keys.ALTER_CLIENT_QUOTAS: client_quotas.alter_client_quotas,
    api_keys.ALTER_USER_SCRAM_CREDENTIALS: scram.alter_user_scram_credentials,
    api_keys.ALTER_PARTITION: alter_partition.alter_partition,
    api_keys.UPDATE_FEATURES: features.update_features,
    api_keys.BROKER_REGISTRATION: brokers.register_broker,
    api_keys.BROKER_HEARTBEAT: brokers.broker_heartbeat,
    api_keys.UNREGISTER_BROKER: brokers.unregister_broker,
    api_keys.ALLOCATE_PRODUCER_IDS: producer_ids.allocate_producer_ids,
    api_keys.CONTROLLER_REGISTRATION: brokers.register_controller,
    api_keys.UNREGISTER_CONTROLLER: brokers.unregister_controller,
    api_keys.ASSIGN_REPLICAS_TO_DIRS: directories.assign_replicas_to_directories,
}
"""The function for each request, by API key."""
