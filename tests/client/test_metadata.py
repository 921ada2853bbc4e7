"""The cached metadata: whose leader epochs are older is not believed."""

from __future__ import annotations

from odradek.client.address import Address
from odradek.client.metadata import ClusterMetadata, Node
from odradek.model.errors import ErrorCode
from odradek.wire.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ONE, OTHER = b"1" * 16, b"2" * 16


def answer(leader: int, epoch: int, topic_id: bytes = ONE, error: int = 0) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(
        error_code=error, name="t", topic_id=topic_id, partitions=[] if error else [partition]
    )
    brokers = [MetadataResponseBroker(node_id=each, host="h", port=each) for each in (1, 2)]
    return MetadataResponse(brokers=brokers, topics=[topic])


def leader_after(*answers: MetadataResponse) -> int:
    metadata = ClusterMetadata()
    for each in answers:
        metadata.absorb(each, all_topics=False)
    return metadata.topics["t"].partitions[0].leader


def test_a_former_leader_does_not_replace_a_newer_one() -> None:
    assert leader_after(answer(1, 5), answer(2, 6)) == 2
    assert leader_after(answer(2, 6), answer(1, 5)) == 2
    assert leader_after(answer(2, 6), answer(-1, 6)) == -1, "there is none in this epoch now"


def test_epochs_are_remembered_while_a_broker_does_not_know_the_topic() -> None:
    unknown = answer(0, 0, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert leader_after(answer(2, 6), unknown, answer(1, 5)) == -1, "it is asked for again"
    assert leader_after(answer(2, 6), unknown, answer(2, 6)) == 2


def test_a_topic_that_is_made_again_begins_anew() -> None:
    assert leader_after(answer(2, 6), answer(1, 0, OTHER)) == 1


def test_a_leader_that_an_error_has_named_stays() -> None:
    metadata = ClusterMetadata()
    metadata.absorb(answer(1, 5), all_topics=False)
    assert metadata.move_leader("t", 0, 2, 6, Node(2, Address("h", 2)))
    metadata.absorb(answer(1, 5), all_topics=False)
    assert metadata.topics["t"].partitions[0].leader == 2
