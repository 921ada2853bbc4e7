"""Sends the responses that a state machine returns for delayed requests.

After an election, the state machine may have replayed records that are not committed yet (see
`loading`). Its responses may tell clients of them: SyncGroup of a group that is stable returns the
stored assignment. If these records are lost in another election, two members may have the same
partition in one generation. So all responses wait until the records that were loaded are committed.
In Apache Kafka, responses of classic groups do not wait.
"""

from __future__ import annotations

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.deferred import CommitWait, DeferredEvent
from odradek.broker.coordinator.log import CoordinatorPartition
from odradek.core.coordinator.machine import Effects
from odradek.model.errors import ApiError

ANSWERS_PER_TURN = 100
"""Maximum number of responses that are sent in one iteration of the event loop."""


class AnswerSender:
    """Completes the futures of waiting requests, a limited number in each iteration of the loop.

    The number is limited because all members of a large group may wait for the same rebalance.
    """

    __slots__ = ("_commits", "_context", "_effects", "_is_scheduled", "_loaded_end_offset")

    def __init__(
        self, effects: Effects, partition: CoordinatorPartition, context: ShardContext
    ) -> None:
        self._effects = effects
        self._context = context
        self._commits = CommitWait(partition, context, lambda: None)
        """The responses that wait for the loaded records."""
        self._loaded_end_offset = 0
        self._is_scheduled = False

    def start(self, end_offset: int) -> None:
        """Hold all responses until the loaded records, which end at `end_offset`, are committed."""
        self._loaded_end_offset = end_offset

    def close(self, error: ApiError) -> None:
        """Fail the requests whose responses wait. Responses after this are sent at once."""
        self._loaded_end_offset = 0
        self._commits.close(error)

    def send(self) -> None:
        """Send responses of the state machine. The rest is sent in later iterations of the loop."""
        if not self._is_scheduled:
            self._send()

    def _send(self) -> None:
        self._is_scheduled = False
        end_offset = self._loaded_end_offset
        is_committed = self._commits.is_committed(end_offset)
        for ticket, response in self._effects.take_answers(ANSWERS_PER_TURN):
            if not is_committed:
                self._commits.add(end_offset, (DeferredEvent(response, None, ticket),))
            elif not ticket.done():
                ticket.set_result(response)
        if self._effects.answers:
            self._is_scheduled = True
            self._context.loop.call_soon(self._send)
