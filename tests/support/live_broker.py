"""The broker that the tests of the client and the command line talk to.

It is a node of our own in this process, unless ODRADEK_TEST_BOOTSTRAP names another broker: so
the same tests can be run against Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "ODRADEK_TEST_BOOTSTRAP"


@contextmanager
def live_broker() -> Iterator[str]:
    """The address of a running broker."""
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    from odradek.testing import Broker

    with Broker() as broker:
        yield broker.bootstrap_servers
