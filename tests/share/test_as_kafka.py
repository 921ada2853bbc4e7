"""Valid and invalid requests of share groups have the same responses as in Apache Kafka.

One case is left out: for an unknown topic id Apache Kafka returns UNKNOWN_SERVER_ERROR for the whole
request. Odradek returns UNKNOWN_TOPIC_ID for the topic (`test_requests`).
"""

from __future__ import annotations

import pytest
from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from tests.share.member import Member, configure, offsets, results
from tests.share.test_requests import SETTINGS, begun, produced, topic_id

from odradek.testing import Broker
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.share_acknowledge_response import ShareAcknowledgeResponse
from odradek.wire.generated.share_fetch_response import ShareFetchResponse

GROUP = "compared"
NO_LIMITS = {"max_records": 0, "min_bytes": 0, "max_bytes": 0, "max_wait_ms": 0}


def told(response: ShareFetchResponse | ShareAcknowledgeResponse) -> str:
    """Describe a response, without what differs between clusters."""
    text = f"{response.error_code} {response.acquisition_lock_timeout_ms}"
    if isinstance(response, ShareAcknowledgeResponse):
        parts = sorted(
            (each.partition_index, each.error_code, each.error_message is not None)
            for topic in response.responses
            for each in topic.partitions
        )
        return f"{text} {parts}"
    for each in sorted(results(response), key=lambda result: result.partition_index):
        acquired = [
            (part.first_offset, part.last_offset, part.delivery_count)
            for part in each.acquired_records
        ]
        text += (
            f" {each.partition_index}:{each.error_code}/{each.acknowledge_error_code}"
            f" {acquired} {offsets(each)}"
        )
    return text


