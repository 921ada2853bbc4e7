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

`Cluster` is a cluster of several nodes, each in its own thread, which a test can kill, pause,
restart, fence and cut off from each other. `odradek_cluster` is its fixture.

- `broker` and `cluster` have these classes. `node_control` has what both can do with one node.
- `process` runs a node in a thread, and ends it. `network` reserves its ports and cuts its links.
- `faults` injects errors into requests. `files` is a file system without fsync.
- `plugin` has the fixtures.
- `connectors` runs connectors of Connect without a worker.
"""

from odradek.testing.broker import Broker
from odradek.testing.cluster import Cluster
from odradek.testing.node_control import BrokerError, NodeControl

__all__ = ["Broker", "BrokerError", "Cluster", "NodeControl"]
