"""The client for asyncio: the names of `odradek.client`, with `async with`, `async for` and `await`.

    from odradek.client.aio import Consumer, Producer

`shell` lets an event loop drive the machines of `odradek.client.core`. `producer` is the producer, `consumer` the
consumer, whose calls about positions and commits are in `consumer_calls`. There are no threads, except
for what the loop's own executor runs: resolution of names, handshakes and logins, and the calls of `admin`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.client.aio.admin import Admin
    from odradek.client.aio.consumer import Batch, Consumer, Record
    from odradek.client.aio.producer import Delivery, Producer, ProducerBatch
    from odradek.client.aio.share_consumer import ShareConsumer

__all__ = [
    "Admin",
    "Batch",
    "Consumer",
    "Delivery",
    "Producer",
    "ProducerBatch",
    "Record",
    "ShareConsumer",
]

_MODULES = {
    "Admin": "admin",
    "Batch": "consumer",
    "Consumer": "consumer",
    "Delivery": "producer",
    "Producer": "producer",
    "ProducerBatch": "producer",
    "Record": "consumer",
    "ShareConsumer": "share_consumer",
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
