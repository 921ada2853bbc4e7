"""The sessions of the brokers, and the states of a broker (Kafka's BrokerHeartbeatManager).

A broker sends heartbeats to the active controller. Each heartbeat says how far the broker has read
the metadata log, and whether the broker wants to be fenced or to shut down.

A session belongs to one registration of a broker: its broker id and its broker epoch. It expires
`broker.session.timeout.ms` after the last heartbeat. Then the controller fences the broker. The
sessions are not part of the metadata log. Therefore a controller that becomes active treats every
unfenced broker as if it had sent a heartbeat at that moment, so that a failover of the controller
fences nobody.

The states of a broker, and the heartbeats that change them (Kafka's BrokerControlState):

    state                 heartbeat                           next state
    FENCED                wants to shut down                  SHUTDOWN_NOW
                          wants to be unfenced, caught up     UNFENCED
    UNFENCED              wants to be fenced                  FENCED
                          wants to be fenced and shut down    SHUTDOWN_NOW
                          wants to shut down, leads           CONTROLLED_SHUTDOWN
                          wants to shut down, leads nothing   SHUTDOWN_NOW
    CONTROLLED_SHUTDOWN   leads nothing, and all other active
                          brokers have caught up              SHUTDOWN_NOW

A broker in FENCED is caught up when it has read the record of its registration. For a broker in
CONTROLLED_SHUTDOWN, the other brokers are caught up when they have read the records that moved the
leadership of its partitions: only then do their clients find the new leaders.

If the controller's process was paused, all sessions seem to have expired, because the heartbeats
that arrived during the pause have not been read. Therefore, if the check of the sessions runs late,
it expires no session. The sessions are checked again after a grace period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from odradek.core.metadata.registrations import BrokerRegistration

NO_OFFSET = -1
"""The metadata offset of a broker that has sent no heartbeat to this controller."""


class BrokerState(Enum):
    """The state of a broker that its heartbeats determine."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "the leadership of its partitions is moved to other brokers"
    SHUTDOWN_NOW = "may stop"

    @property
    def is_fenced(self) -> bool:
        """Whether the broker is fenced in this state."""
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


