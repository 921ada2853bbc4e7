"""A real broker for tests. It runs in the test's process on a free port.

    from odradek.testing import Broker

    with Broker(topics={"orders": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=2)
        ...

The broker is the node that `odradek serve` runs, on an event loop in a thread. By default the data
is in a temporary directory, which is removed afterwards. Data is never flushed to disk. Kafka
clients of any language can connect to the broker.

With pytest, each test that uses the fixture `odradek_broker` gets a new broker.
`@pytest.mark.odradek(topics=..., settings=...)` configures this broker.
"""

from odradek.testing.broker import Broker, BrokerError

__all__ = ["Broker", "BrokerError"]
