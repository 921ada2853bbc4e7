"""Writes records, also in transactions.

- `producer` is the blocking producer, and `options` are its settings.
- `encoded` writes batches that are encoded already, also from several processes in one transaction, which
  `transactions` begins and ends.
- `topic_wait` waits for the metadata of a topic.
"""

from odradek.client.producer.producer import Delivery, Producer, ProducerBatch

__all__ = ["Delivery", "Producer", "ProducerBatch"]
