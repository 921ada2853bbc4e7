"""Serves the requests that the active controller decides on (Kafka's ControllerApis).

Other brokers send them to a controller listener, and clients that use
`bootstrap.controllers` (KIP-919). A controller that is not active responds with NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller


def decide(controller: Controller, context: RequestContext, request: Any) -> Awaitable[Any]:
    """Pass the request to the controller; the response follows when the decision is committed."""
    return controller.decisions.submit(context, request)
