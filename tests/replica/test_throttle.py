"""The rate of replication, and which partitions a throttle delays."""

from __future__ import annotations

import random

import pytest
from tests.replica.test_follower import KEYS, TOPIC_ID, data, log
from tests.support.run_seed import numbers_of_histories

from odradek.core.replica.follower import FetcherSettings, ReplicaFetcher
from odradek.core.replica.throttle import UNLIMITED, ByteRate, ReplicationThrottle
from odradek.wire.generated.fetch_response import FetchableTopicResponse, FetchResponse


def test_the_rate_is_that_of_the_last_windows() -> None:
    rate = ByteRate(windows=3, window_ms=1000)
    assert rate.per_second(0) == 0
    rate.record(0, 600)
    assert rate.per_second(0) == 600  # at least one window
    assert rate.per_second(2000) == 300
    rate.record(2000, 900)
    assert rate.per_second(2000) == 750
    assert rate.per_second(3000) == 900  # the first window is too old
    assert rate.per_second(5000) == 0


@pytest.mark.parametrize("seed", numbers_of_histories("ODRADEK_THROTTLE_HISTORIES", 20))
def test_the_rate_stays_near_the_limit(seed: int) -> None:
    """A sender that sends only below the limit exceeds it by at most its last send."""
    dice = random.Random(seed)
    throttle = ReplicationThrottle(1)
    limit, largest = dice.randint(1_000, 1_000_000), dice.randint(1, 100_000)
    throttle.set_limit(limit)
    now_ms = start_ms = dice.randint(0, 1 << 40)
    total = 0
    while now_ms < start_ms + 100_000:
        if throttle.is_exceeded(now_ms):
            resume_ms = throttle.resume_ms(now_ms)
            assert resume_ms > now_ms
            now_ms = resume_ms
            assert not throttle.is_exceeded(now_ms)
        else:
            size = dice.randint(1, largest)
            throttle.record(now_ms, size)
            total += size
            now_ms += dice.randint(0, 5)
    seconds = (now_ms - start_ms) / 1000
    # Bytes are forgotten with their window: at most one send in eleven windows is above the limit.
    assert total <= limit * (seconds + 1) + largest * (seconds / 10 + 2)


def test_a_limit_of_zero_ends_when_the_windows_are_over() -> None:
    throttle = ReplicationThrottle(1)
    throttle.set_limit(0)
    assert not throttle.is_exceeded(0)
    throttle.record(0, 1)
    assert throttle.is_exceeded(10_999)
    assert throttle.resume_ms(5_000) == 11_000
    assert not throttle.is_exceeded(11_000)


@pytest.mark.parametrize(
    ("entries", "covered"),
    [
        (["0:1", "1:2", "2:1"], {0, 2}),
        (["*"], {0, 1, 2, 3}),
        (["0:2"], set()),
        ([""], set()),
        ([], set()),
    ],
)
def test_settings_name_the_throttled_replicas(entries, covered) -> None:
    throttle = ReplicationThrottle(1)
    throttle.set_replicas("topic", ["3:1"])
    throttle.set_replicas("topic", entries)
    assert {index for index in range(4) if throttle.covers("topic", index)} == covered
    assert bool(throttle.topics) == bool(covered)
    assert not throttle.covers("other", 0)


def test_a_follower_does_not_fetch_throttled_partitions_in_which_it_lags() -> None:
    throttle = ReplicationThrottle(7)
    fetcher = ReplicaFetcher(7, FetcherSettings(backoff_ms=100), throttle)
    logs = {key: log(0, 0, 1) for key in KEYS}
    for key, each in logs.items():
        fetcher.add(key, "topic", 3, each)

    def request(now_ms: int) -> set[int] | None:
        made = fetcher.request(now_ms, 70)
        if made is None:
            return None
        return {p.partition for t in made.topics for p in t.partitions}

    def respond(now_ms: int, *parts) -> None:
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(parts))]
        # Without a session each request has all partitions.
        for effect in fetcher.responded(now_ms, FetchResponse(responses=topics)):
            if effect.records:
                logs[effect.key].append([(3, 99)])
            fetcher.appended(effect.key, effect.leader_epoch)

    throttle.set_replicas("topic", ["0:7", "1:7", "2:8"])
    throttle.set_limit(10)
    assert request(0) == {0, 1, 2}
    # Partition 0 still lags, partition 1 does not, and 2 is not throttled here.
    respond(
        0,
        data(0, records=b"r" * 100, high_watermark=10),
        data(1, records=b"r" * 100, high_watermark=4),
        data(2, records=b"r" * 100, high_watermark=10),
    )
    assert throttle.per_second(0) == 200
    assert request(1) == {1, 2}
    assert fetcher.deadline_ms() == 101
    respond(1)
    assert request(100) == {1, 2}
    respond(100)
    throttle.set_limit(UNLIMITED)
    assert request(101) == {0, 1, 2}
