"""The codec for commits of one topic gives the same results as the generated codec, or None."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.wire import single_offset_commit
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.generated.response_header import ResponseHeader

VERSIONS = st.integers(single_offset_commit.VERSION_MIN, OffsetCommitRequest.VERSION_MAX)
NAMES = st.text(max_size=140)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.sampled_from(["", "", "", None, "text"])
partitions = st.builds(
    OffsetCommitRequestPartition,
    partition_index=INT32,
    committed_offset=INT64,
    committed_leader_epoch=INT32,
    committed_metadata=TEXTS,
)
topics = st.builds(
    OffsetCommitRequestTopic,
    name=NAMES,
    topic_id=st.binary(min_size=16, max_size=16),
    partitions=st.one_of(
        st.lists(partitions, max_size=4), partitions.map(lambda each: [each] * 127)
    ),
)
requests = st.builds(
    OffsetCommitRequest,
    group_id=NAMES,
    generation_id_or_member_epoch=INT32,
    member_id=NAMES,
    group_instance_id=st.one_of(st.none(), NAMES),
    topics=st.lists(topics, min_size=1, max_size=2),
)


def wire_topic(topic, version):
    if version >= single_offset_commit.TOPIC_IDS_VERSION:
        return topic.topic_id
    raw = topic.name.encode()
    return bytes([len(raw) + 1]) + raw


def is_usual(request, version):
    names = [request.group_id, request.member_id, request.group_instance_id or ""]
    if version < single_offset_commit.TOPIC_IDS_VERSION:
        names += [each.name for each in request.topics]
    return (
        all(len(each.encode()) < 127 for each in names)
        and len(request.topics) == 1
        and 0 < len(request.topics[0].partitions) < 127
        and not any(each.committed_metadata for each in request.topics[0].partitions)
    )


@given(VERSIONS, requests)
def test_requests(version, request):
    found = single_offset_commit.decode(memoryview(request.encode(version)), 0, version)
    if not is_usual(request, version):
        assert found is None
        return
    assert found is not None
    assert found[:5] == (
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        wire_topic(request.topics[0], version),
    )
    assert found[5] == [
        (each.partition_index, each.committed_offset, each.committed_leader_epoch)
        for each in request.topics[0].partitions
    ]


def usual(**fields):
    topic = OffsetCommitRequestTopic(
        name="topic", topic_id=b"i" * 16, partitions=[OffsetCommitRequestPartition()] * 2
    )
    return OffsetCommitRequest(group_id="group", member_id="member", topics=[topic], **fields)


@given(VERSIONS, st.sampled_from([None, "instance"]), st.data())
def test_truncated_or_longer_frames_are_never_misread(version, instance_id, data):
    whole = usual(group_instance_id=instance_id).encode(version)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for frame in (whole[:cut], whole + whole[cut:]):
        assert single_offset_commit.decode(memoryview(frame), 0, version) is None


@given(VERSIONS, st.sampled_from([None, "instance"]), st.data())
def test_spoilt_frames_are_read_as_the_general_codec_reads_them(version, instance_id, data):
    frame = bytearray(usual(group_instance_id=instance_id).encode(version))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    found = single_offset_commit.decode(memoryview(frame), 0, version)
    if found is not None:
        request = OffsetCommitRequest.decode(frame, version)
        assert is_usual(request, version)
        assert (found[0], found[2], found[3]) == (
            request.group_id,
            request.member_id,
            request.group_instance_id,
        )
        if version >= single_offset_commit.TOPIC_IDS_VERSION:
            assert found[4] == request.topics[0].topic_id
        assert [each[1] for each in found[5]] == [
            each.committed_offset for each in request.topics[0].partitions
        ]


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("place", [1, 2])
def test_a_tagged_field_is_left_to_the_general_codec(version, place):
    whole = bytearray(usual().encode(version))
    whole[-place : len(whole) - place + 1] = b"\1\x05\1x"
    assert OffsetCommitRequest.decode(bytes(whole), version).group_id == "group"
    assert single_offset_commit.decode(memoryview(whole), 0, version) is None


@given(VERSIONS, INT32, topics.filter(lambda topic: is_usual(usual_of(topic), 9)))
def test_answers(version, correlation, topic):
    results = [
        OffsetCommitResponsePartition(partition_index=each.partition_index)
        for each in topic.partitions
    ]
    answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results)
    body = ResponseHeader(correlation_id=correlation).encode(1)
    body += OffsetCommitResponse(topics=[answer]).encode(version)
    expected = len(body).to_bytes(4, "big") + body
    commits = [(each.partition_index, 0, 0) for each in topic.partitions]
    raw = wire_topic(topic, version)
    assert single_offset_commit.encode_answer(correlation, raw, commits) == expected


def usual_of(topic):
    return OffsetCommitRequest(topics=[topic])
