"""The codec for single Produce requests says what the general one says, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.wire import single_produce
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.wire.generated.response_header import ResponseHeader

VERSIONS = st.integers(single_produce.VERSION_MIN, ProduceRequest.VERSION_MAX)
NAMES = st.text(min_size=1, max_size=200)
IDS = st.binary(min_size=16, max_size=16)


def wire_topic(name, topic_id, version):
    if version >= single_produce.TOPIC_IDS_VERSION:
        return topic_id
    raw = name.encode()
    return bytes([len(raw) + 1]) + raw


@given(
    VERSIONS, st.sampled_from([-1, 0, 1]), NAMES, IDS, st.integers(0, 2**31 - 1),
    st.one_of(st.none(), st.binary(max_size=300)),
)  # fmt: skip
def test_requests(version, acks, name, topic_id, index, records):
    request = ProduceRequest(acks=acks, timeout_ms=1234)
    topic = TopicProduceData(name=name, topic_id=topic_id)
    topic.partition_data = [PartitionProduceData(index=index, records=records)]
    request.topic_data = [topic]
    found = single_produce.decode(memoryview(request.encode(version)), 0, version)
    named = version < single_produce.TOPIC_IDS_VERSION
    if records is None or (named and len(name.encode()) > 126):
        assert found is None
        return
    assert found is not None
    assert found[:3] == (acks, wire_topic(name, topic_id, version), index)
    assert bytes(found[3]) == records


@given(VERSIONS, st.integers(0, 3), st.integers(0, 3), st.one_of(st.none(), NAMES))
def test_other_shapes_are_left_to_the_general_codec(version, topics, partitions, transactional_id):
    request = ProduceRequest(transactional_id=transactional_id)
    for number in range(topics):
        topic = TopicProduceData(name=f"t{number}", topic_id=bytes([number]) * 16)
        topic.partition_data = [PartitionProduceData(records=b"x") for _ in range(partitions)]
        request.topic_data.append(topic)
    found = single_produce.decode(memoryview(request.encode(version)), 0, version)
    assert (found is not None) == (transactional_id is None and topics == 1 and partitions == 1)


@given(VERSIONS, st.data())
def test_truncated_or_longer_frames_are_never_misread(version, data):
    topic = TopicProduceData(name="topic", topic_id=bytes(16))
    topic.partition_data = [PartitionProduceData(records=bytes(100))]
    whole = ProduceRequest(topic_data=[topic]).encode(version)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for frame in (whole[:cut], whole + whole[cut:]):
        assert single_produce.decode(memoryview(frame), 0, version) is None


OFFSETS = st.integers(-1, 2**63 - 1)


@given(
    VERSIONS, st.integers(-(2**31), 2**31 - 1), NAMES.filter(lambda n: len(n.encode()) <= 126), IDS,
    st.integers(0, 2**31 - 1), OFFSETS, OFFSETS, OFFSETS,
)  # fmt: skip
def test_answers(version, correlation, name, topic_id, index, base_offset, time_ms, start):
    partition = PartitionProduceResponse(
        index=index, base_offset=base_offset, log_append_time_ms=time_ms, log_start_offset=start
    )
    topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[partition])
    body = ResponseHeader(correlation_id=correlation).encode(1)
    body += ProduceResponse(responses=[topic]).encode(version)
    expected = len(body).to_bytes(4, "big") + body
    raw = wire_topic(name, topic_id, version)
    answer = single_produce.encode_answer(correlation, raw, index, base_offset, time_ms, start)
    assert answer == expected


@pytest.mark.parametrize("version", [9, 13])
def test_a_tagged_field_is_left_to_the_general_codec(version):
    topic = TopicProduceData(name="topic", topic_id=bytes(16))
    topic.partition_data = [PartitionProduceData(records=b"abc")]
    whole = ProduceRequest(topic_data=[topic]).encode(version)
    assert single_produce.decode(memoryview(whole[:-1] + b"\1\x05\1x"), 0, version) is None