class Heard(NamedTuple):
    """The changes of a heartbeat in `BrokerHeartbeats`."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    state: BrokerState
    """The state of the broker after the heartbeat."""


class BrokerHeartbeats:
    """The state of the brokers that the active controller knows from their heartbeats."""

    def __init__(
        self,
        session_timeout_ms: int,
        brokers: Iterable[BrokerRegistration],
        offset: int,
        now_ms: int,
    ) -> None:
        """Begin the sessions of the unfenced brokers. `offset` is the end of the metadata so far.

        The offsets of the registrations are not known. They are at most `offset`, which is used
        instead.
        """
        self._session_timeout_ms = session_timeout_ms
        self._contacts: dict[tuple[int, int], int] = {}
        """The time of the last heartbeat by broker id and epoch; the oldest is the first."""
        self._registered_at: dict[int, int] = {}
        """The offset of the last RegisterBrokerRecord by broker id."""
        self._metadata_offsets: dict[int, int] = {}
        self._shutdown_offsets: dict[int, int] = {}
        """The brokers in CONTROLLED_SHUTDOWN, with the offset of the last record that moved their
        leaders."""
        self._grace_until_ms = now_ms
        for broker in brokers:
            self._registered_at[broker.id] = offset
            if not broker.fenced:
                self._contacts[broker.id, broker.epoch] = now_ms

    # -- sessions ---------------------------------------------------------------------------------

    def contact(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Begin or extend a session: the broker has sent a heartbeat."""
        self._contacts.pop((broker_id, broker_epoch), None)
        self._contacts[broker_id, broker_epoch] = now_ms

    def has_valid_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Return whether the broker has a session that has not expired."""
        contact_ms = self._contacts.get((broker_id, broker_epoch))
        return contact_ms is not None and not self._is_expired(contact_ms, now_ms)

    def end_session(self, broker_id: int) -> None:
        """End all sessions of a broker."""
        for key in [key for key in self._contacts if key[0] == broker_id]:
            del self._contacts[key]

    def _is_expired(self, contact_ms: int, now_ms: int) -> bool:
        return contact_ms + self._session_timeout_ms < now_ms

    @property
    def deadline_ms(self) -> int | None:
        """The time at which the next session expires; None if there are no sessions."""
        for contact_ms in self._contacts.values():
            return max(contact_ms + self._session_timeout_ms + 1, self._grace_until_ms)
        return None

    def expired(self, now_ms: int) -> tuple[int, int] | None:
        """Return the broker id and epoch of the oldest session if it has expired.

        The session continues until `on_fenced` or `end_session`, so that a failed append is
        repeated. If the check is late, return None and postpone the check, because heartbeats may
        be unread.
        """
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return None
        grace_ms = max(1, self._session_timeout_ms // 8)
        if now_ms - deadline_ms > grace_ms:
            self._grace_until_ms = now_ms + grace_ms
            return None
        return next(iter(self._contacts))

    # -- the replay of records --------------------------------------------------------------------

    def on_registered(self, broker_id: int, broker_epoch: int, offset: int) -> None:
        """Replay a RegisterBrokerRecord at `offset`: sessions of earlier registrations end."""
        for key in [key for key in self._contacts if key[0] == broker_id]:
            if key[1] != broker_epoch:
                del self._contacts[key]
        self._registered_at[broker_id] = offset
        self._metadata_offsets.pop(broker_id, None)
        self._shutdown_offsets.pop(broker_id, None)

    def on_unregistered(self, broker_id: int) -> None:
        """Replay an UnregisterBrokerRecord: forget the broker."""
        self.on_fenced(broker_id)
        self._registered_at.pop(broker_id, None)
        self._metadata_offsets.pop(broker_id, None)

    def on_fenced(self, broker_id: int) -> None:
        """Replay the fencing of a broker: its session and its CONTROLLED_SHUTDOWN end."""
        self.end_session(broker_id)
        self._shutdown_offsets.pop(broker_id, None)

    # -- heartbeats -------------------------------------------------------------------------------

    def is_caught_up(self, broker_id: int, metadata_offset: int) -> bool:
        """Return whether a broker that has read up to this offset has read its registration."""
        return metadata_offset >= self._registered_at[broker_id]

    def state_of(self, broker: BrokerRegistration) -> BrokerState:
        """Return the state of a broker."""
        if broker.id in self._shutdown_offsets:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED

    def next_state(
        self,
        broker: BrokerRegistration,
        brokers: Iterable[BrokerRegistration],
        *,
        metadata_offset: int,
        want_fence: bool,
        want_shut_down: bool,
        leads: Callable[[], bool],
    ) -> BrokerState:
        """Return the state of a broker after a heartbeat.

        `brokers` are all brokers. `leads` returns whether the broker leads a partition.
        """
        state = self.state_of(broker)
        match state:
            case BrokerState.FENCED:
                if want_shut_down:
                    return BrokerState.SHUTDOWN_NOW
                if not want_fence and self.is_caught_up(broker.id, metadata_offset):
                    return BrokerState.UNFENCED
            case BrokerState.UNFENCED:
                if want_fence:
                    return BrokerState.SHUTDOWN_NOW if want_shut_down else BrokerState.FENCED
                if want_shut_down:
                    return BrokerState.CONTROLLED_SHUTDOWN if leads() else BrokerState.SHUTDOWN_NOW
            case _:
                if not leads() and self._is_seen_by_active(broker.id, brokers):
                    return BrokerState.SHUTDOWN_NOW
        return state

    def _is_seen_by_active(self, broker_id: int, brokers: Iterable[BrokerRegistration]) -> bool:
        """Return whether all active brokers have read that the broker's leaders have moved."""
        needed = self._shutdown_offsets[broker_id]
        return all(
            self._metadata_offsets.get(each.id, NO_OFFSET) >= needed
            for each in brokers
            if not each.fenced and each.id not in self._shutdown_offsets
        )

    def hear(self, heard: Heard, end_offset: int) -> None:
        """Apply a heartbeat. Its records, if there are any, end before `end_offset`."""
        self._metadata_offsets[heard.broker_id] = heard.metadata_offset
        if heard.state is BrokerState.CONTROLLED_SHUTDOWN:
            self._shutdown_offsets.setdefault(heard.broker_id, end_offset - 1)
        elif heard.state is BrokerState.SHUTDOWN_NOW:
            # The next incarnation of the broker may register at once.
            self.on_fenced(heard.broker_id)
