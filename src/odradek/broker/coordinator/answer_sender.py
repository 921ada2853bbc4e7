"""Sends the responses that a state machine returns for delayed requests."""

from __future__ import annotations

from odradek.broker.coordinator.context import ShardContext
from odradek.core.coordinator.machine import Effects

ANSWERS_PER_TURN = 100
"""Maximum number of responses that are sent in one iteration of the event loop."""


class AnswerSender:
    """Completes the futures of waiting requests, a limited number in each iteration of the loop.

    The number is limited because all members of a large group may wait for the same rebalance.
    """

    __slots__ = ("_context", "_effects", "_is_scheduled")

    def __init__(self, effects: Effects, context: ShardContext) -> None:
        self._effects = effects
        self._context = context
        self._is_scheduled = False

    def send(self) -> None:
        """Send responses of the state machine. The rest is sent in later iterations of the loop."""
        if not self._is_scheduled:
            self._send()

    def _send(self) -> None:
        self._is_scheduled = False
        for ticket, response in self._effects.take_answers(ANSWERS_PER_TURN):
            if not ticket.done():
                ticket.set_result(response)
        if self._effects.answers:
            self._is_scheduled = True
            self._context.loop.call_soon(self._send)
