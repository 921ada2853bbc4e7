"""The corpus of damaged batches against a node: each refused, or stored so that it can be read."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from compat.lab.wire_client import WireClient, decode_response
from tests.bad_input.corpus import CORPUS, NONE, Case
from tests.bad_input.victim import AGAINST_APACHE, Victim

from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records
from odradek.wire.generated.fetch_response import FetchResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

TOPIC = "corpus"


def produce(wire: WireClient, data: bytes) -> int:
    records = PartitionProduceData(index=0, records=data)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[records])],
    )
    response = wire.call("Produce", 9, request, ProduceResponse)
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def read_all(wire: WireClient) -> int:
    """Read every record of the topic as a consumer does; the offset after the last."""
    offset = 0
    while True:
        wire.ask_for_batches(TOPIC, 0, offset=offset, max_bytes=1 << 20)
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
def test_the_corpus(mistreated: Victim, part: str) -> None:
    wrong: list[tuple[str, int]] = []
    seen: Counter[int] = Counter()
    with WireClient(mistreated.node.port) as wire:
        while not wire.has_leader(TOPIC) or not wire.serving(TOPIC, 1):
            time.sleep(0.01)
        before = 0 if AGAINST_APACHE else read_all(wire)
        case: Case
        for case in CORPUS[part](time.time_ns() // 1_000_000):
            code = produce(wire, case.data)
            seen[code] += 1
            if code not in case.answers:
                wrong.append((case.name, code))
        assert not wrong, f"{wrong} of {sum(seen.values())}: {dict(seen)}"
        if not AGAINST_APACHE:  # which stores some that no consumer can read
            assert read_all(wire) >= before + seen[NONE]
