"""A real broker for tests. It runs in the test's process on a free port.

    from odradek.testing import Broker

    with Broker(topics={"orders": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=2)
        ...

The broker is the node that `odradek serve` runs, on an event loop in a thread. Its data is in a
temporary directory, which is removed afterwards and never flushed to disk. Kafka clients of any
language can connect to it.

With pytest, the fixture `odradek_broker` gives each test that uses it a new broker, and
`@pytest.mark.odradek(topics=..., settings=...)` configures that broker.
"""

from odradek.testing.broker import Broker, BrokerError

__all__ = ["Broker", "BrokerError"]
