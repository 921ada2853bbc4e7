"""A real broker inside your tests: in this process, on a free port, gone afterwards.

    from odradek.testing import Broker

    with Broker(topics={"orders": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=2)
        ...

It is the node that `odradek serve` runs, on an event loop in a thread, with a temporary
directory that is not synced to disk. Any Kafka client of any language may talk to it.

With pytest, the fixture `odradek_broker` gives a fresh one to each test that asks for it, and
`@pytest.mark.odradek(topics=..., settings=...)` tells how it should be.
"""

from odradek.testing.broker import Broker, BrokerError

__all__ = ["Broker", "BrokerError"]
