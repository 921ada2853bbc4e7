"""Makes the telemetry of a client (KIP-714), and ends it."""

from __future__ import annotations

import time

from odradek.client.core.client_metrics import ClientMeter
from odradek.client.core.routes import Routes
from odradek.client.core.telemetry import Telemetry
from odradek.client.deadline import Deadline
from odradek.client.shell.settings import Given

LAST_PUSH_MS_MAX = 5_000
"""How long `close` waits for the response to the last push."""


def telemetry_of(given: Given, routes: Routes, meter: ClientMeter) -> Telemetry:
    """Return the telemetry of a client with these settings.

    Raises:
        ValueError: `enable.metrics.push` is malformed.
    """
    return Telemetry(
        routes,
        meter,
        lambda: time.time_ns() // 1_000_000,
        given.number_or("request.timeout.ms", 30_000, 1),
        is_on=given.flag("enable.metrics.push", default=True),
    )


def last_push(deadline: Deadline) -> Deadline:
    """Return how long to wait for the last push, before the deadline of `close`."""
    return Deadline(min(deadline.remaining_ms, LAST_PUSH_MS_MAX))
