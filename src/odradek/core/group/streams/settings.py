"""Settings of one Streams group. The broker's settings are the defaults."""

from __future__ import annotations

from odradek.config.group_config import GroupConfig
from odradek.core.group.state import GroupState
from odradek.model.config_resource import ResourceType


def session_timeout_ms(state: GroupState, group_id: str) -> int:
    """Return the session timeout: a member is removed after this time without a heartbeat."""
    own = _own(state, group_id)
    if own is None:
        return state.config.group_streams_session_timeout_ms
    return own.streams_session_timeout_ms


def heartbeat_interval_ms(state: GroupState, group_id: str) -> int:
    """Return the interval at which members send heartbeats."""
    own = _own(state, group_id)
    if own is None:
        return state.config.group_streams_heartbeat_interval_ms
    return own.streams_heartbeat_interval_ms


def standby_replicas(state: GroupState, group_id: str) -> int:
    """Return the number of standby tasks of each task with state."""
    own = _own(state, group_id)
    if own is None:
        return state.config.group_streams_num_standby_replicas
    return own.streams_num_standby_replicas


def initial_rebalance_delay_ms(state: GroupState, group_id: str) -> int:
    """Return the time after which the first target assignment of a group is computed."""
    own = _own(state, group_id)
    if own is None:
        return state.config.group_streams_initial_rebalance_delay_ms
    return own.streams_initial_rebalance_delay_ms


def assignment_interval_ms(state: GroupState, group_id: str) -> int:
    """Return the minimum time between two computations of the target assignment."""
    own = _own(state, group_id)
    if own is None:
        return state.config.group_streams_assignment_interval_ms
    return own.streams_assignment_interval_ms


def _own(state: GroupState, group_id: str) -> GroupConfig | None:
    overrides = state.image.configs.of(ResourceType.GROUP, group_id)
    return state.config.group_config(overrides) if overrides else None
