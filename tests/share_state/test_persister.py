"""The persister finds the coordinator, repeats operations, and keeps the order of a share partition."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from tests.coordinator.support import image_of, topic_id
from tests.share_state.support import TOPICS

from odradek.broker.coordinator import share_apis
from odradek.broker.coordinator.share_persister import ATTEMPTS_MAX, SharePersister
from odradek.broker.peers.channels import BrokerUnreachable
from odradek.core.metadata.image import ClusterImage, MetadataImage, TopicImage, TopicsImage
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated import write_share_group_state_request

HERE, THERE = 1, 2
KEYS = [SharePartitionKey("workers", topic_id("orders"), number) for number in range(3)]
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Channels:
    """Answers as the other broker. `script` has the error of each request, or an exception."""

    def __init__(self):
        self.image = image_of(TOPICS)
        self.script = []
        self.asked = []
        self.in_flight = 0

    async def ask(self, broker_id, request, version_min):
        assert self.in_flight == 0, "one request at a time"
        self.in_flight += 1
        self.asked.append(request)
        await asyncio.sleep(0.01)
        self.in_flight -= 1
        outcome = self.script.pop(0) if self.script else ErrorCode.NONE
        if isinstance(outcome, Exception):
            raise outcome
        assert broker_id == THERE
        api = next(each for each in APIS if isinstance(request, each.request))
        keys = [
            SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            for topic in request.topics
            for each in topic.partitions
        ]
        results = {
            key: api.response_partition(partition=key.partition, error_code=outcome) for key in keys
        }
        return api.respond(request, results)

    def lead(self, broker_id):
        """The broker leads the only partition of the state topic."""
        topics = dict(image_of({**TOPICS, "__share_group_state": 1}).topics.by_name)
        state = topics["__share_group_state"]
        led = state.partitions[0]._replace(leader=broker_id)
        topics[state.name] = TopicImage(state.name, state.id, {0: led})
        by_id = {each.id: each for each in topics.values()}
        alive = dict.fromkeys((HERE, THERE), SimpleNamespace(fenced=False))
        self.image = MetadataImage(
            2, 1, cluster=ClusterImage(alive), topics=TopicsImage(topics, by_id)
        )


APIS = (share_apis.WRITE, share_apis.READ, share_apis.DELETE)


class Local:
    """The share coordinator of this broker."""

    def __init__(self):
        self.script = []
        self.performed = []

    def perform(self, api, key, data):
        self.performed.append((api.operation, key, data))
        outcome = self.script.pop(0) if self.script else ErrorCode.NONE
        if outcome:
            raise ApiError(outcome)
        return api.response_partition(partition=key.partition)


class Creation:
    """Creates the state topic, and makes a broker its leader."""

    def __init__(self, channels):
        self.channels = channels
        self.created = []

    async def create(self, name, timeout_ms):
        self.created.append(name)
        self.channels.lead(HERE)


@pytest.fixture
def parts():
    channels, local = Channels(), Local()
    return SimpleNamespace(channels=channels, local=local, creation=Creation(channels))


async def write(persister, *keys):
    """Write the states of share partitions at the same time, and return the results."""
    return await asyncio.gather(*(begin_write(persister, key) for key in keys))


def begin_write(persister, key, start_offset=0):
    data = write_share_group_state_request.PartitionData(
        partition=key.partition, start_offset=start_offset
    )
    outcome = persister.write(key, data)
    if isinstance(outcome, asyncio.Future):
        return outcome
    done = asyncio.get_running_loop().create_future()
    done.set_result(outcome)
    return done


def run(parts, body, monkeypatch):
    """Run `body(persister)`. Pauses between attempts take no time, and are recorded."""
    pauses = parts.pauses = []
    sleep = asyncio.sleep

    async def record(seconds):
        if seconds > 0.5:
            pauses.append(seconds)
            seconds = 0
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", record)

    async def main():
        persister = SharePersister(
            HERE, parts.local, parts.channels, parts.creation, lambda n: b"\x80" * n,
            asyncio.get_running_loop(),
        )  # fmt: skip
        try:
            return await body(persister)
        finally:
            await persister.close()

    return asyncio.run(main())


def codes(results):
    return [each.error_code for each in results]


def test_the_topic_is_created_once_it_is_needed(parts, monkeypatch):
    response = run(parts, lambda each: write(each, *KEYS), monkeypatch)
    assert codes(response) == [0, 0, 0]
    assert set(parts.creation.created) == {"__share_group_state"}
    assert len(parts.local.performed) == 3


def test_passing_errors_are_repeated_with_growing_pauses(parts, monkeypatch):
    parts.channels.lead(HERE)
    parts.local.script = [LOADING, ErrorCode.NOT_COORDINATOR]
    response = run(parts, lambda each: write(each, KEYS[0]), monkeypatch)
    assert codes(response) == [0]
    assert [round(each) for each in parts.pauses] == [1, 2]


def test_in_the_end_the_error_is_returned(parts, monkeypatch):
    parts.channels.lead(HERE)
    parts.local.script = [LOADING] * 100
    response = run(parts, lambda each: write(each, KEYS[0]), monkeypatch)
    assert codes(response) == [LOADING]
    assert len(parts.local.performed) == ATTEMPTS_MAX


def test_other_errors_are_not_repeated(parts, monkeypatch):
    parts.channels.lead(THERE)
    parts.channels.script = [ErrorCode.FENCED_STATE_EPOCH]
    response = run(parts, lambda each: write(each, *KEYS[:2]), monkeypatch)
    assert codes(response) == [ErrorCode.FENCED_STATE_EPOCH] * 2
    assert len(parts.channels.asked) == 1, "both partitions are in one request"


def test_a_broker_that_cannot_be_reached_is_asked_again(parts, monkeypatch):
    parts.channels.lead(THERE)
    parts.channels.script = [BrokerUnreachable("gone"), ErrorCode.NONE]
    response = run(parts, lambda each: write(each, KEYS[0]), monkeypatch)
    assert codes(response) == [0]
    assert len(parts.channels.asked) == 2


def test_the_new_coordinator_is_asked(parts, monkeypatch):
    parts.channels.lead(THERE)

    async def body(persister):
        parts.channels.script = [BrokerUnreachable("gone")]
        pending = asyncio.ensure_future(write(persister, KEYS[0]))
        while not parts.channels.asked:
            await asyncio.sleep(0)
        parts.channels.lead(HERE)
        return await pending

    assert codes(run(parts, body, monkeypatch)) == [0]
    assert len(parts.local.performed) == 1


def test_writes_of_a_share_partition_stay_in_order(parts, monkeypatch):
    """The first write must be repeated; the later ones wait for it."""
    parts.channels.lead(THERE)
    parts.channels.script = [BrokerUnreachable("gone"), LOADING]

    async def body(persister):
        calls = [begin_write(persister, KEYS[0], start_offset=n) for n in range(4)]
        return await asyncio.gather(*calls)

    assert codes(run(parts, body, monkeypatch)) == [0] * 4
    starts = [each.topics[0].partitions[0].start_offset for each in parts.channels.asked]
    assert starts == [0, 0, 0, 1, 2, 3]


def test_requests_of_a_moment_are_sent_together(parts, monkeypatch):
    parts.channels.lead(THERE)

    async def body(persister):
        return await write(persister, *KEYS)

    run(parts, body, monkeypatch)
    (request,) = parts.channels.asked
    assert [each.partition for each in request.topics[0].partitions] == [0, 1, 2]
