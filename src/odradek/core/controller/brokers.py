"""Registers, fences, unfences and unregisters brokers; registers and unregisters controllers.

A broker's epoch is the offset of the first record of the decision that registered the broker. A
fenced broker leads no partition that has another replica. Metadata responses do not contain a
fenced broker. A new broker is fenced until it has read the metadata log up to its own registration.

A broker that wants to stop begins a controlled shutdown: it leaves the ISRs, and other replicas
become the leaders of its partitions. It may stop when it leads nothing (see `heartbeats`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.core.controller.heartbeats import BrokerState, Heard
from odradek.core.controller.partition_updates import (
    broker_fenced,
    broker_unfenced,
    broker_unregistered,
    directories_offline,
    unclean_shutdown,
)
from odradek.core.controller.state import ControllerState, Decision
from odradek.core.metadata.registrations import BrokerRegistration, Endpoint, VersionRange
from odradek.core.metadata.snapshot import broker_record
from odradek.core.metadata.versions import (
    KRAFT_VERSION,
    LEVEL_CONTROLLER_REGISTRATION,
    LEVEL_CONTROLLER_UNREGISTRATION,
    LEVEL_CORDONED_DIRECTORIES,
    LEVEL_DIRECTORIES,
    METADATA_VERSION,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.uuids import is_reserved, to_text
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.broker_heartbeat_response import BrokerHeartbeatResponse
from odradek.wire.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.generated.broker_registration_request import BrokerRegistrationRequest
from odradek.wire.generated.broker_registration_response import BrokerRegistrationResponse
from odradek.wire.generated.controller_registration_request import ControllerRegistrationRequest
from odradek.wire.generated.controller_registration_response import ControllerRegistrationResponse
from odradek.wire.generated.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from odradek.wire.generated.unregister_broker_record import UnregisterBrokerRecord
from odradek.wire.generated.unregister_broker_request import UnregisterBrokerRequest
from odradek.wire.generated.unregister_broker_response import UnregisterBrokerResponse
from odradek.wire.generated.unregister_controller_record import UnregisterControllerRecord
from odradek.wire.generated.unregister_controller_request import UnregisterControllerRequest
from odradek.wire.generated.unregister_controller_response import UnregisterControllerResponse
from odradek.wire.primitives import Message

FENCE = 1
UNFENCE = -1
IN_CONTROLLED_SHUTDOWN = 1


def register_broker(
    state: ControllerState, request: BrokerRegistrationRequest, version: int
) -> Decision[BrokerRegistrationResponse]:
    """Register a new incarnation of a broker, or update the registration of the same incarnation.

    A new incarnation is fenced. The same incarnation keeps its epoch.

    Raises:
        ApiError: DUPLICATE_BROKER_REGISTRATION: the previous incarnation still sends heartbeats. Or
            the broker belongs to another cluster, uses ZooKeeper, has invalid log directories, or
            does not support the finalized features.
    """
    if request.cluster_id != state.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"this is cluster {state.cluster_id}, the broker belongs to {request.cluster_id}",
        )
    before = state.image.cluster.brokers.get(request.broker_id)
    is_new = before is None or before.incarnation_id != request.incarnation_id
    if (
        before is not None
        and is_new
        and not before.in_controlled_shutdown
        and state.heartbeats.has_valid_session(before.id, before.epoch, state.now_ms)
    ):
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"another broker is registered with the id {before.id}; if the broker was restarted, "
            "it can register when the session of its previous incarnation has expired",
        )
    if request.is_migrating_zk_broker:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers of ZooKeeper are not supported")
    _check_directories(state, request)
    _check_features(state, request)
    records: list[Message] = []
    if is_new:
        # A broker that was unregistered may still be an eligible leader replica of partitions.
        is_clean = before is not None and before.epoch == request.previous_broker_epoch
        records += (broker_fenced if is_clean else unclean_shutdown)(state, request.broker_id)
    registration = _registration(state, request, None if is_new else before)
    records.append(broker_record(registration, state.level))
    response = BrokerRegistrationResponse(broker_epoch=registration.epoch)
    return Decision(records, response, is_atomic=False)


def _registration(
    state: ControllerState, request: BrokerRegistrationRequest, before: BrokerRegistration | None
) -> BrokerRegistration:
    return BrokerRegistration(
        id=request.broker_id,
        epoch=state.next_offset if before is None else before.epoch,
        incarnation_id=request.incarnation_id,
        listeners={
            each.name: Endpoint(each.name, each.host, each.port, each.security_protocol)
            for each in request.listeners
        },
        features={
            each.name: VersionRange(each.min_supported_version, each.max_supported_version)
            for each in request.features
        },
        rack=request.rack,
        fenced=before is None or before.fenced,
        in_controlled_shutdown=before is not None and before.in_controlled_shutdown,
        is_migrating_zk_broker=False,
        directories=tuple(sorted(request.log_dirs)),
        cordoned_directories=None,
    )


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    if state.level < LEVEL_DIRECTORIES:
        return
    directories = request.log_dirs
    problem = ""
    if not directories:
        problem = "the broker has no log directory"
    elif any(is_reserved(each) for each in directories):
        problem = "the broker has a log directory with a reserved id"
    elif len(set(directories)) != len(directories):
        problem = "two log directories of the broker have the same id"
    for other in state.image.cluster.brokers.values():
        shared = set(directories).intersection(other.directories)
        if not problem and other.id != request.broker_id and shared:
            named = to_text(min(shared))
            problem = f"log directory {named} also belongs to broker {other.id}; was it copied?"
    if problem:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, problem)


def _check_features(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    """Check that the broker supports the finalized level of every feature.

    Features that this software does not support are not checked. (An Apache Kafka cluster may have
    finalized share.version, for example.) This node does not serve these features.

    Raises:
        ApiError: INVALID_REGISTRATION or UNSUPPORTED_VERSION.
    """
    offered = {each.name: each for each in request.features}
    if METADATA_VERSION not in offered:
        raise ApiError(
            ErrorCode.INVALID_REGISTRATION,
            f"the registration does not contain the supported range of {METADATA_VERSION}",
        )
    finalized = {**state.image.features.finalized, KRAFT_VERSION: state.kraft_version}
    for name, level in finalized.items():
        if name not in state.supported_features:
            continue
        feature = offered.get(name)
        low = feature.min_supported_version if feature is not None else 0
        high = feature.max_supported_version if feature is not None else 0
        if not low <= level <= high:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the cluster runs at {name} {level}; broker {request.broker_id} supports "
                f"{low} to {high}",
            )


def broker_heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, version: int
) -> Decision[BrokerHeartbeatResponse]:
    """Process a broker's heartbeat. `heartbeats` has the states of a broker and their changes.

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    broker = state.check_broker_epoch(request.broker_id, request.broker_epoch)
    heartbeats = state.heartbeats
    before = heartbeats.state_of(broker)
    after = heartbeats.next_state(
        broker,
        state.image.cluster.brokers.values(),
        metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        leads=lambda: state.index.leads(broker.id),
    )
    lost: list[bytes] = []
    if state.level >= LEVEL_DIRECTORIES:
        lost = [each for each in broker.directories if each in request.offline_log_dirs]
    if lost and after is BrokerState.UNFENCED:
        # Elections must know that the directories are lost, so the next heartbeat unfences.
        after = before
    records = [] if after is before else _transition(state, broker, after)
    if lost:
        online = [each for each in broker.directories if each not in lost]
        records += [
            *directories_offline(state, broker.id, lost),
            _change(broker, log_dirs=online),
        ]
    records += _cordon(state, broker, request.cordoned_log_dirs)
    response = BrokerHeartbeatResponse(
        is_caught_up=heartbeats.is_caught_up(broker.id, request.current_metadata_offset),
        is_fenced=after.is_fenced,
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    heard = Heard(broker.id, broker.epoch, request.current_metadata_offset, after)
    return Decision(records, response, is_atomic=False, heard=heard)


def _transition(
    state: ControllerState, broker: BrokerRegistration, after: BrokerState
) -> list[Message]:
    """Return the records that bring a broker into another state."""
    if after.is_fenced:
        return [] if broker.fenced else fence_broker(state, broker)
    if after is BrokerState.UNFENCED:
        return [_change(broker, fenced=UNFENCE), *broker_unfenced(state, broker.id)]
    records: list[Message] = []
    if not broker.in_controlled_shutdown:
        records.append(_change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN))
    return [*records, *broker_fenced(state, broker.id)]


