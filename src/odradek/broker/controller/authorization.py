"""What the controller checks before it decides about a client's request (Kafka's ControllerApis).

Most requests need one operation on the cluster. Some name topics or other resources, and each of
them is checked. Those that are refused are removed from the request, and their errors are added to
the response. The requests of the node itself are not checked.

Resources that a request names twice are not checked, because they get the error INVALID_REQUEST in
any case.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

from odradek.broker.access.authorizer import CLUSTER, GROUP, TOPIC, Authorizer
from odradek.broker.clients.request_context import RequestContext
from odradek.config.broker_config import BrokerConfig
from odradek.core.controller.delegation_tokens import owner_of
from odradek.core.metadata.image import MetadataImage
from odradek.model import api_keys
from odradek.model.acl import CLUSTER_NAME, AclOperation, AclResourceType
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.principal import Principal
from odradek.model.topic_name import METADATA_TOPIC
from odradek.model.uuids import ZERO
from odradek.wire.generated import (
    alter_configs_response,
    incremental_alter_configs_response,
)
from odradek.wire.generated.create_delegation_token_request import CreateDelegationTokenRequest
from odradek.wire.generated.create_partitions_request import CreatePartitionsRequest
from odradek.wire.generated.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from odradek.wire.generated.create_topics_request import CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.generated.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

Complete = Callable[[Any], None]
"""Adds the results of refused resources to the response."""
_Checked = tuple[Any, Complete]
"""The request without what is refused, and the completion of its response."""

CLUSTER_OPERATIONS = {
    api_keys.CREATE_ACLS: AclOperation.ALTER,
    api_keys.DELETE_ACLS: AclOperation.ALTER,
    api_keys.ELECT_LEADERS: AclOperation.ALTER,
    api_keys.ALTER_PARTITION_REASSIGNMENTS: AclOperation.ALTER,
    api_keys.LIST_PARTITION_REASSIGNMENTS: AclOperation.DESCRIBE,
    api_keys.ALTER_CLIENT_QUOTAS: AclOperation.ALTER_CONFIGS,
    api_keys.ALTER_USER_SCRAM_CREDENTIALS: AclOperation.ALTER,
    api_keys.DESCRIBE_QUORUM: AclOperation.DESCRIBE,
    api_keys.ALTER_PARTITION: AclOperation.CLUSTER_ACTION,
    api_keys.UPDATE_FEATURES: AclOperation.ALTER,
    api_keys.BROKER_REGISTRATION: AclOperation.CLUSTER_ACTION,
    api_keys.BROKER_HEARTBEAT: AclOperation.CLUSTER_ACTION,
    api_keys.UNREGISTER_BROKER: AclOperation.ALTER,
    api_keys.UNREGISTER_CONTROLLER: AclOperation.ALTER,
    api_keys.ALLOCATE_PRODUCER_IDS: AclOperation.CLUSTER_ACTION,
    api_keys.CONTROLLER_REGISTRATION: AclOperation.CLUSTER_ACTION,
    api_keys.ASSIGN_REPLICAS_TO_DIRS: AclOperation.CLUSTER_ACTION,
    api_keys.ADD_RAFT_VOTER: AclOperation.ALTER,
    api_keys.REMOVE_RAFT_VOTER: AclOperation.ALTER,
    api_keys.UPDATE_RAFT_VOTER: AclOperation.CLUSTER_ACTION,
}
"""API key -> the operation on the cluster that the client needs."""


class Guard:
    """The checks of one request."""

    def __init__(
        self,
        authorizer: Authorizer,
        context: RequestContext,
        image: MetadataImage,
        config: BrokerConfig,
    ) -> None:
        """`image` has the topics whose ids the request may contain."""
        self._authorizer = authorizer
        self._context = context
        self._image = image
        self._config = config

    def check(self, request: Any) -> _Checked:
        """Check a request.

        Raises:
            ApiError: CLUSTER_AUTHORIZATION_FAILED, DELEGATION_TOKEN_AUTHORIZATION_FAILED: the whole
                request is refused.
        """
        check = _BY_RESOURCE.get(request.API_KEY)
        if check is not None:
            return check(self, request)
        self._authorizer.require_cluster(self._context, CLUSTER_OPERATIONS[request.API_KEY])
        return request, _nothing

    def _topics(
        self, operation: AclOperation, names: set[str], log_denied: bool = True
    ) -> set[str]:
        return self._authorizer.permitted(
            self._context, operation, TOPIC, sorted(names), log_denied=log_denied
        )

    def _permits_all_topics(self, operation: AclOperation) -> bool:
        """Return whether an operation on the cluster covers all topics."""
        return self._authorizer.permits(
            self._context, operation, CLUSTER, CLUSTER_NAME, log_denied=False
        )

    def create_topics(self, request: CreateTopicsRequest) -> _Checked:
        """Check CREATE on the cluster or the topics; DESCRIBE_CONFIGS shows the settings."""
        names = _once(each.name for each in request.topics) - {METADATA_TOPIC}
        refused: set[str] = set()
        if not self._permits_all_topics(AclOperation.CREATE):
            refused = names - self._topics(AclOperation.CREATE, names)
        shown = self._topics(AclOperation.DESCRIBE_CONFIGS, names, log_denied=False)

        def complete(response: CreateTopicsResponse) -> None:
            for topic in response.topics:
                if topic.error_code == ErrorCode.NONE and topic.name not in shown:
                    topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    topic.num_partitions = topic.replication_factor = -1
                    topic.configs = []
            response.topics += [
                CreatableTopicResult(
                    name=each.name,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message="Authorization failed.",
                )
                for each in request.topics
                if each.name in refused
            ]

        allowed = copy.copy(request)
        allowed.topics = [each for each in request.topics if each.name not in refused]
        return allowed, complete

    def delete_topics(self, request: DeleteTopicsRequest) -> _Checked:
        """Check DELETE on the cluster or the topics.

        A client that may not DESCRIBE a topic does not learn whether it exists.
        """
        # A request that names topics when none may be deleted fails as a whole.
        if not self._config.delete_topic_enable or self._permits_all_topics(AclOperation.DELETE):
            return request, _nothing
        states = [*request.topics, *(DeleteTopicState(name=n) for n in request.topic_names)]
        counts = Counter((each.name, each.topic_id) for each in states)
        once = [each for each in states if counts[each.name, each.topic_id] == 1]
        names = {name for name in map(self._name, once) if name is not None}
        seen = self._topics(AclOperation.DESCRIBE, names)
        deletable = self._topics(AclOperation.DELETE, names)
        refused: list[DeletableTopicResult] = []
        allowed = copy.copy(request)
        allowed.topics, allowed.topic_names = [], []
        for state in states:
            name = self._name(state) if counts[state.name, state.topic_id] == 1 else None
            exists = name in self._image.topics.by_name
            hidden = state.name is not None and name not in seen
            if name is None or not (hidden or (exists and name not in deletable)):
                allowed.topics.append(state)
                continue
            refused.append(
                DeletableTopicResult(
                    name=None if state.name is None and name not in seen else name,
                    topic_id=state.topic_id,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=ErrorCode.TOPIC_AUTHORIZATION_FAILED.message,
                )
            )

        def complete(response: DeleteTopicsResponse) -> None:
            response.responses += refused

        return allowed, complete

    def _name(self, state: DeleteTopicState) -> str | None:
        """Return the name of a topic of the request; None if it is unknown or ambiguous."""
        if state.topic_id == ZERO:
            return state.name
        topic = self._image.topics.by_id.get(state.topic_id)
        return None if topic is None or state.name is not None else topic.name

    def create_partitions(self, request: CreatePartitionsRequest) -> _Checked:
        """Check ALTER on the topics."""
        names = _once(each.name for each in request.topics)
        refused = names - self._topics(AclOperation.ALTER, names)

        def complete(response: CreatePartitionsResponse) -> None:
            response.results += [
                CreatePartitionsTopicResult(
                    name=each.name,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=None,
                )
                for each in request.topics
                if each.name in refused
            ]

        allowed = copy.copy(request)
        allowed.topics = [each for each in request.topics if each.name not in refused]
        return allowed, complete

    def alter_configs(self, request: Any) -> _Checked:
        """Check ALTER_CONFIGS on the resources. The results keep the order of the resources."""
        counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
        errors = [
            self.config_error(*key) if counts[key] == 1 else None
            for key in ((each.resource_type, each.resource_name) for each in request.resources)
        ]
        kind: Any = incremental_alter_configs_response.AlterConfigsResourceResponse
        if request.API_KEY == api_keys.ALTER_CONFIGS:
            kind = alter_configs_response.AlterConfigsResourceResponse

        def complete(response: Any) -> None:
            decided = {
                (each.resource_type, each.resource_name): each for each in response.responses
            }
            results = []
            for each, error in zip(request.resources, errors, strict=True):
                if error is not None:
                    result = kind(
                        resource_type=each.resource_type,
                        resource_name=each.resource_name,
                        error_code=error,
                        error_message=error.message,
                    )
                else:  # the decision has one result for a resource that is repeated
                    result = decided.pop((each.resource_type, each.resource_name), None)
                if result is not None:
                    results.append(result)
            response.responses = results

        allowed = copy.copy(request)
        allowed.resources = [
            each for each, error in zip(request.resources, errors, strict=True) if error is None
        ]
        return allowed, complete

    def create_delegation_token(self, request: CreateDelegationTokenRequest) -> _Checked:
        """Check CREATE_TOKENS on the owner, if that is not the client itself.

        Raises:
            ApiError: DELEGATION_TOKEN_AUTHORIZATION_FAILED.
        """
        owner = str(owner_of(request, Principal.parse(self._context.principal)))
        operation, kind = AclOperation.CREATE_TOKENS, AclResourceType.USER
        if owner != self._context.principal and not self._authorizer.permits(
            self._context, operation, kind, owner
        ):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        return request, _nothing

    def owned_token(self, request: Any) -> _Checked:
        """Check nothing: the decision allows only the owner and the renewers of the token."""
        return request, _nothing

    def config_error(self, kind: int, name: str) -> ErrorCode | None:
        """Return why the client may not alter a resource's settings; None if it may."""
        operation = AclOperation.ALTER_CONFIGS
        match kind:
            case ResourceType.TOPIC:
                if not self._authorizer.permits(self._context, operation, TOPIC, name):
                    return ErrorCode.TOPIC_AUTHORIZATION_FAILED
            case ResourceType.GROUP:
                if not self._authorizer.permits(self._context, operation, GROUP, name):
                    return ErrorCode.GROUP_AUTHORIZATION_FAILED
            case ResourceType.BROKER | ResourceType.CLIENT_METRICS:
                if not self._authorizer.permits_cluster(self._context, operation):
                    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            case _:
                pass  # the decision refuses all other types
        return None


_BY_RESOURCE: dict[int, Callable[[Guard, Any], _Checked]] = {
    api_keys.CREATE_TOPICS: Guard.create_topics,
    api_keys.DELETE_TOPICS: Guard.delete_topics,
    api_keys.ALTER_CONFIGS: Guard.alter_configs,
    api_keys.CREATE_PARTITIONS: Guard.create_partitions,
    api_keys.CREATE_DELEGATION_TOKEN: Guard.create_delegation_token,
    api_keys.RENEW_DELEGATION_TOKEN: Guard.owned_token,
    api_keys.EXPIRE_DELEGATION_TOKEN: Guard.owned_token,
    api_keys.INCREMENTAL_ALTER_CONFIGS: Guard.alter_configs,
}
"""The checks of requests that name resources, by API key."""


def _nothing(response: Any) -> None:
    """Leave the response as it is."""


def _once(names: Any) -> set[str]:
    """Return the names that occur once."""
    return {name for name, count in Counter(names).items() if count == 1}
