"""The fast path, the general path, and a validation in advance have the same results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.support import NOW_MS, LogWorkspace, append, batch, read_bytes

from odradek.log import AppendOrigin, RecordsRefused, validation
from odradek.log.errors import LongValidation
from odradek.log.log_appender import LogAppender
from odradek.log.validation import Effort, validate
from odradek.records.compression import Codec
from odradek.records.control import EndOfTransaction, end_of_transaction_batch

PRODUCERS = st.integers(7, 8)
EPOCHS = st.integers(0, 3)
SEND = st.fixed_dictionaries(
    {
        "producer_id": PRODUCERS,
        "producer_epoch": EPOCHS,
        "base_sequence": st.integers(-1, 3),
        "is_transactional": st.booleans(),
        "count": st.integers(1, 2),
        "codec": st.sampled_from((Codec.NONE, Codec.GZIP)),
        "verified": st.booleans(),
        "bumps": st.booleans(),
    }
)
END = st.fixed_dictionaries(
    {
        "committed": st.booleans(),
        "producer_id": PRODUCERS,
        "producer_epoch": EPOCHS,
        "coordinator_epoch": st.integers(0, 1),
        "transaction_version": st.sampled_from((0, 2)),
    }
)
OWN = st.fixed_dictionaries(
    {
        "timestamp": st.integers(NOW_MS - 5_000, NOW_MS + 5_000),
        "values": st.lists(st.sampled_from((b"v", b"w" * 300)), min_size=1, max_size=3),
        "leader_epoch": st.sampled_from((0, 0, 0, 1)),
    }
)
COMPRESSION = st.sampled_from(("producer", "uncompressed", "gzip"))


def next_sequence(log, step):
    """Return the producer's next sequence number plus the difference in the step."""
    entry = log.producers.entries.get(step["producer_id"])
    known = 0 if entry is None or entry.epoch != step["producer_epoch"] else entry.next_sequence
    return max(-1, known + step["base_sequence"]) if step["base_sequence"] > 1 else max(known, 0)


def send(log, step, is_validated=False):
    fields = dict(step)
    values = [b"x"] * fields.pop("count")
    verified, bumps = fields.pop("verified"), fields.pop("bumps")
    fields["base_sequence"] = next_sequence(log, step)
    guard = 0
    if verified and step["is_transactional"]:
        guard = log.start_verification(
            step["producer_id"], fields["base_sequence"], step["producer_epoch"], bumps
        )
    records = batch(*values, **fields)
    accepted = None
    if is_validated:
        accepted = validate(records, AppendOrigin.CLIENT, log.config, log.topic_partition, NOW_MS)
    return log.appender.append_as_leader(records, 0, verification_guard=guard, accepted=accepted)


def end(log, step):
    fields = dict(step)
    version = fields.pop("transaction_version")
    batch = end_of_transaction_batch(**fields, timestamp=NOW_MS)
    marker = EndOfTransaction(step["committed"], step["coordinator_epoch"])
    return log.appender.append_marker(batch, marker, 0, version)


def write(log, step):
    records = [(b"key", value) for value in step["values"]]
    return log.appender.append_own_records(step["timestamp"], records, step["leader_epoch"])


def take(log, step, is_validated=False):
    """Perform a step, and return its result or error."""
    try:
        if "values" in step:
            return write(log, step)
        info = send(log, step, is_validated) if "base_sequence" in step else end(log, step)
    except RecordsRefused as error:
        return error.code, error.message, error.record_errors
    finally:
        log.high_watermark = log.log_end_offset
    return info.base_offset, info.last_offset, info.is_duplicate


def seen(log):
    """Return all state that an append may change."""
    state = log.producers
    return (
        {
            entry.producer_id: (
                entry.epoch,
                entry.batches,
                entry.next_sequence,
                entry.coordinator_epoch,
                entry.last_timestamp,
                entry.transaction_first_offset,
            )
            for entry in state.entries.values()
        },
        state.ongoing,
        state.unreplicated,
        {key: (each.guard, each.epoch) for key, each in state.verifications.items()},
        (log.log_end_offset, log.producers.first_unstable_offset, log.last_stable_offset),
        [(segment.base_offset, segment.size, segment.max_timestamp) for segment in log.segments],
        [segment.aborted for segment in log.segments],
    )