def _cordon(
    state: ControllerState, broker: BrokerRegistration, cordoned: Sequence[bytes] | None
) -> list[Message]:
    """Return the record for the directories that get no new replicas, if they change (KIP-1066)."""
    known = broker.cordoned_directories
    if cordoned is None or state.level < LEVEL_CORDONED_DIRECTORIES:
        return []
    if known is not None and set(known) == set(cordoned):
        return []
    return [_change(broker, cordoned_log_dirs=list(cordoned))]


def _change(broker: BrokerRegistration, **fields: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **fields)


def fence_broker(state: ControllerState, broker: BrokerRegistration) -> list[Message]:
    """Return the records that fence a broker, and the changes of its partitions.

    See `broker_fenced` for the changes.
    """
    return [*broker_fenced(state, broker.id), _change(broker, fenced=FENCE)]


def unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest, version: int
) -> Decision[UnregisterBrokerResponse]:
    """Unregister a broker that will not return.

    Raises:
        ApiError: BROKER_ID_NOT_REGISTERED.
    """
    broker = state.image.cluster.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records: list[Message] = [
        *broker_unregistered(state, broker.id),
        UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch),
    ]
    return Decision(records, UnregisterBrokerResponse(error_message=None), is_atomic=False)


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest, version: int
) -> Decision[ControllerRegistrationResponse]:
    """Register a controller's endpoints and supported features (KIP-919).

    Raises:
        ApiError: UNSUPPORTED_VERSION: the finalized metadata.version does not have this record.
    """
    if state.level < LEVEL_CONTROLLER_REGISTRATION:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"controllers register from {METADATA_VERSION} {LEVEL_CONTROLLER_REGISTRATION} on",
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in request.listeners
        ],
        features=[
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse())


def unregister_controller(
    state: ControllerState, request: UnregisterControllerRequest, version: int
) -> Decision[UnregisterControllerResponse]:
    """Forget a controller that will not return (KIP-1312). The quorum's voters stay as they are.

    Raises:
        ApiError: UNSUPPORTED_VERSION: the finalized metadata.version does not have this record.
            INVALID_REQUEST: it is the active controller. CONTROLLER_ID_NOT_REGISTERED.
    """
    if request.controller_id == state.config.node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
        )
    if state.level < LEVEL_CONTROLLER_UNREGISTRATION:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    if request.controller_id not in state.image.cluster.controllers:
        raise ApiError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {request.controller_id} is not currently registered.",
        )
    record = UnregisterControllerRecord(controller_id=request.controller_id)
    return Decision([record], UnregisterControllerResponse(error_message=None))