class Dialogue:
    """Sends the same requests to each broker."""

    def __init__(self, port: int) -> None:
        self.answers: list[str] = []
        with WireClient(port) as client, WireClient(port) as second:
            self._client = client
            self._prepare()
            one = Member(client, GROUP, "one", self._topic_id)
            one.join("jobs")
            begun(one)
            self._sessions(one)
            self._acknowledgements(one, Member(second, GROUP, "two", self._topic_id))
            self._limits(one)
            self._endings(one)

    def _prepare(self) -> None:
        topic = CreatableTopic(name="jobs", num_partitions=2, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        self._client.call("CreateTopics", 5, request, CreateTopicsResponse)
        while self._client.serving("jobs", 2) < 2:
            pass
        self._topic_id = topic_id(self._client, "jobs")
        configure(self._client, GROUP, share_auto_offset_reset="earliest")

    def _tell(self, name: str, response: ShareFetchResponse | ShareAcknowledgeResponse) -> None:
        self.answers.append(f"{name}: {told(response)}")

    def _sessions(self, one: Member) -> None:
        client, topic = self._client, self._topic_id
        for epoch in (7, -2, 2**31 - 1):
            self._tell(f"epoch {epoch}", one.fetch(epoch=epoch))
            self._tell(f"epoch {epoch}", one.acknowledge((0, 0, [1]), epoch=epoch))
        self._tell("acknowledgement with epoch 0", one.acknowledge((0, 0, [1]), epoch=0))
        for name in ("", "x" * 37, "x" * 36):
            member = Member(client, GROUP, name, topic)
            self._tell(f"member {name}", member.fetch(epoch=3))
            self._tell(f"member {name}", member.acknowledge((0, 0, [1]), epoch=3))
        stranger = Member(client, GROUP, "stranger", topic)
        self._tell("stranger", stranger.fetch(epoch=-1))
        self._tell("stranger", stranger.acknowledge((0, 0, [1]), epoch=-1))
        self._tell("first with acknowledgements", stranger.fetch(0, acknowledge=[(0, 0, [1])]))
        for field, value in (("max_bytes", 1), ("min_bytes", 1), ("max_records", 1)):
            response = one.fetch(is_renew_ack=True, **{**NO_LIMITS, field: value})
            self._tell(f"renewal with {field}", response)
        self._tell("unknown partition", one.fetch(9))
        self._tell("it stays in the session", one.fetch())
        other = Member(client, "no-such-group", "other", topic)
        self._tell("unknown group", other.fetch(0, max_wait_ms=200))

    def _acknowledgements(self, one: Member, two: Member) -> None:
        first = produced(self._client, 6)
        found: list[tuple[int, int, int]] = []
        while not found or found[-1][1] < first + 5:
            found += one.acquired(max_wait_ms=30_000, min_bytes=1)
        self.answers.append(f"acquired {found[-1][1]}")
        cases: tuple[tuple[int, int, list[int]], ...] = (
            (1, 0, [1]), (0, 0, []), (0, 3, [1, 1]), (0, 0, [5]), (0, 0, [-1]), (0, 0, [4]),
            (0, 1000, [1]), (1000, 1000, [1]), (-100, -90, [1]), (0, 1, [1, 9]),
        )  # fmt: skip
        for begin, last, kinds in cases:
            response = one.acknowledge((first + begin, first + last, kinds))
            self._tell(f"acknowledge {begin} {last} {kinds}", response)
            response = one.fetch(
                0, acknowledge=[(first + begin, first + last, kinds)], max_records=0
            )
            self._tell(f"with a fetch {begin} {last} {kinds}", response)
        overlapping = one.acknowledge((first + 4, first + 5, [1]), (first, first, [1]))
        self._tell("unordered batches", overlapping)
        self._tell("no batches", one.acknowledge())
        self._tell("another partition", one.acknowledge((0, 0, [1]), partition=1))
        self._tell("unknown partition", one.acknowledge((0, 0, [1]), partition=7))
        self._tell("version 1 renews", one.acknowledge((first, first, [4]), version=1))
        self._tell("renewal", one.acknowledge((first, first, [4]), is_renew_ack=True))
        renewal = one.fetch(0, acknowledge=[(first, first, [4])], is_renew_ack=True, **NO_LIMITS)
        self._tell("renewal with a fetch", renewal)
        self._tell("two begins", two.fetch(0, max_records=0))
        self._tell("foreign", two.acknowledge((first, first, [1])))
        kinds = [0, 1, 2, 3]
        self._tell("each kind", one.acknowledge((first, first + 3, kinds)))
        self._tell("again", one.acknowledge((first, first + 3, kinds)))
        self._tell("released", one.fetch(max_wait_ms=5000))
        self._tell("all", one.acknowledge((first + 2, first + 2, [1]), (first + 4, first + 5, [1])))
        self._tell("before the start", one.acknowledge((first, first, [1])))
        self._tell("two ends", two.acknowledge(epoch=-1))

    def _limits(self, one: Member) -> None:
        first = produced(self._client, 4)
        self._tell("a wrong mode", one.fetch(share_acquire_mode=7))
        one.epoch += 1  # the session has advanced before the error
        self._tell("no records", one.fetch(max_records=0))
        self._tell("no bytes", one.fetch(max_bytes=0))
        self._tell("a batch of one", one.fetch(batch_size=1, max_records=2))
        self._tell("a limit of one", one.fetch(share_acquire_mode=1, max_records=1))
        self._tell("the rest", one.fetch())
        self._tell("accepted", one.acknowledge((first, first + 3, [1])))

    def _endings(self, one: Member) -> None:
        first = produced(self._client, 2)
        while one.acquired(max_wait_ms=30_000)[-1][1] < first + 1:
            pass
        response = one.fetch(0, acknowledge=[(first, first, [1])], epoch=-1)
        self._tell("the last fetch acknowledges", response)
        self._tell("after the end", one.fetch())
        again = Member(self._client, GROUP, "again", self._topic_id)
        found = again.acquired(0, max_wait_ms=5000)
        self.answers.append(f"released at the end: {found}")
        self._tell(
            "the last acknowledgement", again.acknowledge((first + 1, first + 1, [1]), epoch=-1)
        )


@pytest.mark.cluster
@pytest.mark.java
@pytest.mark.slow("all recorded steps are played against both brokers")
def test_responses_are_those_of_kafka() -> None:
    with Broker(settings=SETTINGS) as broker:
        ours = Dialogue(int(broker.bootstrap_servers.rpartition(":")[2])).answers
    try:
        apache = BriefApacheKafka(settings=SETTINGS)
    except Missing as reason:
        pytest.skip(str(reason))
    with apache:
        theirs = Dialogue(apache.port).answers
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert not different, "\n".join(f"{a}\n    Kafka: {b}" for a, b in different)
