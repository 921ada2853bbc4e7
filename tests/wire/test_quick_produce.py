"""The codec for usual Produce requests gives the same results as the generated codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.wire import quick_produce
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

VERSIONS = st.integers(quick_produce.VERSION_MIN, ProduceRequest.VERSION_MAX)
NAMES = st.text(min_size=1, max_size=150)
IDS = st.binary(min_size=16, max_size=16)
INDEXES = st.integers(0, 2**31 - 1)
RECORDS = st.one_of(st.binary(max_size=300), st.integers(16_370, 16_400).map(bytes))
OFFSETS = st.integers(-1, 2**63 - 1)


def topics_of(element):
    """Topics: name, id, and an index with `element` for each partition."""
    partitions = st.lists(st.tuples(INDEXES, element), min_size=1, max_size=4)
    return st.lists(st.tuples(NAMES, IDS, partitions), min_size=1, max_size=3)


def wire_topic(name, topic_id, version):
    if version >= quick_produce.TOPIC_IDS_VERSION:
        return topic_id
    raw = name.encode()
    return bytes([len(raw) + 1]) + raw


def request_of(topics, **fields):
    request = ProduceRequest(timeout_ms=1234, **fields)
    for name, topic_id, partitions in topics:
        topic = TopicProduceData(name=name, topic_id=topic_id)
        topic.partition_data = [
            PartitionProduceData(index=index, records=records) for index, records in partitions
        ]
        request.topic_data.append(topic)
    return request


def decode(frame, version):
    return quick_produce.decode(memoryview(frame), 0, version)


@given(VERSIONS, st.sampled_from([-1, 0, 1, 7]), topics_of(st.one_of(st.none(), RECORDS)))
def test_requests(version, acks, topics):
    found = decode(request_of(topics, acks=acks).encode(version), version)
    named = version < quick_produce.TOPIC_IDS_VERSION
    if any(records is None for _, _, partitions in topics for _, records in partitions) or (
        named and any(len(name.encode()) > 126 for name, _, _ in topics)
    ):
        assert found is None
        return
    assert found is not None
    assert found[:2] == (acks, 1234)
    assert [
        (topic, [(index, bytes(records)) for index, records in batches])
        for topic, batches in found[2]
    ] == [(wire_topic(name, tid, version), partitions) for name, tid, partitions in topics]


@pytest.mark.parametrize("version", [9, 12, 13])
@pytest.mark.parametrize(("topics", "partitions"), [(0, 0), (1, 0), (1, 127), (127, 1), (2, 0)])
def test_odd_counts_are_left_to_the_generated_codec(version, topics, partitions):
    shape = [("t", bytes(16), [(0, b"x")] * partitions)] * topics
    assert decode(request_of(shape).encode(version), version) is None


@pytest.mark.parametrize("version", [9, 12, 13])
def test_the_largest_counts(version):
    shape = [("t", bytes(16), [(0, b"x")] * 126)] * 126
    found = decode(request_of(shape).encode(version), version)
    assert [len(batches) for _, batches in found[2]] == [126] * 126


@pytest.mark.parametrize("size", [125, 126, 127, 2**14 - 2, 2**14 - 1, 2**21 - 2, 2**21 - 1, 2**21])
def test_lengths_of_one_to_four_bytes(size):
    shape = [("t", bytes(16), [(0, bytes(size)), (1, b"x")])]
    _, _, ((_, batches),) = decode(request_of(shape).encode(13), 13)
    assert [(index, len(records)) for index, records in batches] == [(0, size), (1, 1)]


@given(VERSIONS, NAMES)
def test_transactions_are_left_to_the_generated_codec(version, transactional_id):
    request = request_of([("t", bytes(16), [(0, b"x")])], transactional_id=transactional_id)
    assert decode(request.encode(version), version) is None


@given(VERSIONS, topics_of(RECORDS), st.data())
def test_truncated_or_longer_frames_are_never_misread(version, topics, data):
    whole = request_of(topics).encode(version)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert decode(whole[:cut], version) is None
    assert decode(whole + whole[cut:], version) is None


@given(VERSIONS, topics_of(st.binary(max_size=40)), st.data())
def test_what_is_read_of_damaged_frames_is_what_the_generated_codec_reads(version, topics, data):
    frame = bytearray(request_of(topics).encode(version))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    found = decode(frame, version)
    if found is None:
        return
    request, end = ProduceRequest.DECODERS[version](memoryview(frame), 0)
    assert end == len(frame)
    assert request.transactional_id is None
    assert found[:2] == (request.acks, request.timeout_ms)
    has_ids = version >= quick_produce.TOPIC_IDS_VERSION
    assert len(found[2]) == len(request.topic_data)
    for (topic, batches), other in zip(found[2], request.topic_data, strict=True):
        if has_ids:
            assert topic == other.topic_id
        else:
            assert str(topic[1:], "utf-8", "replace") == other.name
        assert [(index, bytes(records)) for index, records in batches] == [
            (each.index, bytes(each.records)) for each in other.partition_data
        ]


@given(
    VERSIONS, st.integers(-(2**31), 2**31 - 1), topics_of(st.tuples(OFFSETS, OFFSETS, OFFSETS))
)  # fmt: skip
def test_answers(version, correlation, topics):
    topics = [each for each in topics if len(each[0].encode()) <= 126]
    response = ProduceResponse()
    appended = []
    for name, topic_id, partitions in topics:
        topic = TopicProduceResponse(name=name, topic_id=topic_id)
        for index, (base_offset, time_ms, start) in partitions:
            answer = PartitionProduceResponse(
                index=index,
                base_offset=base_offset,
                log_append_time_ms=time_ms,
                log_start_offset=start,
            )
            topic.partition_responses.append(answer)
            appended.append((base_offset, time_ms, start))
        response.responses.append(topic)
    body = ResponseHeader(correlation_id=correlation).encode(1) + response.encode(version)
    shape = [
        (wire_topic(name, topic_id, version), [(index, None) for index, _ in partitions])
        for name, topic_id, partitions in topics
    ]
    answer = quick_produce.encode_answer(correlation, shape, appended)
    assert answer == len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("version", [9, 13])
def test_tagged_fields_are_left_to_the_generated_codec(version):
    whole = request_of([("topic", bytes(16), [(0, b"abc")])]).encode(version)
    assert whole[-3:] == bytes(3)  # no tags of the partition, the topic, the request
    tag = b"\1\x05\1x"
    for kept in (1, 2, 3):
        frame = whole[:-kept] + tag + whole[len(whole) - kept + 1 :]
        ProduceRequest.decode(frame, version)
        assert decode(frame, version) is None