@settings(max_examples=150, deadline=None)
@given(COMPRESSION, st.lists(SEND | SEND | END | OWN, max_size=24))
def test_all_paths_have_the_same_result(tmp_path_factory, compression, steps):
    path = tmp_path_factory.mktemp("logs")
    fast, general, validated = (
        LogWorkspace(path / name).open(compression_type=compression, segment_bytes=1500)
        for name in ("fast", "general", "validated")
    )
    general.appender.disable_fast_path()
    assert AppendOrigin.CLIENT in fast.appender._fast_path_origins
    for step in steps:
        result = take(fast, step)
        assert result == take(general, step)
        assert result == take(validated, step, is_validated=True)
        assert seen(fast) == seen(general) == seen(validated)
    assert read_bytes(fast, 0) == read_bytes(general, 0) == read_bytes(validated, 0)
    for log in (fast, general, validated):
        log.close()


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("settings", [{}, {"message_timestamp_type": "LogAppendTime"}])
def test_a_batch_that_needs_a_long_validation_changes_nothing(workspace, codec, settings):
    log = workspace.open(max_message_bytes=10 << 20, **settings)
    append(log, b"before")
    records = batch(bytes(3 << 20), codec=codec, producer_id=7, producer_epoch=0, base_sequence=0)
    before = seen(log), bytes(records)
    for _ in range(2):
        with pytest.raises(LongValidation):
            log.appender.append_as_leader(records, 0, effort=Effort.SHORT)
        with pytest.raises(LongValidation):
            log.appender.is_simple(records)
    assert (seen(log), bytes(records)) == before
    accepted = validate(records, AppendOrigin.CLIENT, log.config, log.topic_partition, NOW_MS)
    assert log.appender.append_as_leader(records, 0, accepted=accepted).base_offset == 1
    records = batch(bytes(3 << 20), codec=codec)
    assert log.append_as_leader(records, 0).base_offset == 2


@pytest.mark.parametrize(
    ("settings", "records", "is_long"),
    [
        ({}, batch(bytes(900_000), codec=Codec.ZSTD), False),
        ({}, batch(bytes(900_000)), False),
        ({"compression_type": "zstd"}, batch(bytes(900_000)), True),
        ({"compression_type": "zstd"}, batch(bytes(9_000)), False),
        ({"compression_type": "zstd"}, batch(bytes(9_000), codec=Codec.LZ4), True),
        ({"message_timestamp_before_max_ms": 1000}, batch(bytes(900_000)), True),
        ({"message_timestamp_before_max_ms": 1000}, batch(bytes(9_000)), False),
        ({"message_timestamp_before_max_ms": 1000}, batch(b"1", codec=Codec.GZIP), True),
        ({"message_timestamp_type": "LogAppendTime"}, batch(b"1", codec=Codec.GZIP), False),
        ({"cleanup_policy": "compact"}, batch((b"key", b"1"), codec=Codec.GZIP), False),
    ],
)
def test_what_needs_a_long_validation(workspace, settings, records, is_long):
    appender = workspace.open(**settings).appender
    for attempt in (
        lambda: appender.is_simple(records),
        lambda: appender.append_as_leader(bytearray(records), 0, effort=Effort.SHORT),
    ):
        if is_long:
            with pytest.raises(LongValidation):
                attempt()
        else:
            attempt()


def test_many_records_that_are_known_to_be_plain_are_not_read_one_by_one(workspace, monkeypatch):
    appender = workspace.open(message_timestamp_type="LogAppendTime").appender
    records = batch(*[b""] * 70_000)
    assert appender.is_simple(records)
    monkeypatch.setattr(validation, "skim_records", None)
    assert appender.append_as_leader(records, 0, effort=Effort.NONE).last_offset == 69_999
    assert appender.append_as_leader(batch(*[b""] * 70_000), 0, effort=Effort.SHORT)
    with pytest.raises(TypeError):  # on another thread, they are read in pieces
        appender.append_as_leader(batch(*[b""] * 70_000), 0)


def test_a_usual_transaction_takes_the_fast_path(workspace, monkeypatch):
    log = workspace.open()
    step = {
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
        "count": 1,
        "codec": Codec.NONE,
        "verified": True,
        "bumps": True,
    }
    done = {
        "committed": True,
        "producer_id": 7,
        "producer_epoch": 1,
        "coordinator_epoch": 0,
        "transaction_version": 2,
    }
    take(log, step)
    take(log, done)
    monkeypatch.setattr(LogAppender, "_append_checked", None)
    assert take(log, step | {"producer_epoch": 1}) == (2, 2, False)
    assert log.last_stable_offset == 2
    assert take(log, done | {"producer_epoch": 2}) == (3, 3, False)
    assert log.last_stable_offset == 4
