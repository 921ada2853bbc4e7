"""Each of 5 000 groups commits once per second for a minute, over fifty connections.

Each commit is one request for one partition. The commits are spread evenly over the second.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from functools import partial

from compat.lab.wire_client import decode_response, request_frame

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.groups.connection import connect
from bench.groups.trial import longest_pause_ms, make_topics, wait_for_coordinators
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse

GROUPS = 5000
CONNECTIONS = 50
SECONDS = 60
WARM_UP_SECONDS = 20
TICK_SECONDS = 0.001
TOPIC = "commits"
VERSION = 8

RATE = Quantity("commits", "1/s", higher_is_better=True)
CPU = Quantity("CPU for 60 s", "s", 0.7)
P50 = Quantity("commit, p50", "ms")
P99 = Quantity("commit, p99", "ms")
PAUSE = Quantity("longest pause of the loop", "ms")


def commit_frame(group: str, topic: str, partitions: range, offset: int) -> bytes:
    """Return an encoded OffsetCommit request without a member id."""
    wanted = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index in partitions
    ]
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=wanted)]
    )
    return request_frame("OffsetCommit", VERSION, request, 1)


def check_commit(answer: bytes) -> None:
    """Check that the response has no error."""
    response = decode_response("OffsetCommit", VERSION, answer, OffsetCommitResponse)
    wrong = {each.error_code for topic in response.topics for each in topic.partitions} - {0}
    assert not wrong, f"commits were refused: {wrong}"


async def commit_for(port: int, groups: int, seconds: int) -> list[float]:
    """Return, for each commit, the seconds from the moment at which it was due to its response."""
    connections = await connect(port, CONNECTIONS)
    frames = [commit_frame(f"commits-{each}", TOPIC, range(1), 1) for each in range(groups)]
    waited: list[float] = []

    def note(due: float, _: object) -> None:
        waited.append(time.monotonic() - due)

    answers: list[asyncio.Future[bytes]] = []
    started = time.monotonic()
    sent = 0
    while sent < groups * seconds:
        while sent < min((time.monotonic() - started) * groups, groups * seconds):
            due = started + sent / groups
            answer = connections[sent % CONNECTIONS].send(frames[sent % groups])
            answer.add_done_callback(partial(note, due))
            answers.append(answer)
            sent += 1
        await asyncio.sleep(TICK_SECONDS)
    for each in answers:
        check_commit(await each)
    for connection in connections:
        connection.close()
    return waited


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    seconds = environment.scaled(SECONDS)
    for contender in environment.contenders:
        make_topics(contender.broker, {TOPIC: 1})
        wait_for_coordinators(contender.broker)
        asyncio.run(commit_for(contender.broker.port, GROUPS, environment.scaled(WARM_UP_SECONDS)))

    def one_round(contender: Contender) -> Mapping[str, float]:
        longest_pause_ms(contender)
        meter = CpuMeter(contender.broker)
        started = time.monotonic()
        waited = asyncio.run(commit_for(contender.broker.port, GROUPS, seconds))
        elapsed = time.monotonic() - started
        percentiles = statistics.quantiles(waited, n=100)
        values = {
            RATE.name: len(waited) / elapsed,
            CPU.name: meter.seconds() * SECONDS / seconds,
            P50.name: percentiles[49] * 1000,
            P99.name: percentiles[98] * 1000,
        }
        pause = longest_pause_ms(contender)
        return values if pause is None else {**values, PAUSE.name: pause}

    return environment.play("commits", [RATE, CPU, P50, P99, PAUSE], one_round, warm_ups=0)
