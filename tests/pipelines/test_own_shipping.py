"""Rows are in the topic once, whenever the process ends, and what is skipped is counted."""

from __future__ import annotations

import gzip
import threading
import uuid

import pytest
from tests.support.live_broker import live_broker

from odradek.client.producer import Producer
from odradek.pipelines.own import formats, rows, shipping
from odradek.pipelines.own.fields import TEXT, Field
from odradek.pipelines.own.formats import Wanted
from odradek.pipelines.own.shipping import Shipper, read_all, ship_files
from odradek.pipelines.places import Places, StoppedError

KEY = Field("key", TEXT, ("key",))


@pytest.fixture(scope="module")
def servers():
    with live_broker() as address:
        yield address


@pytest.fixture
def topic():
    return f"rows-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def places(servers, tmp_path, monkeypatch, topic):
    monkeypatch.setattr(shipping, "ROWS_PER_TRANSACTION", 10)
    places = Places(None, servers, tmp_path / "output", is_continued=True)
    places.create(topic)
    return places


def opened(path):
    return rows.rows(path, formats.find(path, Wanted()), [KEY])


def ship(places, topic, *files, on_sent=lambda count: None):
    return ship_files(Shipper(places, topic, on_sent), files, opened)


def values(places, topic):
    return sorted(int(record.key) for record in read_all(places, topic))


def write(path, numbers):
    path.write_text("".join(f'{{"key": {number}}}\n' for number in numbers))
    return path


class KilledError(BaseException):
    """Ends the process in the test."""


def commit_until(transactions):
    """A commit that works for some transactions, and then ends the process."""
    left, commit = iter(range(transactions)), Producer.commit_transaction

    def commit_or_end(producer, timeout=None):
        if next(left, None) is None:
            raise KilledError
        commit(producer, timeout)

    return commit_or_end


@pytest.mark.parametrize("kills", [[0], [1], [2, 0], [4, 1]])
def test_each_row_is_sent_once(places, topic, tmp_path, monkeypatch, kills):
    files = [write(tmp_path / "a", range(35)), write(tmp_path / "b", range(35, 60))]
    for transactions in kills:  # the process ends instead of this commit
        with monkeypatch.context() as patch:
            patch.setattr(Producer, "commit_transaction", commit_until(transactions))
            with pytest.raises(KilledError):
                ship(places, topic, *files)
    counts = []
    shipment = ship(places, topic, *files, on_sent=counts.append)
    assert values(places, topic) == [*range(60)]
    assert shipment.sent == 60
    assert counts[-1] == 60
    assert ship(places, topic, *files).sent_before == 60
    assert len(values(places, topic)) == 60


def test_rows_that_are_added(places, topic, tmp_path):
    file = write(tmp_path / "a", range(15))
    ship(places, topic, file)
    assert ship(places, topic, write(file, range(22))).sent == 22
    assert values(places, topic) == [*range(22)]


def test_what_is_skipped_is_counted(places, topic, tmp_path):
    csv = tmp_path / "a.csv"
    csv.write_text("key,b\n1,2\n3\n4,5\n")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"key,b\n" + b"1,2\n" * 500)[:-8])
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(100))
    big = tmp_path / "big.csv"
    big.write_text("key,b\n7," + "x" * 1_000_000 + "\n")
    for _ in range(2):  # the counts are the same when it runs again
        shipment = ship(places, topic, csv, cut, binary, big)
        assert shipment.lines_skipped == 2
        assert [each.reason for each in shipment.skipped][1:] == ["it is not text"]
        assert shipment.skipped[0].reason.startswith("it is damaged after line 501")
    assert shipment.sent == 502


def test_it_stops(places, topic, tmp_path):
    file = write(tmp_path / "a", range(100))
    stopping = threading.Event()
    stopped = Places(None, places.servers, places.output, is_continued=True, stopping=stopping)
    with pytest.raises(StoppedError):
        ship(stopped, topic, file, on_sent=lambda count: stopping.set())
    assert values(places, topic) == [*range(10)]
    assert ship(places, topic, file).sent == 100


@pytest.mark.parametrize("packed", [False, True])
def test_a_last_line_without_end_that_grows_later(places, topic, tmp_path, packed):
    def content(text):
        file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())

    file = tmp_path / "a"
    content('{"key": 1}\n{"key": 2')
    shipment = ship(places, topic, file)
    assert (shipment.sent, shipment.skipped) == (2, [])
    cut = shipment.positions[str(file)]
    assert cut.cut_at_bytes == 20
    content('{"key": 1}\n{"key": 2}\n{"key": 3}\n{"key": 4}')  # the second line went on
    for _ in range(2):
        shipment = ship(places, topic, file)
        assert shipment.positions[str(file)] == cut
        (skipped,) = shipment.skipped
        assert "line 2 had no end when it was sent" in skipped.reason
        assert skipped.lines == 3
    assert len([*read_all(places, topic)]) == 2


def test_a_last_line_without_end_that_was_whole(places, topic, tmp_path):
    file = tmp_path / "a"
    file.write_text('{"key": 1}\n{"key": 2}')
    assert ship(places, topic, file).sent == 2
    file.write_text('{"key": 1}\n{"key": 2}\r\n{"key": 3}\n')
    shipment = ship(places, topic, file)
    assert (shipment.sent, shipment.skipped) == (3, [])
    assert shipment.positions[str(file)].cut_at_bytes is None
    assert values(places, topic) == [1, 2, 3]
