"""Damaged batches have the same outcome as in Apache Kafka, and appended batches can be read."""

from __future__ import annotations

import pytest
from compat.lab.wire_client import WireClient, decode_response
from tests.bad_input.corpus import CORPUS
from tests.bad_input.recorded import AGAINST_APACHE, check_part, error_name
from tests.bad_input.target import Target, create_topic

from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records
from odradek.wire.generated.fetch_response import FetchResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse


def produce(wire: WireClient, topic: str, data: bytes) -> int:
    records = PartitionProduceData(index=0, records=data)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[records])],
    )
    response = wire.call("Produce", 9, request, ProduceResponse)
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def read_all(wire: WireClient, topic: str) -> int:
    """Read all records of the topic as a consumer does. Return the next offset."""
    offset = 0
    while True:
        wire.ask_for_batches(topic, 0, offset=offset, max_bytes=1 << 20)
        answer = decode_response("Fetch", 4, wire.receive(), FetchResponse)
        records = answer.responses[0].partitions[0].records
        if not records:
            return offset
        for batch in iterate_batches(bytes(records)):
            batch.check()
            assert batch.base_offset == offset
            found = [record.offset for record in iterate_records(batch)]
            assert found == list(range(offset, offset + batch.count))
            offset = batch.next_offset


@pytest.mark.parametrize("part", CORPUS)
def test_the_corpus(target: Target, part: str) -> None:
    topic = part.replace(" ", "-")
    # The timestamps of the records are in 1970.
    create_topic(target.node.port, topic, {"retention.ms": "-1"})
    with WireClient(target.node.port) as wire:
        outcomes = [
            (case.name, error_name(produce(wire, topic, case.data))) for case in CORPUS[part]()
        ]
        check_part("test_corpus", part, outcomes)
        if AGAINST_APACHE:  # it appends some batches that no consumer can read
            return
        assert read_all(wire, topic) >= [outcome for _, outcome in outcomes].count("NONE")
