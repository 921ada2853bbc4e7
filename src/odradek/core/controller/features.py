"""Sets the finalized features: the levels of features at which the cluster runs (KIP-584).

The level of kraft.version is a control record of the quorum. So the decision about it is performed
by the quorum (`raises_kraft_version`).
"""

from __future__ import annotations

from odradek.core.controller.configs import MIN_INSYNC_REPLICAS
from odradek.core.controller.state import ControllerState, Decision
from odradek.core.metadata.versions import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    LEVEL_CONTROLLER_REGISTRATION,
    LEVEL_ELR,
    METADATA_VERSION,
)
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.config_record import ConfigRecord
from odradek.wire.generated.feature_level_record import FeatureLevelRecord
from odradek.wire.generated.no_op_record import NoOpRecord
from odradek.wire.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.generated.update_features_response import (
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)
from odradek.wire.primitives import Message

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3

RECORDS_CHANGED_AT = (8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""Levels of metadata.version that added records or fields.

A downgrade to a lower level could lose metadata.
"""


def update_features(
    state: ControllerState, request: UpdateFeaturesRequest, version: int
) -> Decision[UpdateFeaturesResponse]:
    """Set the levels of all features in the request. If one level is invalid, none is set.

    Raises:
        ApiError: INVALID_UPDATE_VERSION, for the first feature whose level is not possible.
    """
    wanted = {each.feature: each.max_version_level for each in request.feature_updates}
    records: list[Message] = []
    for each in request.feature_updates:
        try:
            record = _update(state, each, version, wanted)
        except ApiError as error:
            raise ApiError(
                error.code,
                "The update failed for all features since the following feature had an error: "
                f"{error.message}",
            ) from error
        if record is not None:
            records.append(record)
    if wanted.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records = [*_elr_settings(state), *records]
    results = []
    if version <= 1:
        results = [
            UpdatableFeatureResult(feature=each.feature, error_message=None)
            for each in request.feature_updates
        ]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    if request.validate_only:
        return Decision([], response)
    raises = wanted.get(KRAFT_VERSION, state.kraft_version) > state.kraft_version
    return Decision(records, response, raises_kraft_version=raises)


def _update(
    state: ControllerState, update: FeatureUpdateKey, version: int, wanted: dict[str, int]
) -> Message | None:
    name, level = update.feature, update.max_version_level
    kind = update.upgrade_type
    if version == 0:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    present = state.kraft_version if name == KRAFT_VERSION else state.image.features.level(name)
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    _check_support(state, name, level)
    if level < present and kind == UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level > present and kind != UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if name == KRAFT_VERSION:
        return _update_kraft_version(state, level, present)
    if name == METADATA_VERSION:
        _check_metadata_version(present, level, kind)
    elif (
        name == ELIGIBLE_LEADER_REPLICAS_VERSION
        and level > 0
        and wanted.get(METADATA_VERSION, state.level) < LEVEL_ELR
    ):
        raise _invalid(name, level, f"It needs {METADATA_VERSION} {LEVEL_ELR} or higher.")
    return FeatureLevelRecord(name=name, feature_level=level)


def _update_kraft_version(state: ControllerState, level: int, present: int) -> Message | None:
    """Check a new level of kraft.version, which a control record of the quorum sets.

    Return a NoOp record, whose offset is committed after this control record.
    """
    if level == present:
        return None
    if level < present:
        raise _invalid(KRAFT_VERSION, level, "It cannot be lowered: the voters are in the log.")
    if state.kraft_upgrade_problem is not None:
        raise _invalid(KRAFT_VERSION, level, state.kraft_upgrade_problem)
    return NoOpRecord()


def _check_support(state: ControllerState, name: str, level: int) -> None:
    """Check that this node and all registered nodes support the level, and no voter is missing."""
    cluster, own_id = state.image.cluster, state.config.node_id
    ranges = [(f"Local controller {own_id}", state.supported_features.get(name, (0, 0)))]
    ranges += [
        (f"Broker {broker.id}", broker.features.get(name, (0, 0)))
        for broker in cluster.brokers.values()
    ]
    ranges += [
        (f"Controller {controller.id}", controller.features.get(name, (0, 0)))
        for controller in cluster.controllers.values()
        if controller.id != own_id
    ]
    for who, (low, high) in ranges:
        if high == 0:
            raise _invalid(name, level, f"{who} does not support this feature.")
        if not low <= level <= high:
            raise _invalid(name, level, f"{who} only supports versions {low}-{high}")
    if state.level >= LEVEL_CONTROLLER_REGISTRATION:
        for voter in state.config.quorum_voters:
            if voter != own_id and voter not in cluster.controllers:
                raise _invalid(
                    name,
                    level,
                    f"controller {voter} has not registered, and may not support this feature",
                )


def _check_metadata_version(present: int, level: int, kind: int) -> None:
    """Check that a downgrade crosses no level that added records or fields."""
    if any(level < each <= present for each in RECORDS_CHANGED_AT):
        why = (
            "Unsafe metadata downgrade is not supported in this version."
            if kind == UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {present} to {level}. {why}",
        )


def _invalid(name: str, level: int, problem: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {level} for feature {name}. {problem}",
    )


def _elr_settings(state: ControllerState) -> list[Message]:
    """Return the records that make min.insync.replicas one value for all brokers (KIP-966).

    ELR needs this. The value for all brokers is set, and the values of single brokers are removed.
    """
    records: list[Message] = []
    configs = state.image.configs
    if MIN_INSYNC_REPLICAS not in configs.of(ResourceType.BROKER, ""):
        static = state.config.layers.static.get(MIN_INSYNC_REPLICAS, "1")
        records.append(_broker_setting("", static))
    records += [
        _broker_setting(resource.name, None)
        for resource, settings in configs.by_resource.items()
        if resource.type == ResourceType.BROKER
        and resource.name
        and MIN_INSYNC_REPLICAS in settings
    ]
    return records


def _broker_setting(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceType.BROKER,
        resource_name=broker,
        name=MIN_INSYNC_REPLICAS,
        value=value,
    )
