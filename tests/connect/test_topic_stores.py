"""States that cannot be written in time: they are sent again, unless there are newer ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.connect.distributed_lab import settings

from odradek.client.errors import ClientError, ClosedError, RequestTimeoutError
from odradek.connect import topic_stores
from odradek.connect.clients import Clients
from odradek.core.connect.status_log import Status
from odradek.core.connect.worker_config import WorkerConfig

End = Callable[[ClientError | None], None]


class Log:
    """Keeps what is sent, and how each record ends."""

    def __init__(self, spec: topic_stores.TopicSpec, *_: object) -> None:
        self.spec = spec
        self.sent: list[tuple[bytes, bytes | None, End]] = []

    def send(self, key: bytes, value: bytes | None, on_end: End) -> None:
        self.sent.append((key, value, on_end))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> topic_stores.TopicStatusStore:
    monkeypatch.setattr(topic_stores, "TopicLog", Log)
    given = settings("localhost:1", "group")
    return topic_stores.TopicStatusStore(
        WorkerConfig.of(given, is_distributed=True), Clients(given), "x-"
    )


def sent(store: topic_stores.TopicStatusStore) -> list[tuple[bytes, bytes | None, End]]:
    log = store._log
    assert isinstance(log, Log)
    return log.sent


def fail(store: topic_stores.TopicStatusStore, error: ClientError | None = None) -> None:
    sent(store)[-1][2](error or RequestTimeoutError("too late"))


def test_a_state_that_was_not_written_is_sent_again(store):
    store.write("one", Status("RUNNING", "w1", 3))
    fail(store)
    store.send_again()
    first, second = sent(store)
    assert first[:2] == second[:2]
    second[2](None)
    store.send_again()
    assert len(sent(store)) == 2


def test_a_newer_state_is_not_followed_by_the_older_one(store):
    store.write("one", Status("RUNNING", "w1", 3))
    first = sent(store)[-1]
    store.write("one", Status("PAUSED", "w1", 3))
    first[2](RequestTimeoutError("too late"))
    store.send_again()
    assert len(sent(store)) == 2


def test_the_state_of_another_worker_in_a_later_generation_stays(store):
    store.write("one", Status("RUNNING", "w1", 3))
    fail(store)
    key, value, _ = sent(store)[-1]
    store._read(key, (value or b"").replace(b'"generation":3', b'"generation":4'), 0)
    store.send_again()
    assert len(sent(store)) == 1


def test_what_can_never_be_written_is_not_sent_again(store):
    store.write("one", Status("RUNNING", "w1", 3))
    fail(store, ClosedError("closed"))
    store.send_again()
    assert len(sent(store)) == 1
