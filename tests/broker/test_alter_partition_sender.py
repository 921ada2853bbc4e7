"""ISR changes reach the controller one request at a time, and each gets its result."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.partitions.leading import AlteredPartition
from odradek.broker.replication import alter_partition_sender
from odradek.broker.replication.alter_partition_sender import AlterPartitionSender
from odradek.core.replica.effects import IsrChange
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.alter_partition_response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)

ONE, OTHER = b"1" * 16, b"2" * 16


class Channel:
    """A controller that answers when the test says so."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue = asyncio.Queue()
        self.open = 0

    async def submit(self, context, request):
        assert context is None
        self.open += 1
        assert self.open == 1, "one request at a time"
        answer = asyncio.get_running_loop().create_future()
        self.requests.put_nowait((request, answer))
        try:
            return await answer
        finally:
            self.open -= 1


def change(epoch: int = 3) -> IsrChange:
    return IsrChange(leader_epoch=1, partition_epoch=epoch, isr=((1, 10), (2, -1)))


def names(request) -> list[tuple[bytes, int, int]]:
    return [
        (topic.topic_id, each.partition_index, each.partition_epoch)
        for topic in request.topics
        for each in topic.partitions
    ]


def answer_to(request, error: int = 0, leave_out: int = -1) -> AlterPartitionResponse:
    response = AlterPartitionResponse()
    for topic in request.topics:
        parts = [
            PartitionData(
                partition_index=each.partition_index,
                error_code=error,
                leader_epoch=each.leader_epoch,
                partition_epoch=each.partition_epoch + 1,
                isr=[state.broker_id for state in each.new_isr_with_epochs],
            )
            for each in topic.partitions
            if each.partition_index != leave_out
        ]
        response.topics.append(TopicData(topic_id=topic.topic_id, partitions=parts))
    return response


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch) -> None:
    monkeypatch.setattr(alter_partition_sender, "RETRY_SECONDS", 0.001)


def run(scenario) -> None:
    async def main() -> None:
        channel = Channel()
        told: list[tuple[IsrChange, object]] = []
        sender = AlterPartitionSender(channel, 1, lambda: 10, asyncio.get_running_loop())
        try:
            await scenario(sender, channel, lambda *result: told.append(result), told)
        finally:
            sender.close()

    asyncio.run(main())


def test_changes_of_a_turn_share_a_request_and_later_ones_wait() -> None:
    async def scenario(sender, channel, done, told) -> None:
        changes = [change(), change(), change()]
        sender.submit(ONE, 0, changes[0], done)
        sender.submit(OTHER, 4, changes[1], done)
        request, answer = await channel.requests.get()
        assert (request.broker_id, request.broker_epoch) == (1, 10)
        assert names(request) == [(ONE, 0, 3), (OTHER, 4, 3)]
        states = request.topics[0].partitions[0].new_isr_with_epochs
        assert [(each.broker_id, each.broker_epoch) for each in states] == [(1, 10), (2, -1)]
        sender.submit(ONE, 1, changes[2], done)
        answer.set_result(answer_to(request))
        request, answer = await channel.requests.get()
        assert told == [(each, AlteredPartition(1, 4, [1, 2])) for each in changes[:2]]
        assert names(request) == [(ONE, 1, 3)]
        answer.set_result(answer_to(request, ErrorCode.INELIGIBLE_REPLICA))
        while len(told) < len(changes):
            await asyncio.sleep(0)
        assert told[2:] == [(changes[2], ErrorCode.INELIGIBLE_REPLICA)]
        assert channel.requests.empty()

    run(scenario)


@pytest.mark.parametrize("error", ["raised", "answered", "left out"])
def test_what_has_no_result_is_sent_again(error) -> None:
    async def scenario(sender, channel, done, told) -> None:
        sender.submit(ONE, 0, change(), done)
        for _ in range(3):
            request, answer = await channel.requests.get()
            assert names(request) == [(ONE, 0, 3)]
            if error == "raised":
                answer.set_exception(ApiError(ErrorCode.NOT_CONTROLLER))
            elif error == "answered":
                answer.set_result(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            else:
                answer.set_result(answer_to(request, leave_out=0))
        request, answer = await channel.requests.get()
        assert told == []
        answer.set_result(answer_to(request))
        while not told:
            await asyncio.sleep(0)
        assert len(told) == 1

    run(scenario)


def test_a_newer_change_replaces_one_that_was_not_sent_and_follows_one_in_flight() -> None:
    async def scenario(sender, channel, done, told) -> None:
        changes = [change(epoch) for epoch in (3, 4, 5, 6)]
        sender.submit(ONE, 0, changes[0], done)
        sender.submit(ONE, 0, changes[1], done)
        request, answer = await channel.requests.get()
        assert names(request) == [(ONE, 0, 4)]
        sender.submit(ONE, 0, changes[2], done)
        sender.submit(ONE, 0, changes[3], done)
        answer.set_result(answer_to(request, ErrorCode.INVALID_UPDATE_VERSION))
        request, answer = await channel.requests.get()
        assert told == [(changes[1], ErrorCode.INVALID_UPDATE_VERSION)]
        assert names(request) == [(ONE, 0, 6)]

    run(scenario)


def test_nothing_is_sent_after_the_end() -> None:
    async def scenario(sender, channel, done, told) -> None:
        sender.close()
        sender.submit(ONE, 0, change(), done)
        await asyncio.sleep(0.01)
        assert channel.requests.empty()

    run(scenario)
