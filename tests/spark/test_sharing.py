"""Tasks that write in turns: each continues the sequence numbers of the one before it."""

from __future__ import annotations

import os
import threading

import pytest
from tests.spark.test_producing import played, records

from odradek.client.errors import BrokerError
from odradek.client.producer.transactions import TransactionalProducer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec
from odradek.spark import sharing
from odradek.spark.options import write_options
from odradek.spark.sharing import SharedSender, SharingError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = TransactionalProducer("id", 7, 3)


__all__ = ["played"]


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv(sharing.DIRECTORIES_VARIABLE, f"{tmp_path},/nowhere")
    return tmp_path


@pytest.fixture
def task(played):
    def make(broker, write_id="1", **options):
        settings = {"bootstrap.servers": broker.address, "request.timeout.ms": "5000", **options}
        return SharedSender(played.cluster(broker), write_options(settings), PRODUCER, write_id)

    return make


def send(sender, *rounds):
    for round_ in rounds:
        sender.send({each: records(count) for each, count in round_.items()}, 1)
    sender.flush()


def check(*tasks):
    files = [path for each in tasks for path in each.files]
    sharing.check(files, [each.record_counts for each in tasks])


def test_tasks_continue_the_sequence_numbers_of_each_other(played, task, directory):
    broker = played(transaction_version=2)
    one, other, idle = task(broker), task(broker), task(broker)
    send(one, {T0: 2, T1: 1}, {T0: 3})
    send(other, {T1: 4})
    send(one, {T1: 1})
    send(other, {T0: 5})
    idle.flush()
    assert broker.log == {0: [(0, 2), (2, 3), (5, 5)], 1: [(0, 1), (1, 4), (5, 1)]}
    assert (one.record_counts, other.record_counts) == ({T0: 5, T1: 2}, {T1: 4, T0: 5})
    assert one.files == other.files == {str(directory / "odradek-sequences-1")}
    assert idle.files == frozenset()
    check(one, other, idle)
    sharing.remove([*one.files, *other.files])
    assert os.listdir(directory) == []


def test_tasks_that_send_at_the_same_time_take_turns(played, task, monkeypatch):
    monkeypatch.setattr(sharing, "TURN_BYTES", 30)
    broker = played(transaction_version=2)
    tasks = [task(broker) for _ in range(3)]
    rounds = [{T0: 1, T1: 2}] * 50
    threads = [threading.Thread(target=send, args=(each, *rounds)) for each in tasks]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert broker.log[0] == [(number, 1) for number in range(150)]
    assert broker.log[1] == [(2 * number, 2) for number in range(150)]
    check(*tasks)


def test_batches_are_compressed_before_the_turn(played, task, monkeypatch):
    sender = task(played(transaction_version=2), **{"compression.type": "zstd"})
    sender.send({T0: records(1000)}, 1)
    (((round_, _),), size) = sender._waiting, sender._waiting_bytes
    assert round_[T0].codec == Codec.ZSTD
    assert size == len(round_[T0].data) < 1000


def test_writes_to_two_clusters_with_the_same_producer_id_share_nothing(played, task):
    one, other = played(transaction_version=2), played(transaction_version=2)
    first, second = task(one), task(other, "2")
    send(first, {T0: 2})
    send(second, {T0: 1})
    assert (one.log, other.log) == ({0: [(0, 2)]}, {0: [(0, 1)]})
    check(first)
    check(second)


@pytest.mark.parametrize("is_first", [True, False])
def test_after_a_task_that_failed_in_its_turn_all_tasks_fail(played, task, is_first):
    broker = played(transaction_version=2)
    before = task(broker)
    if not is_first:
        send(before, {T0: 1})
    broker.script.append(ErrorCode.INVALID_RECORD)
    with pytest.raises(BrokerError, match="INVALID_RECORD"):
        send(task(broker), {T0: 1})
    requests = broker.produce_count
    after = task(broker)
    for _ in range(2):
        with pytest.raises(SharingError, match="another task"):
            send(after, {T0: 1})
    assert broker.produce_count == requests
    with pytest.raises(SharingError):
        sharing.check([sharing.SharedSequences("1").path], [before.record_counts])


def test_the_driver_sees_tasks_that_have_not_shared_or_were_repeated(
    played, task, directory, monkeypatch
):
    broker = played(transaction_version=2)
    one = task(broker)
    send(one, {T0: 2})
    repeated = task(broker)
    send(repeated, {T0: 2})
    check(one, repeated)
    with pytest.raises(SharingError, match="nothing is committed"):
        check(repeated)
    elsewhere = directory / "other"
    elsewhere.mkdir()
    monkeypatch.setenv(sharing.DIRECTORIES_VARIABLE, str(elsewhere))
    other = task(broker)  # its batches look like the first ones, and the broker accepts them
    send(other, {T0: 2})
    with pytest.raises(SharingError, match="nothing is committed"):
        check(one, repeated, other)
    sharing.remove(other.files)
    with pytest.raises(SharingError, match="nothing is committed"):
        check(other)
    with pytest.raises(SharingError, match="nothing is committed"):
        sharing.check(one.files, [])
