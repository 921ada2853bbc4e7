"""A live broker for the session, a cluster and a topic for each test."""

from __future__ import annotations

import uuid

import pytest
from tests.client.fake_broker import FakeBroker
from tests.support.live_broker import live_broker

from odradek.client.admin.topics import NewTopic, create_topics, delete_topics
from odradek.client.cluster import Cluster


@pytest.fixture(scope="session")
def bootstrap():
    with live_broker() as address:
        yield address


@pytest.fixture
def cluster(bootstrap):
    with Cluster(bootstrap, timeout_ms=10_000) as cluster:
        yield cluster


@pytest.fixture
def make_topic(cluster):
    """Makes topics that are deleted afterwards; returns their name."""
    made = []

    def make(partitions=1, **configs):
        name = f"test-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        result = create_topics(cluster, [NewTopic(name, partitions, configs=settings)])[name]
        assert not isinstance(result, Exception), result
        made.append(name)
        return name

    yield make
    if made:
        delete_topics(cluster, made)


@pytest.fixture
def fake():
    with FakeBroker() as broker:
        yield broker
