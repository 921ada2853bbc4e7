"""A real broker for tests: it runs in the test process, on a free port, and is removed afterwards.

    from odradek.testing import Broker

    with Broker(topics={"orders": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=2)
        ...

It is the node that `odradek serve` runs, on an event loop in a thread, with a temporary directory
that is not synced to disk. Kafka clients of any language can connect to it.

With pytest, the fixture `odradek_broker` gives each test that uses it a new broker, and
`@pytest.mark.odradek(topics=..., settings=...)` configures that broker.
"""

from odradek.testing.broker import Broker, BrokerError

__all__ = ["Broker", "BrokerError"]
