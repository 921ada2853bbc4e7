"""Collects the effects of a step, and holds messages back until the election state is durable.

A replica must not send a message that depends on an epoch or a vote that a crash could lose. So
each request and response waits until the election state is durable that was the newest when the
message was created. Responses to Fetch and FetchSnapshot do not wait: the votes that elected the
leader are durable, and the response must be read from the log in its present state.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from odradek.core.raft.election import ElectionState
from odradek.core.raft.events import Effect, PersistElection, Respond, SendRequest
from odradek.core.raft.messages import FetchResponse, FetchSnapshotResponse, Response


class Outbox:
    """The effects of a step, and the messages that wait for the election state."""

    def __init__(self, election: ElectionState) -> None:
        """`election` is the state on disk."""
        self._effects: list[Effect] = []
        self._states: deque[ElectionState] = deque()
        """The states that are being written, oldest first."""
        self._held: deque[tuple[int, SendRequest | Respond]] = deque()
        """Messages, each with the number of the state for which the message waits."""
        self._requested = 0
        self._durable = 0
        self.election = election
        """The newest state that is durable or being written."""

    def take(self) -> list[Effect]:
        """Return the effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def add(self, effect: Effect) -> None:
        """Add an effect that does not wait."""
        self._effects.append(effect)

    def persist(self, election: ElectionState) -> None:
        """Add an effect that writes a state, unless it is equal to the newest one."""
        if election == self.election:
            return
        self.election = election
        self._requested += 1
        self._states.append(election)
        self._effects.append(PersistElection(election))

    def persisted(self, election: ElectionState) -> None:
        """Process a state that is durable: release the messages that waited for it."""
        assert self._states, "no state is being written"
        assert self._states.popleft() == election, "states are written in order"
        self._durable += 1
        while self._held and self._held[0][0] <= self._durable:
            self._effects.append(self._held.popleft()[1])

    def send(self, message: SendRequest) -> None:
        """Send a request when the election state is durable."""
        self._hold(message)

    def respond(self, token: Any, response: Response) -> None:
        """Send a response when the election state is durable."""
        message = Respond(token, response)
        if isinstance(response, FetchResponse | FetchSnapshotResponse):
            self._effects.append(message)
        else:
            self._hold(message)

    def _hold(self, message: SendRequest | Respond) -> None:
        if self._durable == self._requested:
            self._effects.append(message)
        else:
            self._held.append((self._requested, message))
