"""Settings of the process runner: each goes to the clients that have it."""

from __future__ import annotations

import pytest

from odradek.core.streams.task import TaskSettings
from odradek.streams.process.settings import (
    ADMIN,
    GLOBAL_CONSUMER,
    MAIN_CONSUMER,
    PRODUCER,
    RESTORE_CONSUMER,
    worker_settings,
)


def settings(reset=None, **given):
    return worker_settings(given, "localhost:9092", reset, TaskSettings())


def with_setting(found, name):
    return {client for client, given in found.clients.items() if name in given}


def test_each_client_gets_the_settings_that_it_has():
    found = settings(session_timeout_ms=6000, linger_ms=0, security_protocol="SSL")
    everybody = {MAIN_CONSUMER, RESTORE_CONSUMER, GLOBAL_CONSUMER, PRODUCER, ADMIN}
    assert with_setting(found, "security.protocol") == everybody
    assert with_setting(found, "bootstrap.servers") == everybody
    assert with_setting(found, "session.timeout.ms") == everybody - {PRODUCER, ADMIN}
    assert with_setting(found, "linger.ms") == {PRODUCER}


def test_the_more_exact_prefix_decides():
    found = settings(
        **{
            "request.timeout.ms": 1,
            "restore.consumer.request.timeout.ms": 3,
            "consumer.request.timeout.ms": 2,
            "producer_request_timeout_ms": 4,
            "main_consumer_fetch_min_bytes": 5,
        }
    )
    timeouts = {client: each.get("request.timeout.ms") for client, each in found.clients.items()}
    assert timeouts == {
        MAIN_CONSUMER: 2,
        RESTORE_CONSUMER: 3,
        GLOBAL_CONSUMER: 2,
        PRODUCER: 4,
        ADMIN: None,
    }
    assert with_setting(found, "fetch.min.bytes") == {MAIN_CONSUMER}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "sesion_timeout_ms",
            "there is no setting sesion.timeout.ms. Did you mean session.timeout",
        ),
        ("producer_linger", "no setting producer.linger. Did you mean producer.linger.ms"),
        ("admin_session_timeout_ms", "there is no setting admin.session.timeout.ms"),
        ("comit_interval_ms", "Did you mean commit.interval.ms"),
        ("group_id", "group.id cannot be set: the application decides it"),
        ("consumer_enable_auto_commit", "consumer.enable.auto.commit cannot be set"),
        ("producer_transactional_id", "producer.transactional.id cannot be set"),
    ],
)
def test_unknown_and_forbidden_settings_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        settings(**{name: "1"})


@pytest.mark.parametrize(
    "given",
    [
        {"processing_guarantee": "exactly_once"},
        {"commit_interval_ms": "soon"},
        {"replication_factor": 0.5},
        {"processing_guarantee": "exactly_once_v2", "isolation_level": "read_uncommitted"},
        {"linger_ms": 1, "linger.ms": 2},
    ],
)
def test_malformed_settings_are_refused(given):
    with pytest.raises(
        ValueError, match=r"processing_guarantee|commit_interval|factor|isolation|twice"
    ):
        settings(**given)


def test_exactly_once_reads_what_is_committed():
    found = settings(processing_guarantee="exactly_once_v2")
    assert with_setting(found, "isolation.level") == {
        MAIN_CONSUMER,
        RESTORE_CONSUMER,
        GLOBAL_CONSUMER,
    }
    assert found.clients[PRODUCER]["transaction.timeout.ms"] == 10_000
    assert found.commit_interval_ms == 100
    assert settings().commit_interval_ms == 30_000


def test_where_to_begin_is_said_by_the_streams_or_by_the_setting():
    def first(**given):
        return settings(**given).clients[MAIN_CONSUMER]["auto.offset.reset"]

    assert first() == "earliest"
    assert first(auto_offset_reset="latest") == "latest"
    assert first(auto_offset_reset="latest", reset="earliest") == "earliest"
    assert with_setting(settings(auto_offset_reset="latest"), "auto.offset.reset") == {
        MAIN_CONSUMER
    }


def test_the_protocol_of_the_group_and_tags_of_the_process():
    assert settings().group_protocol == "classic"
    found = settings(group_protocol="STREAMS", client_tag_zone="a", state_cleanup_delay_ms=5)
    assert (found.group_protocol, found.client_tags) == ("streams", {"zone": "a"})
    assert found.state_cleanup_delay_ms == 5
    with pytest.raises(ValueError, match='group_protocol is "classic" or "streams"'):
        settings(group_protocol="consumer")
    with pytest.raises(ValueError, match="is a setting of the group"):
        settings(num_standby_replicas=1)


def test_consumers_create_no_topics():
    for client in (MAIN_CONSUMER, RESTORE_CONSUMER, GLOBAL_CONSUMER):
        assert settings().clients[client]["allow.auto.create.topics"] == "false"
    with pytest.raises(ValueError, match="the application decides it"):
        settings(allow_auto_create_topics=True)
