"""A fetch that names the epoch of its last record (KIP-595, KIP-392)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support import LED_HERE, partition_of
from tests.log.support import batch

from odradek.broker.partitions import reading
from odradek.broker.partitions.partition import Partition
from odradek.core.session.fetch import FetchedPartition
from odradek.model.errors import ErrorCode
from odradek.wire.generated.fetch_request import FetchPartition


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Epochs 3 (offsets 0 to 9), 5 (10 to 19) and 6 (20 to 29)."""
    partition = partition_of(tmp_path, registration=LED_HERE._replace(leader_epoch=3))
    for epoch in (3, 5, 6):
        partition.update(LED_HERE._replace(leader_epoch=epoch))
        partition.log.on_leader_epoch(epoch)
        partition.append(batch(*[b"value"] * 10), 1)
    return partition


def read(partition: Partition, offset: int, last_fetched_epoch: int):
    request = FetchPartition(
        fetch_offset=offset, partition_max_bytes=1 << 20, last_fetched_epoch=last_fetched_epoch
    )
    wanted = FetchedPartition(("topic", 0), "topic", request)
    return reading.read(partition, wanted, 0, 1 << 20, True)


@pytest.mark.parametrize(
    ("offset", "epoch", "diverges"),
    [
        (30, 6, (-1, -1)),
        (10, 3, (-1, -1)),
        (11, 3, (3, 10)),
        (25, 5, (5, 20)),
        (20, 4, (3, 10)),
        (10, 4, (3, 10)),
        (31, 6, (6, 30)),
        (5, 2, (2, 0)),  # before all known epochs: it ended where the log begins
    ],
)
def test_a_diverging_epoch_gets_its_end_offset(partition, offset, epoch, diverges):
    answer = read(partition, offset, epoch)
    assert answer.error_code == ErrorCode.NONE
    told = (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
    assert told == diverges
    assert bool(answer.records) == (diverges == (-1, -1) and offset < 30)
    assert answer.high_watermark == 30


@pytest.mark.parametrize("epoch", [7, 1_000_000])
def test_an_epoch_whose_end_is_unknown_is_out_of_range(partition, epoch):
    answer = read(partition, 10, epoch)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.diverging_epoch.epoch == -1
    assert answer.high_watermark == -1


def test_in_a_log_without_epochs_it_is_out_of_range_too(partition):
    partition.log.leader_epochs.clear()
    assert read(partition, 10, 6).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_before_the_log_is_out_of_range_even_if_the_epochs_diverge(partition):
    partition.log.delete_records_before(15)
    assert read(partition, 12, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(partition, 16, 5).error_code == ErrorCode.NONE


def test_a_fetch_without_an_epoch_is_not_compared(partition):
    assert len(read(partition, 12, -1).records) > 0
