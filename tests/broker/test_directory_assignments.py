"""Reports of log directories: batches, retries, and replicas that are not here any more."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.replication import directory_assignments
from odradek.broker.replication.directory_assignments import DirectoryAssignments
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

TOPIC, DIRECTORY, OTHER = b"t" * 16, b"d" * 16, b"o" * 16


class Channel:
    """Hands requests to the test, which sets their responses."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue = asyncio.Queue()

    async def submit(self, context, request):
        assert context is None
        answer = asyncio.get_running_loop().create_future()
        self.requests.put_nowait((request, answer))
        return await answer


def named(request):
    """The replicas in a request by directory."""
    return {
        directory.id: [
            (topic.topic_id, each.partition_index)
            for topic in directory.topics
            for each in topic.partitions
        ]
        for directory in request.directories
    }


def answered(request, errors=()):
    """The response; `errors` has the codes by partition."""
    codes = dict(errors)
    return AssignReplicasToDirsResponse(
        directories=[
            DirectoryData(
                id=directory.id,
                topics=[
                    TopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            PartitionData(
                                partition_index=each.partition_index,
                                error_code=codes.get(each.partition_index, 0),
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def run(monkeypatch, scenario) -> None:
    monkeypatch.setattr(directory_assignments, "RETRY_SECONDS", 0.001)

    async def main() -> None:
        channel, epochs = Channel(), [10]
        reports = DirectoryAssignments(channel, 1, lambda: epochs[0], asyncio.get_running_loop())
        try:
            await scenario(reports, channel, epochs)
        finally:
            reports.close()

    asyncio.run(main())


def test_the_replicas_of_a_change_share_a_request(monkeypatch) -> None:
    async def scenario(reports, channel, epochs) -> None:
        for index, directory in ((0, DIRECTORY), (1, OTHER), (2, DIRECTORY)):
            reports.report(TOPIC, index, directory)
        request, answer = await channel.requests.get()
        assert (request.broker_id, request.broker_epoch) == (1, 10)
        assert named(request) == {DIRECTORY: [(TOPIC, 0), (TOPIC, 2)], OTHER: [(TOPIC, 1)]}
        reports.report(TOPIC, 2, OTHER)  # it was moved meanwhile
        answer.set_result(answered(request))
        request, answer = await channel.requests.get()
        assert named(request) == {OTHER: [(TOPIC, 2)]}

    run(monkeypatch, scenario)


@pytest.mark.parametrize("error", ["raised", "whole", "of one"])
def test_what_the_controller_has_not_processed_is_sent_again(monkeypatch, error) -> None:
    async def scenario(reports, channel, epochs) -> None:
        reports.report(TOPIC, 0, DIRECTORY)
        reports.report(TOPIC, 1, DIRECTORY)
        request, answer = await channel.requests.get()
        left = [(TOPIC, 0), (TOPIC, 1)]
        if error == "raised":
            answer.set_exception(ApiError(ErrorCode.NOT_CONTROLLER))
        elif error == "whole":
            code = ErrorCode.STALE_BROKER_EPOCH
            answer.set_result(AssignReplicasToDirsResponse(error_code=code))
        else:
            errors = {0: ErrorCode.UNKNOWN_TOPIC_ID, 1: ErrorCode.NOT_CONTROLLER}
            answer.set_result(answered(request, errors.items()))
            left = left[1:]  # the other one is not on this broker any more
        request, answer = await channel.requests.get()
        assert named(request) == {DIRECTORY: left}

    run(monkeypatch, scenario)


def test_nothing_is_sent_before_the_registration_and_after_the_end(monkeypatch) -> None:
    async def scenario(reports, channel, epochs) -> None:
        epochs[0] = -1
        reports.report(TOPIC, 0, DIRECTORY)
        await asyncio.sleep(0.01)
        assert channel.requests.empty()
        epochs[0] = 3
        request, _ = await channel.requests.get()
        assert request.broker_epoch == 3
        reports.close()
        reports.report(TOPIC, 1, DIRECTORY)
        await asyncio.sleep(0.01)
        assert channel.requests.empty()

    run(monkeypatch, scenario)
