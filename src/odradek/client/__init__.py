"""A client for Kafka's protocol. docs/client.md describes the producer and the group consumer.

The command line and the Spark source use the client. The client works with any broker that speaks
Apache Kafka's protocol. The modules, from the lowest layer to the highest:

- `connection` is one socket: it negotiates versions, pipelines requests, and receives responses in
  order.
- `cluster` finds brokers, leaders and coordinators, and retries requests with back-off.
- `core/` has the state machines of the producer and of members of groups: they decide without
  sockets, threads and clocks. `shell/` performs what they ask for. `producer/` writes records, also
  in transactions that several processes share.
- `aio` has the producer for asyncio, around the same machines. `serializers` convert keys and values.
- `consuming/` has the consumer, with a group or without.
- `share/` is a member of a share group: `consumer`, its state machines, and `keeper`, its optional
  thread.
- `offsets` converts "earliest", "latest" or a time to offsets; `commits` fetches and commits a
  group's offsets.
- `admin/` has one module per subject: topics, configs, groups, transactions, the cluster. `Admin` has them all.

Two threads may not use an object at the same time, except for a `Producer`. A `Consumer` refuses it. Failures raise a
`ClientError`. The error is a `BrokerError` (with its `ErrorCode`) if a broker returned the error. An
error may have `advice`, a sentence about what the user can do. Invalid arguments raise ValueError. If a call concerns many
topics or partitions, the result usually holds an error for each topic or partition that failed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.client.admin.admin import Admin
    from odradek.client.consuming.consumer import Consumer
    from odradek.client.core.consumed_batch import Batch, Record
    from odradek.client.producer import Delivery, Producer

__all__ = ["Admin", "Batch", "Consumer", "Delivery", "Producer", "Record"]

_MODULES = {
    "Admin": "odradek.client.admin.admin",
    "Batch": "odradek.client.core.consumed_batch",
    "Consumer": "odradek.client.consuming.consumer",
    "Delivery": "odradek.client.producer",
    "Producer": "odradek.client.producer",
    "Record": "odradek.client.core.consumed_batch",
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used: commands that do not need it start without it."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
