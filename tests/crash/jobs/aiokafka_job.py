"""A consume-transform-produce job with aiokafka. It exits if it cannot continue; then start it again.

python aiokafka_job.py BOOTSTRAP SOURCE TARGET NAME [RECORDS_MAX]
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

RECORDS_MAX = 20


async def main(bootstrap: str, source: str, target: str, name: str, records_max: int) -> None:
    """Copy the source to the target, in transactions of a few records."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=10_000
    )
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=name,
        group_instance_id=name,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await producer.start()
    await consumer.start()
    while True:
        batches = await consumer.getmany(timeout_ms=200, max_records=records_max)
        if not batches:
            continue
        async with producer.transaction():
            for partition, records in batches.items():
                for record in records:
                    await producer.send(target, record.value, partition=partition.partition)
            offsets = {each: records[-1].offset + 1 for each, records in batches.items()}
            await producer.send_offsets_to_transaction(offsets, name)


if __name__ == "__main__":
    try:
        words = sys.argv[1:5]
        records_max = int(sys.argv[5]) if len(sys.argv) > 5 else RECORDS_MAX
        asyncio.run(main(*words, records_max))
    except Exception:  # noqa: BLE001  whatever it is, the job begins anew
        traceback.print_exc()
        os._exit(1)  # threads and tasks of the client may still wait for the broker
