"""The client for asyncio: the names of `odradek.client`, with `async with`, `async for` and `await`.

    from odradek.client.aio import Consumer, Producer

`shell` lets an event loop drive the machines of `odradek.client.core`. `producer` is the producer, `consumer` the
consumer, whose calls about positions and commits are in `consumer_calls`. There are no threads, except
for what the loop's own executor runs: resolution of names, handshakes and logins.
"""

from odradek.client.aio.consumer import Batch, Consumer, Record
from odradek.client.aio.producer import Delivery, Producer, ProducerBatch

__all__ = ["Batch", "Consumer", "Delivery", "Producer", "ProducerBatch", "Record"]
