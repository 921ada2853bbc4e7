"""The broker of the tests of the client and of the command line.

By default the broker is an Odradek node in this process. ODRADEK_TEST_BOOTSTRAP may have the
address of another broker. This way the same tests can be run against Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "ODRADEK_TEST_BOOTSTRAP"


@contextmanager
def live_broker() -> Iterator[str]:
    """Yield the address of a running broker."""
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    from odradek.testing import Broker

    # Some tests write records of 1970. Retention would delete them half a minute after the start.
    with Broker(settings={"log.initial.task.delay.ms": 3_600_000}) as broker:
        yield broker.bootstrap_servers
